"""Every type of ``schemas/pg_types`` with its edge values, and what the lake must hold of each.

Expected lake values are written out here, so neither side's code makes the other's expectation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.fix_postgres import Database
from tests.walbridge.verify.accounts import FAR_AHEAD
from tests.walbridge.verify.handmade_lake import HandmadeLake


class Exceptional(str):
    """The Postgres text of a value that the lake's type cannot hold."""


NAN_WITH_SIGN = "'inf'::float8 - 'inf'::float8"


# Postgres type, lake type, then (SQL, value in the lake).
TYPES: Sequence[tuple[str, pa.DataType, Sequence[tuple[str, Any]]]] = [
    ("bool", pa.bool_(), [("true", True), ("false", False)]),
    ("int2", pa.int32(), [("-32768", -32768), ("0", 0)]),
    ("int4", pa.int32(), [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)]),
    ("int8", pa.int64(), [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    ("oid", pa.int64(), [("4294967295", 2**32 - 1)]),
    (
        "float4",
        pa.float32(),
        [("'-0'", -0.0), ("0", 0.0), ("'NaN'", math.nan), ("'-inf'", -math.inf), ("1e-45", 1e-45), ("0.1", 0.1)],
    ),
    (
        "float8",
        pa.float64(),
        [("'-0'", -0.0), ("'NaN'", math.nan), (NAN_WITH_SIGN, math.nan), ("5e-324", 5e-324), ("0.1", 0.1)],
    ),
    (
        "numeric(12,8)",
        pa.decimal128(12, 8),
        [("0.00000001", Decimal("0.00000001")), ("-0.5", Decimal("-0.5")), ("'NaN'", Exceptional("NaN"))],
    ),
    ("numeric(38,0)", pa.decimal128(38, 0), [("9" * 38, Decimal("9" * 38)), ("0", Decimal(0))]),
    ("numeric(38,38)", pa.decimal128(38, 38), [("1e-38", Decimal("1e-38")), ("0", Decimal(0))]),
    ("numeric(3,-2)", pa.decimal128(5, 0), [("12345", Decimal(12300))]),
    ("numeric(2,4)", pa.decimal128(4, 4), [("0.0012", Decimal("0.0012"))]),
    ("numeric(39,1)", pa.string(), [("1.5", "1.5"), ("'NaN'", "NaN")]),
    ("numeric", pa.string(), [("1.50", "1.50"), ("1e20", "1" + "0" * 20), ("'-Infinity'", "-Infinity")]),
    ("text", pa.string(), [("''", ""), ("E'a\\nb\\\\'", "a\nb\\"), ("'😀é'", "😀é"), ("'N'", "N"), ("'1:a'", "1:a")]),
    ("text", pa.string(), [("repeat('x', 500000)", "x" * 500_000)]),
    ("char(5)", pa.string(), [("'ab'", "ab   "), ("''", "     ")]),
    ("varchar(5)", pa.string(), [("'ab '", "ab ")]),
    ("name", pa.string(), [("'pg_class'", "pg_class")]),
    ('"char"', pa.string(), [("'x'", "x"), ("''", "")]),
    ("bytea", pa.binary(), [("''", b""), ("'\\x00ff27'", b"\x00\xff'")]),
    (
        "date",
        pa.date32(),
        [
            ("'0001-01-01'", date.min),
            ("'9999-12-31'", date.max),
            ("'1969-12-31'", date(1969, 12, 31)),
            ("'0001-12-31 BC'", Exceptional("0001-12-31 BC")),
            ("'10000-01-01'", Exceptional("10000-01-01")),
            ("'-infinity'", Exceptional("-infinity")),
        ],
    ),
    (
        "timestamp",
        pa.timestamp("us"),
        [
            ("'0001-01-01'", datetime.min),
            ("'9999-12-31 23:59:59.999999'", datetime.max),
            ("'1969-12-31 23:59:59.999999'", datetime(1969, 12, 31, 23, 59, 59, 999999)),
            ("'infinity'", Exceptional("infinity")),
            ("'10000-01-01'", Exceptional("10000-01-01 00:00:00")),
            ("'0001-12-31 23:59:59.999999 BC'", Exceptional("0001-12-31 23:59:59.999999 BC")),
        ],
    ),
    (
        "timestamptz",
        pa.timestamp("us", "UTC"),
        [
            ("'0001-01-01 00:00+00'", datetime.min.replace(tzinfo=UTC)),
            ("'9999-12-31 23:59:59.999999+00'", datetime.max.replace(tzinfo=UTC)),
            ("'2024-07-01 02:00+02'", datetime(2024, 7, 1, tzinfo=UTC)),
            ("'10000-01-01 00:00+00'", Exceptional("10000-01-01 00:00:00+00")),
            ("'-infinity'", Exceptional("-infinity")),
        ],
    ),
    ("time", pa.string(), [("'24:00'", "24:00:00"), ("'00:00:00.000001'", "00:00:00.000001")]),
    ("timetz", pa.string(), [("'12:00+15:59'", "12:00:00+15:59")]),
    ("interval", pa.string(), [("'1 year -2 days 3.5 s'", "1 year -2 days +00:00:03.5"), ("'0'", "00:00:00")]),
    ("uuid", pa.string(), [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    ("json", pa.string(), [("""'{"b": 1,  "a":2}'""", '{"b": 1,  "a":2}')]),
    ("jsonb", pa.string(), [("""'{"b": 1,  "a":2}'""", '{"a": 2, "b": 1}')]),
    ("mood", pa.string(), [("'so so'", "so so")]),
    ("percent", pa.decimal128(5, 2), [("12.50", Decimal("12.50")), ("'NaN'", Exceptional("NaN"))]),
    ("share", pa.decimal128(5, 2), [("0.05", Decimal("0.05"))]),
    (
        "share[]",
        pa.list_(pa.decimal128(5, 2)),
        [("'{0.05,NULL}'", [Decimal("0.05"), None]), ("'{NaN}'", Exceptional("{NaN}"))],
    ),
    ("moods", pa.list_(pa.string()), [("'{good,NULL}'", ["good", None]), ("'{{good}}'", Exceptional("{{good}}"))]),
    ("known", pa.bool_(), [("true", True), ("false", False)]),
    (
        "moment",
        pa.timestamp("us", "UTC"),
        [("'2024-07-01 02:00+02'", datetime(2024, 7, 1, tzinfo=UTC)), ("'infinity'", Exceptional("infinity"))],
    ),
    ("weight", pa.float32(), [("0.1", 0.1), ("'-0'", -0.0)]),
    ("address", pa.string(), [("'10.0.0.1'", "10.0.0.1")]),
    ("moods[]", pa.string(), [("ARRAY['{good}'::moods]", '{"{good}"}'), ("'{}'", "{}")]),
    (
        "hstore",
        pa.map_(pa.string(), pa.string()),
        [
            ("""'a=>1, bb=>NULL, é=>"x\\""'""", [("bb", None), ("é", 'x"'), ("a", "1")]),
            ("''", []),
            ('\'""=>""\'', [("", "")]),
        ],
    ),
    ("hstore[]", pa.string(), [("ARRAY['a=>1'::hstore]", '{"\\"a\\"=>\\"1\\""}')]),
    ("vector(3)", pa.list_(pa.float32()), [("'[1,-0.0,1e-30]'", [1.0, -0.0, 1e-30])]),
    ("halfvec(2)", pa.list_(pa.float32()), [("'[0.5,65504]'", [0.5, 65504.0])]),
    ("sparsevec(5)", pa.string(), [("'{1:1.5,3:2}/5'", "{1:1.5,3:2}/5")]),
    ("citext", pa.string(), [("'ÄbC'", "ÄbC")]),
    ("citext[]", pa.list_(pa.string()), [("'{A,NULL}'", ["A", None])]),
    ("ltree", pa.string(), [("'Top.Science'", "Top.Science")]),
    ("pair", pa.string(), [("ROW(1, 'a b')", '(1,"a b")'), ("ROW(NULL, NULL)", "(,)")]),
    ("inet", pa.string(), [("'10.0.0.1/32'", "10.0.0.1"), ("'10.0.0.0/8'", "10.0.0.0/8")]),
    ("money", pa.string(), [("'1234.5'", "$1,234.50")]),
    ("bit(3)", pa.string(), [("B'101'", "101")]),
    ("int4range", pa.string(), [("'[1,3]'", "[1,4)"), ("'empty'", "empty")]),
    ("point", pa.string(), [("'(0.1,-0)'", "(0.1,-0)")]),
    ("inet[]", pa.string(), [("'{10.0.0.1,NULL}'", "{10.0.0.1,NULL}"), ("'{}'", "{}")]),
    (
        "int4[]",
        pa.list_(pa.int32()),
        [
            ("'{}'", []),
            ("'{1,NULL,3}'", [1, None, 3]),
            ("'{{1,2},{3,4}}'", Exceptional("{{1,2},{3,4}}")),
            ("'[0:1]={1,2}'", Exceptional("[0:1]={1,2}")),
        ],
    ),
    ("bool[]", pa.list_(pa.bool_()), [("'{t,f,NULL}'", [True, False, None])]),
    ("text[]", pa.list_(pa.string()), [("""'{"a,b","\\"q\\"",NULL,"NULL",""}'""", ["a,b", '"q"', None, "NULL", ""])]),
    ("bytea[]", pa.list_(pa.binary()), [("ARRAY['\\x00'::bytea, '']", [b"\0", b""])]),
    ("float8[]", pa.list_(pa.float64()), [("'{-0,NaN,0.1}'", [-0.0, math.nan, 0.1])]),
    (
        "numeric(5,2)[]",
        pa.list_(pa.decimal128(5, 2)),
        [("'{1,0.05}'", [Decimal("1.00"), Decimal("0.05")]), ("'{1,NaN}'", Exceptional("{1.00,NaN}"))],
    ),
    ("numeric[]", pa.list_(pa.string()), [("'{1.50,NaN}'", ["1.50", "NaN"])]),
    (
        "date[]",
        pa.list_(pa.date32()),
        [("'{2024-02-29}'", [date(2024, 2, 29)]), ("'{infinity,NULL}'", Exceptional("{infinity,NULL}"))],
    ),
    (
        "timestamptz[]",
        pa.list_(pa.timestamp("us", "UTC")),
        [("'{2024-07-01 02:00+02}'", [datetime(2024, 7, 1, tzinfo=UTC)])],
    ),
    ("char(3)[]", pa.list_(pa.string()), [("'{a}'", ["a  "])]),
    ("mood[]", pa.list_(pa.string()), [("'{so so,NULL}'", ["so so", None])]),
]
DEFINITIONS = """
CREATE TYPE mood AS ENUM ('good', 'so so');
CREATE DOMAIN percent AS numeric(5,2);
CREATE DOMAIN share AS percent CHECK (VALUE < 1 OR VALUE = 'NaN');
CREATE DOMAIN moods AS mood[];
CREATE DOMAIN known AS bool;
CREATE DOMAIN moment AS timestamptz;
CREATE DOMAIN weight AS float4;
CREATE DOMAIN address AS inet;
CREATE EXTENSION hstore;
CREATE EXTENSION vector;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE TYPE pair AS (a int, b text);
CREATE PUBLICATION pub FOR ALL TABLES;
"""


def fill(database: Database, lake: HandmadeLake, altered: int | None = None) -> list[str]:
    """One table a type, a null beside its values; ``altered`` drops that row's value in every lake table."""
    database.execute(DEFINITIONS)
    names = []
    for number, (pg_type, lake_type, values) in enumerate(TYPES):
        every = [*values, ("NULL", None)]
        rows = ", ".join(f"({index}, ({source})::{pg_type})" for index, (source, _) in enumerate(every))
        database.execute(
            f"CREATE TABLE t{number} (id int PRIMARY KEY, value {pg_type}); INSERT INTO t{number} VALUES {rows}"
        )
        held = [None if index == altered else value for index, (_, value) in enumerate(every)]
        lake.write(
            f"public.t{number}",
            {"id": pa.int32(), "value": lake_type},
            [
                {"id": index, "value": None if isinstance(value, Exceptional) else value}
                for index, value in enumerate(held)
            ],
            exceptional=[{"value": str(value)} if isinstance(value, Exceptional) else {} for value in held],
        )
        names.append(f"public.t{number}")
    lake.publish(FAR_AHEAD)
    return names
