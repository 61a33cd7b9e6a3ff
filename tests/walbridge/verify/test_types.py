"""Every type of ``schemas/pg_types`` with its edge values: the two canonical texts agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.fix_postgres import Database, having_vector, new_database
from tests.in_soak import in_variants
from tests.walbridge.verify.accounts import FAR_AHEAD, verdict
from tests.walbridge.verify.handmade_lake import HandmadeLake
from tests.walbridge.verify.type_values import TYPES, fill
from walbridge.embedded.postgres import PostgresServer


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


@pytest.mark.variant(of="test_values_that_only_look_alike_differ")
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


@pytest.mark.parametrize("stored_as", ["INT96", in_variants("TIMESTAMP_MICROS")])
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
