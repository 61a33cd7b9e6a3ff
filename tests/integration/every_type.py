"""A table with a column of every type, and rows for it: edge values by name, then random ones.

In: a seed. Out: SQL that makes the table, rows as literals in Postgres' input syntax (None is
null), and COPY that inserts them. Postgres renders what it was given as it likes, so what a
column holds is always asked of the server. Every type of ``schemas.pg_types`` is here, its array
beside it, numerics of many scales, enums, and types that travel as text.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg
from psycopg import sql

Literal = str | None
Row = tuple[Literal, ...]
"""In the order of COLUMNS."""
Draw = Callable[[Random], str]

TYPES_SQL = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s "fine"', 'NULL', '', '{a,b}', '😀');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN words AS text[];
CREATE TYPE pair AS (a int, b text);
"""


@dataclass(frozen=True)
class TypedColumn:
    """``edges``: values worth a row of their own, as literals; ``draw`` makes a random one."""

    name: str
    sql_type: str
    edges: tuple[str, ...]
    draw: Draw

    @property
    def digits_max(self) -> int:
        """Of a numeric(p,s): the digits that hold each of its values."""
        precision, scale = map(int, self.sql_type.partition("(")[2].partition(")")[0].split(","))
        return max(precision, scale) if scale >= 0 else precision - scale


def _integer(bits: int) -> Draw:
    def draw(random: Random) -> str:
        size = random.randrange(1, bits)
        return str(random.choice((1, -1)) * random.getrandbits(size))

    return draw


def _float(code: str) -> Draw:
    """Any bits that are no NaN, of which Postgres prints one kind."""

    def draw(random: Random) -> str:
        (value,) = struct.unpack(code, random.randbytes(struct.calcsize(code)))
        if random.random() < 0.3:
            value = round(random.uniform(-1000, 1000), random.randrange(4))
        return "NaN" if value != value else repr(value)

    return draw


def _numeric(precision: int, scale: int) -> Draw:
    def draw(random: Random) -> str:
        if random.random() < 0.02:
            return "NaN"
        digits = random.randrange(10 ** random.randint(0, precision))
        return f"{random.choice(('', '-'))}{digits}e{-scale}"

    return draw


_CHARACTERS = "abcXYZ019 \t\n\r\\\"'{},;:.|()<>éßÅ漢字😀🏳️\u200d\u2028\u00a0\ufeff\x01\x7f\b\f\v"


def _text(length_max: int) -> Draw:
    def draw(random: Random) -> str:
        length = random.choice((0, 1, 3, random.randrange(length_max + 1)))
        return "".join(random.choices(_CHARACTERS, k=min(length, length_max)))

    return draw


def _bytea(random: Random) -> str:
    return "\\x" + random.randbytes(random.choice((0, 1, random.randrange(60)))).hex()


def _year(random: Random) -> int:
    return random.choice((random.randint(1, 9999), random.randint(1900, 2100), random.randint(1, 12_000)))


def _date(random: Random) -> str:
    if random.random() < 0.03:
        return random.choice(("infinity", "-infinity"))
    before_christ = random.random() < 0.03
    year = random.randint(1, 4712) if before_christ else _year(random)
    return f"{year:04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}{' BC' if before_christ else ''}"


def _time(random: Random) -> str:
    text = f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"
    decimals = random.randrange(7)
    return text + (f".{random.randrange(10**decimals):0{decimals}}" if decimals else "")


def _timestamp(random: Random) -> str:
    day = _date(random)
    if "infinity" in day:
        return day
    day, _, era = day.partition(" ")
    return f"{day} {_time(random)} {era}".strip()


def _zone(random: Random) -> str:
    return f"{random.choice('+-')}{random.randrange(15):02}:{random.choice((0, 15, 30, 45)):02}"


def _interval(random: Random) -> str:
    parts = random.sample(("years", "mons", "days", "hours", "mins", "secs"), 3)
    return " ".join(f"{random.randint(-500, 500)} {part}" for part in parts)


def _uuid(random: Random) -> str:
    return random.randbytes(16).hex()


def _json_value(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(7 if depth < 3 else 5)
    if kind == 5:
        return [_json_value(random, depth + 1) for _ in range(random.randrange(3))]
    if kind == 6:
        return {_text(4)(random): _json_value(random, depth + 1) for _ in range(random.randrange(3))}
    return (None, True, random.randint(-9, 9), random.random(), _text(8)(random))[kind]


def _json(random: Random) -> str:
    # Blanks and escapes that json keeps verbatim and jsonb does not.
    ascii_only, indent = random.random() < 0.5, random.choice((None, 1))
    return json.dumps(_json_value(random), ensure_ascii=ascii_only, indent=indent)


def _one_of(*texts: str) -> Draw:
    return lambda random: random.choice(texts)


_INTEGER_EDGES = ("0", "1", "-1", "63", "64", "-64", "-65", "127", "128", "8191", "8192", "-8193")
_FLOAT_EDGES = ("0", "-0", "NaN", "Infinity", "-Infinity", "1e16", "1e-5", "123456789", "0.1", "-1.5")
_DATE_EDGES = (
    "infinity", "-infinity", "0001-01-01", "9999-12-31", "10000-01-01", "0001-12-31 BC", "4713-01-01 BC",
    "5874897-12-31", "1970-01-01", "1969-12-31", "2000-02-29", "1900-03-01", "1582-10-10", "epoch",
)  # fmt: skip
_TIMESTAMP_EDGES = (
    "infinity", "-infinity", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00",
    "0001-12-31 23:59:59.999999 BC", "4713-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999",
    "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2000-01-01 00:00:00.000001", "2024-02-29 23:59:59.9",
    "2024-12-31 23:59:60", "2024-05-06 24:00:00", "epoch",
)  # fmt: skip
_TEXT_EDGES = (
    "", " ", "NULL", "null", "\\N", "\\", "\\\\", "\t", "\n", "\r\n", "\r", "\b\f\v", '"', "'", "{}", "{,}", ",",
    "é", "😀", "🏳️\u200d🌈", "\u2028", "a\u0300", "\U0010ffff", "\ufffd", "\x01", "\x7f", "\\x00", "\\.", "x" * 4095,
    "x" * 4096, "long " * 3000,
)  # fmt: skip
_SHORT_TEXT_EDGES = tuple(text for text in _TEXT_EDGES if len(text) < 30)
_JSON_EDGES = (
    "null", "true", "0", "-0.0", "1e400", "[]", "{}", '""', '{"b":1,  "a":[1,2 , null]}', '{"a":1,"a":2}',
    '"\\u00e9 \\ud83d\\ude00"', ' { "x" : "\\"{}\\\\" }\n', "12345678901234567890.12345678901234567890",
)  # fmt: skip


def _scalars() -> Iterator[TypedColumn]:
    int2, int4, int8 = _integer(16), _integer(32), _integer(64)
    yield TypedColumn("a_bool", "bool", ("t", "f"), _one_of("t", "f"))
    yield TypedColumn("a_int2", "int2", (*_INTEGER_EDGES, "32767", "-32768"), int2)
    yield TypedColumn("a_int4", "int4", (*_INTEGER_EDGES, "2147483647", "-2147483648"), int4)
    yield TypedColumn("a_int8", "int8", (*_INTEGER_EDGES, str(2**63 - 1), str(-(2**63))), int8)
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
    yield TypedColumn("a_float4", "float4", _FLOAT_EDGES + float4_edges, _float("<f"))
    float8_edges = ("1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "-5e-324", "0.30000000000000004")
    yield TypedColumn("a_float8", "float8", _FLOAT_EDGES + float8_edges, _float("<d"))
    numeric_edges = ("0", "NaN", "Infinity", "-Infinity", "1.500", "-0.0", "1e-1000", "-1e1000", "9" * 200)
    yield TypedColumn("a_numeric", "numeric", numeric_edges, _numeric(60, 20))
    yield TypedColumn("a_text", "text", _TEXT_EDGES, _text(60))
    yield TypedColumn("a_varchar", "varchar(40)", _SHORT_TEXT_EDGES, _text(40))
    yield TypedColumn("a_char", "char(12)", ("", " ", "a", "a  ", "\n", "😀", "twelve chars"), _text(12))
    yield TypedColumn("a_name", "name", ("", "x" * 63, "A b", '"'), _text(15))
    yield TypedColumn("a_quoted_char", '"char"', ("", "a", "\\", '"', ",", "\\001", "\\177"), _one_of(*"abc,'{"))
    all_bytes = "\\x" + bytes(range(256)).hex()
    yield TypedColumn("a_bytea", "bytea", ("\\x", "\\x00", all_bytes, "\\x" + "ff" * 5000), _bytea)
    yield TypedColumn("a_date", "date", _DATE_EDGES, _date)
    yield TypedColumn("a_timestamp", "timestamp", _TIMESTAMP_EDGES, _timestamp)
    yield TypedColumn(
        "a_timestamptz", "timestamptz", _TIMESTAMP_EDGES, lambda random: _with_zone(_timestamp(random), random)
    )
    yield TypedColumn("a_time", "time", ("00:00:00", "24:00:00", "23:59:59.999999", "12:00:00.1"), _time)
    timetz_edges = ("00:00:00+00", "24:00:00-15:59:59", "12:00:00.5+15:59:59", "23:59:59.999999-00:00:01")
    yield TypedColumn("a_timetz", "timetz", timetz_edges, lambda random: _time(random) + _zone(random))
    interval_edges = (
        "0", "1 year 2 mons -3 days 04:05:06.789", "-1 mon +2 days -3.5 h", "infinity", "-infinity", "0.000001 s",
        "178000000 years", "-178000000 years", "-00:00:00.5",
    )  # fmt: skip
    yield TypedColumn("a_interval", "interval", interval_edges, _interval)
    yield TypedColumn("a_uuid", "uuid", ("0" * 32, "f" * 32), _uuid)
    yield TypedColumn("a_json", "json", _JSON_EDGES, _json)
    yield TypedColumn("a_jsonb", "jsonb", tuple(edge for edge in _JSON_EDGES), _json)
    yield TypedColumn("a_mood", "mood", _MOODS, _one_of(*_MOODS))


_MOODS = ("sad", "ok", 'it\'s "fine"', "NULL", "", "{a,b}", "😀")


def _with_zone(text: str, random: Random) -> str:
    if "infinity" in text:
        return text
    day_and_time, space, era = text.partition(" BC")
    return day_and_time + _zone(random) + space + era


NUMERIC_SCALES = (
    (10, 0), (10, 2), (38, 0), (38, 38), (38, 10), (1, 0), (5, 5), (3, 5), (2, -3), (18, 9), (19, 1), (4, 4), (20, 20),
    (30, 6), (39, 2), (100, 50), (38, -1),
)  # fmt: skip


def _numerics() -> Iterator[TypedColumn]:
    for precision, scale in NUMERIC_SCALES:
        largest = f"{'9' * precision}e{-scale}"
        edges = ("0", f"1e{-scale}", f"-1e{-scale}", largest, f"-{largest}", "NaN", "-0")
        name = f"n_{precision}_{scale}".replace("-", "m")
        yield TypedColumn(name, f"numeric({precision},{scale})", edges, _numeric(precision, scale))


def array_literal(items: Iterable[Literal]) -> str:
    """Every element quoted, which array input allows."""
    return "{" + ",".join("NULL" if item is None else _quoted(item) for item in items) + "}"


def _quoted(item: str) -> str:
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array_of(column: TypedColumn) -> TypedColumn:
    """The array of a scalar column: shapes as edges, elements drawn as the scalar's."""
    first, last = column.edges[0], column.edges[-1]
    edges = (
        "{}",
        "{NULL}",
        array_literal([first]),
        array_literal([first, None, last]),
        array_literal(column.edges),
        f"[0:1]={array_literal([first, last])}",
        f"[2:2]={array_literal([first])}",
        f"{{{array_literal([first, last])},{array_literal([None, last])}}}",
        f"[1:1][-1:0]={{{array_literal([first, last])}}}",
    )

    def draw(random: Random) -> str:
        count = random.choice((0, 1, 2, 5))
        return array_literal(None if random.random() < 0.2 else column.draw(random) for _ in range(count))

    return TypedColumn("array_" + column.name[2:], f"{column.sql_type}[]", edges, draw)


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
    "positive": ("1", "2147483647"),
    "words": ("{}", '{"a b",NULL}'),
    "pair": ("(,)", '(1,"x, ""y"" \\\\ ()")', "(-1,)"),
    "pair[]": ("{}", '{"(1,\\"a b\\")",NULL}'),
}


def _as_text() -> Iterator[TypedColumn]:
    for sql_type, texts in _AS_TEXT.items():
        name = "text_" + "".join(char if char.isalnum() else "_" for char in sql_type)
        yield TypedColumn(name, sql_type, texts, _one_of(*texts))


_SCALARS = tuple(_scalars())
COLUMNS = (*_SCALARS, *_numerics(), *map(array_of, _SCALARS), array_of(next(_numerics())), *_as_text())
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
