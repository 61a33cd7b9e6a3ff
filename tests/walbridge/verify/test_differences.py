"""verify against a real Postgres and a lake made by hand: what is wrong in the lake is found."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.fix_postgres import Database
from tests.in_soak import in_variants
from tests.walbridge.verify.accounts import ACCOUNTS, FAR_AHEAD, accounts, settings_of, verdict
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.verify import verify


def test_a_lake_that_holds_the_same_rows_is_equal(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS[::-1])
    said: list[str] = []
    assert verify(settings_of(database, handmade), out=said.append) == 0
    assert said == ["public.accounts  equal  5 rows  at 10000000/0"]


def test_one_altered_value_is_found_by_its_key(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, [*ACCOUNTS[:4], ACCOUNTS[4] | {"owner": "owner 6"}])
    code, tables = verdict(database, handmade)
    assert code == 1
    assert tables["public.accounts"]["different"] == 1
    assert tables["public.accounts"]["keys"]["different"] == ["id=5"]


def test_one_dropped_row_is_found_by_its_key(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, [row for row in ACCOUNTS if row["id"] != 3])
    code, tables = verdict(database, handmade)
    assert code == 1
    assert tables["public.accounts"]["missing"] == 1
    assert tables["public.accounts"]["keys"]["missing"] == ["id=3"]


def test_a_row_that_the_source_never_had_is_found(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, [*ACCOUNTS, {"id": 6, "owner": "ghost", "balance": 0.0}])
    code, tables = verdict(database, handmade)
    assert code == 1
    assert tables["public.accounts"]["keys"]["extra"] == ["id=6"]


def test_one_doubled_row_of_a_table_without_a_key_is_found(database: Database, handmade: HandmadeLake) -> None:
    database.execute(
        "CREATE TABLE history (delta int); INSERT INTO history VALUES (1), (1), (2);"
        "CREATE PUBLICATION pub FOR ALL TABLES"
    )
    handmade.write("public.history", {"delta": pa.int32()}, [{"delta": value} for value in (1, 1, 1, 2)])
    handmade.publish(FAR_AHEAD)
    code, tables = verdict(database, handmade)
    assert code == 1
    assert (tables["public.history"]["extra"], tables["public.history"]["missing"]) == (1, 0)


@pytest.mark.parametrize(
    ("source", "kind", "in_lake"),
    [
        ("float8 '-0'", pa.float64(), 0.0),
        in_variants("float4 '-0'", pa.float32(), 0.0),
        in_variants("float8 '0.1'", pa.float64(), 0.1 + 2**-56),
        in_variants("float8 'NaN'", pa.float64(), None),
        ("text ''", pa.string(), None),
        in_variants("text 'a '", pa.string(), "a"),
        ("numeric '1.50'", pa.string(), "1.5"),
        in_variants("bytea '\\x00'", pa.binary(), b""),
        in_variants("false", pa.bool_(), None),
        ("timestamptz '2000-01-01 00:00:00.000001+00'", pa.timestamp("us", "UTC"), datetime(2000, 1, 1, tzinfo=UTC)),
        ("date 'infinity'", pa.date32(), None),
        in_variants("ARRAY[1, NULL]", pa.list_(pa.int32()), [1]),
        in_variants("ARRAY['a,b']", pa.list_(pa.string()), ["a", "b"]),
        ("'{}'::int[]", pa.list_(pa.int32()), None),
    ],
)
def test_values_that_only_look_alike_differ(
    database: Database, handmade: HandmadeLake, source: str, kind: pa.DataType, in_lake: Any
) -> None:
    database.execute(f"CREATE TABLE t AS SELECT 1 AS id, {source} AS value; CREATE PUBLICATION pub FOR ALL TABLES")
    database.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
    handmade.write("public.t", {"id": pa.int32(), "value": kind}, [{"id": 1, "value": in_lake}])
    handmade.publish(FAR_AHEAD)
    code, tables = verdict(database, handmade)
    assert code == 1
    assert tables["public.t"]["different"] == 1


@pytest.mark.parametrize(
    ("source", "kind", "in_lake", "text"),
    [
        ("date '2024-02-29'", pa.date32(), date(2024, 2, 29), "infinity"),
        ("1.50::numeric(5,2)", pa.decimal128(5, 2), Decimal("1.50"), "NaN"),
        ("1.50::numeric(5,2)", pa.decimal128(5, 2), None, "1.50"),
        ("7", pa.int32(), None, "7"),
        ("text 'a'", pa.string(), None, "a"),
    ],
)
def test_a_text_beside_a_value_or_in_place_of_one_that_the_lake_can_hold_is_a_difference(
    database: Database, handmade: HandmadeLake, source: str, kind: pa.DataType, in_lake: Any, text: str
) -> None:
    """A reader of the column and one that takes the text would each see another value."""
    database.execute(f"CREATE TABLE t AS SELECT 1 AS id, {source} AS value; CREATE PUBLICATION pub FOR ALL TABLES")
    handmade.write(
        "public.t", {"id": pa.int32(), "value": kind}, [{"id": 1, "value": in_lake}], exceptional=[{"value": text}]
    )
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 1


@pytest.mark.parametrize(
    ("source", "kind", "in_lake"),
    [
        ("timestamptz '2024-02-29 12:00+00'", pa.timestamp("us"), datetime(2024, 2, 29, 12)),
        ("timestamp '2024-02-29 12:00'", pa.timestamp("us", "UTC"), datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("ARRAY[timestamp '2024-02-29']", pa.list_(pa.timestamp("us", "UTC")), [datetime(2024, 2, 29, tzinfo=UTC)]),
    ],
)
def test_a_moment_is_no_local_time(
    database: Database, handmade: HandmadeLake, source: str, kind: pa.DataType, in_lake: Any
) -> None:
    database.execute(f"CREATE TABLE t AS SELECT 1 AS id, {source} AS value; CREATE PUBLICATION pub FOR ALL TABLES")
    handmade.write("public.t", {"id": pa.int32(), "value": kind}, [{"id": 1, "value": in_lake}])
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 1


def test_columns_whose_contents_are_exchanged_differ_whatever_their_metadata_says(
    database: Database, handmade: HandmadeLake
) -> None:
    """Readers go by the lake's names."""
    accounts(database, handmade, ACCOUNTS)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text); INSERT INTO t VALUES (1, 'x', 'y')")
    types = {"id": pa.int32(), "a": pa.string(), "b": pa.string()}
    handmade.write("public.t", types, [{"id": 1, "a": "y", "b": "x"}], pg_names={"a": "b", "b": "a"})
    handmade.publish(FAR_AHEAD)
    code, tables = verdict(database, handmade)
    assert (code, tables["public.t"]["equal"]) == (1, False)


def test_two_columns_whose_texts_join_to_the_same_differ(database: Database, handmade: HandmadeLake) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text); INSERT INTO t VALUES (1, 'ab', 'c');"
        "CREATE PUBLICATION pub FOR ALL TABLES"
    )
    types = {"id": pa.int32(), "a": pa.string(), "b": pa.string()}
    handmade.write("public.t", types, [{"id": 1, "a": "a", "b": "bc"}])
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 1
