"""Key columns of every kind, and the ways in which an index may order them.

In: a random source. Out: a table with one key index of one to three drawn columns, and rows for it.
What a version of Postgres does not take of the rows is left out by the server itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import psycopg

from tests.fix_postgres import Database
from tests.integration.drawn_values import (
    DATE_EDGES,
    FLOAT_EDGES,
    INTEGER_EDGES,
    SHORT_TEXT_EDGES,
    TIMESTAMP_EDGES,
    Draw,
    any_bytea,
    any_date,
    any_float,
    any_integer,
    any_interval,
    any_numeric,
    any_text,
    any_timestamp,
    any_uuid,
    one_of,
)
from walbridge.producer.postgres.facts import PublishedTable

TYPES_SQL = """
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s "fine"', '', '😀', 'Sad');
CREATE DOMAIN feeling AS mood;
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE DOMAIN smaller AS small CHECK (VALUE < 50);
CREATE DOMAIN word AS varchar(20);
CREATE DOMAIN words AS text[];
CREATE TYPE pair AS (a int, b text);
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION "by {numbers}" (provider = icu, locale = 'en-u-kn-true');
"""
COLLATIONS = ('COLLATE "C"', "COLLATE any_case", 'COLLATE "by {numbers}"', 'COLLATE "de-x-icu"', 'COLLATE "POSIX"')
PATTERNS = ("text_pattern_ops", 'COLLATE "C" text_pattern_ops')


@dataclass(frozen=True)
class KeyKind:
    """A type, values of it as literals, and what an index of it may name besides: collations, operator classes."""

    sql_type: str
    edges: tuple[str, ...]
    draw: Draw
    options: tuple[str, ...] = ("",)


WORDS = ("a", "A", "b", "B", "ä", "Z", "a10", "a9", "a-b", "ab", "co-op", "coop", "ß", "ss", *SHORT_TEXT_EDGES)
MOODS = ("sad", "ok", 'it\'s "fine"', "", "😀", "Sad")
KINDS = (
    KeyKind("int", INTEGER_EDGES, any_integer(32)),
    KeyKind("bigint", INTEGER_EDGES, any_integer(64)),
    KeyKind("bool", ("t", "f"), one_of("t", "f")),
    KeyKind("numeric", ("0", "-0.0", "1", "1.0", "1.000", "NaN", "Infinity", "-Infinity"), any_numeric(30, 10)),
    KeyKind("numeric(8,2)", ("0", "1.5", "NaN"), any_numeric(6, 2)),
    KeyKind("float4", FLOAT_EDGES, any_float("<f")),
    KeyKind("float8", (*FLOAT_EDGES, "0.30000000000000004", "0.3"), any_float("<d")),
    KeyKind("text", WORDS, any_text(8), ("", *COLLATIONS, *PATTERNS)),
    KeyKind("text COLLATE any_case", WORDS, any_text(3), ("", 'COLLATE "C"')),
    KeyKind("varchar(12)", WORDS, any_text(8), ("", *COLLATIONS, "varchar_pattern_ops", "text_ops")),
    KeyKind("char(6)", ("", "a", "a ", "A", "b"), any_text(4), ("", 'COLLATE "C"', "bpchar_pattern_ops")),
    KeyKind("name", ("", "a", "B", '"'), any_text(6), ("", 'COLLATE "de-x-icu"')),
    KeyKind('"char"', ("a", "b", "\\", ""), one_of(*"abcXYZ,'{")),
    KeyKind("word", WORDS, any_text(8), ("", 'COLLATE "C"')),
    KeyKind("citext", WORDS, any_text(6), ("", "text_ops", "citext_pattern_ops")),
    KeyKind("uuid", ("0" * 32, "f" * 32), any_uuid),
    KeyKind("bytea", ("\\x", "\\x00", "\\xff", "\\x5c"), any_bytea),
    KeyKind("date", DATE_EDGES, any_date),
    KeyKind("timestamptz", TIMESTAMP_EDGES, any_timestamp),
    KeyKind("timestamp", TIMESTAMP_EDGES, any_timestamp),
    KeyKind("interval", ("0", "1 mon", "30 days", "720:00:00", "-1 day", "24:00:00"), any_interval),
    KeyKind("mood", MOODS, one_of(*MOODS)),
    KeyKind("feeling", MOODS, one_of(*MOODS)),
    KeyKind("smaller", ("1", "49", "-7"), lambda random: str(random.randrange(-1000, 50))),
    KeyKind("int[]", ("{}", "{NULL}", "{1}", "{1,2}", "[0:1]={1,2}"), one_of("{3,4}", "{{1},{2}}", "{9}", "{1,NULL}")),
    KeyKind("text[]", ("{}", '{""}', '{"a","B"}', "{a,b}"), one_of('{"ß,"}', "{z}"), ("", 'COLLATE "C"')),
    KeyKind("words", ("{}", "{a}"), one_of("{b,c}", "{NULL}", "{d}")),
    KeyKind("int4range", ("empty", "(,)", "[1,2)", "[1,)", "(,5]"), one_of("[3,9)", "[-4,0]", "[7,8]")),
    KeyKind("tstzrange", ("empty", "[2024-01-01,2025-01-01)"), one_of("[2020-02-02,)", "(,1999-01-01]")),
    KeyKind("pair", ('(1,a)', '(1,"b, c")', "(,)", "(2,)"), one_of("(3,x)", '(4,"""")')),
    KeyKind("inet", ("10.0.0.1", "10.0.0.1/8", "::1"), one_of("192.168.0.1", "192.168.0.0/16", "fe80::1")),
    KeyKind("bit(3)", ("000", "101", "111"), one_of("001", "010")),
    KeyKind("varbit", ("", "0", "00", "1"), one_of("01", "10", "111")),
    KeyKind("ltree", ("", "Top", "Top.a"), one_of("a.b", "a.c", "b")),
    KeyKind("jsonb", ("null", "1", '"a"', "[1]", '{"a": 1}'), one_of("2", "true", '{"b": [1, 2]}')),
    KeyKind("money", ("0", "-1.5", "1234567.89"), one_of("1", "2", "3.33")),
)  # fmt: skip


@dataclass(frozen=True)
class KeyedTable:
    """``definition`` is told when a test fails."""

    published: PublishedTable
    definition: str
    key_names: tuple[str, ...]


def drawn_table(database: Database, random: Random, row_count: int, *, partitioned: bool = False) -> KeyedTable:
    """A fresh table ``t`` with rows, whose key is an index of drawn columns."""
    kinds = random.choices(KINDS, k=random.choice((1, 1, 2, 3)))
    names = [f'k{number} "{{%s' for number in range(len(kinds))]
    columns = ", ".join(f"{_quoted(name)} {kind.sql_type} NOT NULL" for name, kind in zip(names, kinds, strict=True))
    parts = " PARTITION BY LIST (part)" if partitioned else ""
    indexed = [f"{_quoted(name)} {_order(kind, random)}" for name, kind in zip(names, kinds, strict=True)]
    if partitioned:
        indexed.insert(random.randrange(len(indexed) + 1), "part")
    create = f"CREATE TABLE t (v text, part int NOT NULL DEFAULT 0, {columns}){parts}; "
    index = f"CREATE UNIQUE INDEX t_key ON t ({', '.join(indexed)}) INCLUDE (v)"
    database.execute("DROP TABLE IF EXISTS t; " + create + index)
    if partitioned:
        database.execute(
            "CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0, 1); CREATE TABLE t_2 PARTITION OF t DEFAULT"
        )
    database.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_key")
    with database.connect() as connection:
        for number in range(row_count):
            values = [random.choice(kind.edges) if random.random() < 0.4 else kind.draw(random) for kind in kinds]
            insert = f"INSERT INTO t VALUES (%s, %s{', %s' * len(kinds)}) ON CONFLICT DO NOTHING"
            try:
                connection.execute(insert.encode(), (f"row {number}\t\\", number % 4, *values))
            except psycopg.Error:
                continue  # a value that this version does not know, or too large for an index
    relation_id = database.value("SELECT 't'::regclass::oid")
    published = PublishedTable(relation_id, "public", "t", "i", ("v", "part", *names), None, partitioned)
    return KeyedTable(published, create + index, tuple(names))


def _order(kind: KeyKind, random: Random) -> str:
    return f"{random.choice(kind.options)} {random.choice(('', 'ASC', 'DESC'))} " + random.choice(
        ("", "NULLS FIRST", "NULLS LAST")
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
