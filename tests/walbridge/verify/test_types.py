"""Every type of ``schemas/pg_types`` with its edge values: the two canonical texts agree.

Expected lake values are written out here, so neither side's code makes the other's expectation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.fix_postgres import Database, having_vector, new_database
from tests.walbridge.verify.accounts import FAR_AHEAD, verdict
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.embedded.postgres import PostgresServer


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


@pytest.fixture(scope="module")
def postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """One that has pgvector."""
    with having_vector(postgres) as server:
        yield server


def test_every_type_is_equal_when_the_lake_holds_what_postgres_holds(database: Database, lake: Path) -> None:
    handmade = HandmadeLake(lake)
    names = fill(database, handmade)
    code, tables = verdict(database, handmade)
    unequal = [TYPES[int(name.removeprefix("public.t"))][0] for name in names if not tables[name]["equal"]]
    assert (code, unequal) == (0, [])


def test_every_type_is_unequal_when_one_value_is_null_in_the_lake(database: Database, lake: Path) -> None:
    handmade = HandmadeLake(lake)
    names = fill(database, handmade, altered=0)
    _, tables = verdict(database, handmade)
    assert {name: tables[name]["keys"]["different"] for name in names} == {name: ["id=0"] for name in names}


@pytest.mark.parametrize("setting", ["DateStyle 'SQL, DMY'", "TimeZone 'America/New_York'", "bytea_output escape"])
def test_settings_of_the_database_change_nothing(database: Database, lake: Path, setting: str) -> None:
    name, value = setting.split(" ", 1)
    database.execute(f"ALTER DATABASE {database.name} SET {name} = {value}")
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, day date, at timestamptz, raw bytea, inside timestamptz[]);"
        "INSERT INTO t VALUES (1, '0044-03-15 BC', '10000-01-01 00:00+00', '\\x00', '{{2024-01-01 00:00+00}}');"
        "CREATE PUBLICATION pub FOR ALL TABLES"
    )
    moment = pa.timestamp("us", "UTC")
    types = {"id": pa.int32(), "day": pa.date32(), "at": moment, "raw": pa.binary(), "inside": pa.list_(moment)}
    handmade = HandmadeLake(lake)
    texts = {
        "day": "0044-03-15 BC",
        "at": "10000-01-01 00:00:00+00",
        "inside": '{{"2024-01-01 00:00:00+00"}}',
    }
    handmade.write("public.t", types, [{"id": 1, "raw": b"\0"}], exceptional=[texts])
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 0


@pytest.mark.parametrize("stored_as", ["INT96", "TIMESTAMP_MICROS"])
def test_timestamps_as_spark_stores_them_are_read_to_the_microsecond(
    database: Database, lake: Path, spark: Any, stored_as: str
) -> None:
    """INT96 in nanoseconds would wrap outside the years 1677 to 2262."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, local timestamp);"
        "INSERT INTO t VALUES (1, '0001-01-01 00:00+00', '0001-01-01'), (2, '9999-12-31 23:59:59.999999+00',"
        " '9999-12-31 23:59:59.999999'); CREATE PUBLICATION pub FOR ALL TABLES"
    )
    handmade = HandmadeLake(lake)
    moment, local = pa.timestamp("us", "UTC"), pa.timestamp("us")
    handmade.write("public.t", {"id": pa.int32(), "at": moment, "local": local}, [])
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.outputTimestampType", stored_as)
    struct = "named_struct('commit_lsn', 1L, 'ordinal', -1L, 'commit_time', null, 'op', 'r', 'exceptional', null,"
    for number, text in ((1, "0001-01-01 00:00:00"), (2, "9999-12-31 23:59:59.999999")):
        session.sql(
            f"INSERT INTO delta.`{lake}/public/t` SELECT {number}, timestamp '{text} UTC', timestamp_ntz '{text}',"
            f" {struct} 'key_text', null)"
        )
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 0


def test_microseconds_of_far_years_are_exact_on_a_server_whose_epoch_is_a_float(
    postgres_version: Callable[[int], PostgresServer], lake: Path
) -> None:
    handmade = HandmadeLake(lake)
    moment = pa.timestamp("us", "UTC")
    far = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    with new_database(postgres_version(13)) as database:
        database.execute(
            f"CREATE TABLE t (id int PRIMARY KEY, at timestamptz); INSERT INTO t VALUES (1, '{far}'),"
            f" (2, '0001-01-01 00:00:00.000001+00'); CREATE PUBLICATION pub FOR ALL TABLES"
        )
        near = datetime(1, 1, 1, microsecond=1, tzinfo=UTC)
        handmade.write("public.t", {"id": pa.int32(), "at": moment}, [{"id": 1, "at": far}, {"id": 2, "at": near}])
        handmade.publish(FAR_AHEAD)
        assert verdict(database, handmade)[0] == 0
        near = near.replace(microsecond=2)
        handmade.write("public.t", {"id": pa.int32(), "at": moment}, [{"id": 1, "at": far}, {"id": 2, "at": near}])
        handmade.publish(FAR_AHEAD)
        assert verdict(database, handmade)[1]["public.t"]["keys"]["different"] == ["id=2"]
