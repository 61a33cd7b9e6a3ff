"""A table with a column of every type, and rows for it: edge values by name, then random ones.

In: a seed. Out: SQL that makes the table, rows as literals in Postgres' input syntax (None is
null), and COPY that inserts them. Postgres renders what it was given as it likes, so what a
column holds is always asked of the server. Every type of ``walbridge.schemas.pg_types`` is here, its array
beside it, numerics of many scales, enums, domains, extensions' types, and types that travel as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import psycopg
from psycopg import sql

from tests.integration.drawn_values import (
    DATE_EDGES,
    FLOAT_EDGES,
    INTEGER_EDGES,
    JSON_EDGES,
    SHORT_TEXT_EDGES,
    TEXT_EDGES,
    TIMESTAMP_EDGES,
    any_bytea,
    any_date,
    any_float,
    any_integer,
    any_interval,
    any_json,
    any_numeric,
    any_text,
    any_time,
    any_timestamp,
    any_uuid,
    any_zone,
    one_of,
    with_zone,
)
from tests.integration.typed_columns import Literal, TypedColumn, array_of, quoted

Row = tuple[Literal, ...]
"""In the order of COLUMNS."""
TYPES_SQL = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s "fine"', 'NULL', '', '{a,b}', '😀');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN small AS positive CHECK (VALUE < 100);
CREATE DOMAIN price AS numeric(10,2);
CREATE DOMAIN fee AS price;
CREATE DOMAIN moment AS timestamptz;
CREATE DOMAIN feeling AS mood;
CREATE DOMAIN words AS text[];
CREATE DOMAIN address AS inet;
CREATE TYPE pair AS (a int, b text);
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE EXTENSION vector;
"""


def _scalars() -> Iterator[TypedColumn]:
    int2, int4, int8 = any_integer(16), any_integer(32), any_integer(64)
    yield TypedColumn("a_bool", "bool", ("t", "f"), one_of("t", "f"))
    yield TypedColumn("a_int2", "int2", (*INTEGER_EDGES, "32767", "-32768"), int2)
    yield TypedColumn("a_int4", "int4", (*INTEGER_EDGES, "2147483647", "-2147483648"), int4)
    yield TypedColumn("a_int8", "int8", (*INTEGER_EDGES, str(2**63 - 1), str(-(2**63))), int8)
    yield TypedColumn(
        "a_oid", "oid", ("0", "4294967295", "2147483648"), lambda random: str(random.getrandbits(random.randint(1, 32)))
    )
    float4_edges = (
        "3.4028235e38",
        "-3.4028235e38",
        "1.1754944e-38",
        "1e-45",
        "-1e-45",
        "7.038531e-26",
        "1.1754942e-38",
    )
    yield TypedColumn("a_float4", "float4", FLOAT_EDGES + float4_edges, any_float("<f"))
    float8_edges = ("1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "-5e-324", "0.30000000000000004")
    yield TypedColumn("a_float8", "float8", FLOAT_EDGES + float8_edges, any_float("<d"))
    numeric_edges = ("0", "NaN", "Infinity", "-Infinity", "1.500", "-0.0", "1e-1000", "-1e1000", "9" * 200)
    yield TypedColumn("a_numeric", "numeric", numeric_edges, any_numeric(60, 20))
    yield TypedColumn("a_text", "text", TEXT_EDGES, any_text(60))
    yield TypedColumn("a_varchar", "varchar(40)", SHORT_TEXT_EDGES, any_text(40))
    yield TypedColumn("a_char", "char(12)", ("", " ", "a", "a  ", "\n", "😀", "twelve chars"), any_text(12))
    yield TypedColumn("a_name", "name", ("", "x" * 63, "A b", '"'), any_text(15))
    yield TypedColumn("a_quoted_char", '"char"', ("", "a", "\\", '"', ",", "\\001", "\\177"), one_of(*"abc,'{"))
    all_bytes = "\\x" + bytes(range(256)).hex()
    yield TypedColumn("a_bytea", "bytea", ("\\x", "\\x00", all_bytes, "\\x" + "ff" * 5000), any_bytea)
    yield TypedColumn("a_date", "date", DATE_EDGES, any_date)
    yield TypedColumn("a_timestamp", "timestamp", TIMESTAMP_EDGES, any_timestamp)
    yield TypedColumn(
        "a_timestamptz", "timestamptz", TIMESTAMP_EDGES, lambda random: with_zone(any_timestamp(random), random)
    )
    yield TypedColumn("a_time", "time", ("00:00:00", "24:00:00", "23:59:59.999999", "12:00:00.1"), any_time)
    timetz_edges = ("00:00:00+00", "24:00:00-15:59:59", "12:00:00.5+15:59:59", "23:59:59.999999-00:00:01")
    yield TypedColumn("a_timetz", "timetz", timetz_edges, lambda random: any_time(random) + any_zone(random))
    interval_edges = (
        "0", "1 year 2 mons -3 days 04:05:06.789", "-1 mon +2 days -3.5 h", "infinity", "-infinity", "0.000001 s",
        "178000000 years", "-178000000 years", "-00:00:00.5",
    )  # fmt: skip
    yield TypedColumn("a_interval", "interval", interval_edges, any_interval)
    yield TypedColumn("a_uuid", "uuid", ("0" * 32, "f" * 32), any_uuid)
    yield TypedColumn("a_json", "json", JSON_EDGES, any_json)
    yield TypedColumn("a_jsonb", "jsonb", tuple(edge for edge in JSON_EDGES), any_json)
    yield TypedColumn("a_mood", "mood", _MOODS, one_of(*_MOODS))


def _domains() -> Iterator[TypedColumn]:
    yield TypedColumn("d_small", "small", ("1", "99"), lambda random: str(random.randrange(1, 100)), "int4")
    yield TypedColumn("d_fee", "fee", ("0", "-0.01", "99999999.99", "NaN"), any_numeric(10, 2), "numeric(10,2)")
    yield TypedColumn(
        "d_moment", "moment", TIMESTAMP_EDGES, lambda random: with_zone(any_timestamp(random), random), "timestamptz"
    )
    yield TypedColumn("d_feeling", "feeling", _MOODS, one_of(*_MOODS), "mood")


def _extensions() -> Iterator[TypedColumn]:
    yield TypedColumn("e_citext", "citext", ("", "ß", "ABC abc"), any_text(20))
    yield TypedColumn("e_ltree", "ltree", ("", "Top", "Top.Science.Astronomy_1"), one_of("a.b", "a.c", "Top"))


def _maps_and_vectors() -> Iterator[TypedColumn]:
    edges = (
        "",
        '"a"=>NULL',
        '"NULL"=>"NULL", ""=>""',
        r'"\\\""=>"=>, \"", "\\"=>"\\"',
        '"é"=>"😀", "aaa"=>"1", "b"=>"2"',
    )
    yield TypedColumn("e_hstore", "hstore", edges, _any_map)
    yield TypedColumn("e_vector", "vector", ("[0,-0,1]", "[1e-45,3.4028235e38,7.038531e-26]", "[0.1]"), _any_vector)
    yield TypedColumn("e_halfvec", "halfvec", ("[0,-0,65504]", "[0.1,6e-8]"), one_of("[0.1,2]", "[3]"))


def _any_map(random: Random) -> str:
    entries = {any_text(5)(random): random.choice((None, any_text(9)(random))) for _ in range(random.randrange(5))}
    return ",".join(f"{quoted(key)}=>{'NULL' if value is None else quoted(value)}" for key, value in entries.items())


def _any_vector(random: Random) -> str:
    drawn = (any_float("<f")(random) for _ in range(random.randint(1, 20)))
    return f"[{','.join(each if each[-1:].isdigit() else '0.5' for each in drawn)}]"


_MOODS = ("sad", "ok", 'it\'s "fine"', "NULL", "", "{a,b}", "😀")
NUMERIC_SCALES = (
    (10, 0), (10, 2), (38, 0), (38, 38), (38, 10), (1, 0), (5, 5), (3, 5), (2, -3), (18, 9), (19, 1), (4, 4), (20, 20),
    (30, 6), (39, 2), (100, 50), (38, -1),
)  # fmt: skip


def _numerics() -> Iterator[TypedColumn]:
    for precision, scale in NUMERIC_SCALES:
        largest = f"{'9' * precision}e{-scale}"
        edges = ("0", f"1e{-scale}", f"-1e{-scale}", largest, f"-{largest}", "NaN", "-0")
        name = f"n_{precision}_{scale}".replace("-", "m")
        yield TypedColumn(name, f"numeric({precision},{scale})", edges, any_numeric(precision, scale))


_AS_TEXT = {
    "inet": ("10.1.2.3/8", "::1", "::ffff:1.2.3.4/128", "192.168.0.1"),
    "cidr": ("10.0.0.0/8", "2001:db8::/32"),
    "macaddr": ("08:00:2b:01:02:03",),
    "money": ("0", "-1234567.89", "92233720368547758.07"),
    "bit(5)": ("00000", "10101"),
    "varbit": ("", "1", "1010101010"),
    "point": ("(0,-0)", "(1e300,-1.5)", "(NaN,Infinity)"),
    "box": ("(1,2),(3,4)",),
    "box[]": ("{(1,2),(3,4);(5,6),(7,8)}", "{}"),
    "path": ("((0,0),(1,1))", "[(0,0),(1,1)]"),
    "int4range": ("empty", "[1,5)", "(,)", "[1,)"),
    "tstzrange": ('["2024-01-01 00:00:00+05",infinity)', "empty"),
    "int4multirange": ("{}", "{[1,3),[5,7)}"),
    "tsvector": ("", "'a':1A 'it''s':2"),
    "pg_lsn": ("0/0", "FFFFFFFF/FFFFFFFF"),
    "xid8": ("0", str(2**64 - 1)),
    "regclass": ("pg_class",),
    "jsonpath": ('$."a b"[*] ? (@ > 1)',),
    "address": ("10.1.2.3/8", "::1"),
    "words[]": ("{}", '{"{a,b}",NULL}'),
    "hstore[]": ("{}", '{"a=>1",NULL}'),
    "vector[]": ('{"[1,2]"}',),
    "sparsevec": ("{1:1.5,3:2}/5",),
    "macaddr8": ("08:00:2b:01:02:03:04:05",),
    "circle": ("<(1,2),3>",),
    "tsquery": ("'a' & !'b'",),
    "pair": ("(,)", '(1,"x, ""y"" \\\\ ()")', "(-1,)"),
    "pair[]": ("{}", '{"(1,\\"a b\\")",NULL}'),
}


def _as_text() -> Iterator[TypedColumn]:
    for sql_type, texts in _AS_TEXT.items():
        name = "text_" + "".join(char if char.isalnum() else "_" for char in sql_type)
        yield TypedColumn(name, sql_type, texts, one_of(*texts))


_SCALARS = tuple(_scalars())
_MORE = (*_domains(), *_extensions())
_WORDS = ("{}", '{"a b",NULL}', "{{a},{b}}")
COLUMNS = (
    *_SCALARS,
    *_numerics(),
    *_MORE,
    *map(array_of, (*_SCALARS, next(_numerics()), *_MORE)),
    TypedColumn("array_words", "words", _WORDS, one_of(*_WORDS), "text[]"),
    *_maps_and_vectors(),
    *_as_text(),
)
NAMES = tuple(column.name for column in COLUMNS)


def create_statements(table: str = "every_type") -> str:
    """The types and the table: ``id`` is the primary key, the rest are COLUMNS, all nullable."""
    columns = ", ".join(f"{column.name} {column.sql_type}" for column in COLUMNS)
    return f"{TYPES_SQL} CREATE TABLE {table} (id bigint PRIMARY KEY, {columns});"


def edge_rows() -> list[Row]:
    """A row of nulls, then rows that together hold each edge of each column."""
    count = max(len(column.edges) for column in COLUMNS)
    return [
        (None,) * len(COLUMNS),
        *(tuple(column.edges[n % len(column.edges)] for column in COLUMNS) for n in range(count)),
    ]


def random_rows(seed: int, count: int) -> Iterator[Row]:
    """As many rows, one value in eight null."""
    random = Random(seed)
    for _ in range(count):
        yield tuple(None if random.random() < 0.125 else column.draw(random) for column in COLUMNS)


def insert(
    connection: psycopg.Connection[Any], rows: Iterable[Row], first_id: int = 1, table: str = "every_type"
) -> int:
    """COPY rows in, with ids from ``first_id``; the id after the last."""
    statement = sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(*table.split(".")))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row((first_id, *row))
            first_id += 1
    return first_id
