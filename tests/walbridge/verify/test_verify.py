"""verify against a real Postgres and a lake made by hand: what is wrong in the lake is found."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.fix_postgres import Database
from tests.walbridge.verify.accounts import ACCOUNT_TYPES, ACCOUNTS, FAR_AHEAD, accounts, settings_of, verdict
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
        ("float4 '-0'", pa.float32(), 0.0),
        ("float8 '0.1'", pa.float64(), 0.1 + 2**-56),
        ("float8 'NaN'", pa.float64(), None),
        ("text ''", pa.string(), None),
        ("text 'a '", pa.string(), "a"),
        ("numeric '1.50'", pa.string(), "1.5"),
        ("bytea '\\x00'", pa.binary(), b""),
        ("false", pa.bool_(), None),
        ("timestamptz '2000-01-01 00:00:00.000001+00'", pa.timestamp("us", "UTC"), datetime(2000, 1, 1, tzinfo=UTC)),
        ("date 'infinity'", pa.date32(), None),
        ("ARRAY[1, NULL]", pa.list_(pa.int32()), [1]),
        ("ARRAY['a,b']", pa.list_(pa.string()), ["a", "b"]),
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


def test_only_what_the_publication_publishes_is_compared(database: Database, handmade: HandmadeLake) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, shown text, hidden text);"
        "INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z');"
        "CREATE PUBLICATION pub FOR TABLE t (id, shown) WHERE (id > 1)"
    )
    handmade.write(
        "public.t", {"id": pa.int32(), "shown": pa.string()}, [{"id": 2, "shown": "b"}, {"id": 3, "shown": "c"}]
    )
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 0


def test_a_partitioned_table_is_compared_as_its_root_and_a_parent_without_its_children(
    database: Database, handmade: HandmadeLake
) -> None:
    database.execute(
        "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE high PARTITION OF root FOR VALUES FROM (10) TO (20);"
        "CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child () INHERITS (parent);"
        "INSERT INTO root VALUES (1), (11); INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2);"
        "CREATE PUBLICATION pub FOR TABLE root, parent WITH (publish_via_partition_root)"
    )
    for table, ids in (("root", [1, 11]), ("parent", [1]), ("child", [2])):
        handmade.write(f"public.{table}", {"id": pa.int32()}, [{"id": value} for value in ids])
    handmade.publish(FAR_AHEAD)
    code, tables = verdict(database, handmade)
    assert (code, sorted(tables)) == (0, ["public.child", "public.parent", "public.root"])


def test_odd_names_are_compared(database: Database, handmade: HandmadeLake) -> None:
    database.execute(
        'CREATE SCHEMA "My.Schema"; CREATE TABLE "My.Schema"."T ""q"" é" ("Id" int PRIMARY KEY, "a b" text, "A B" text,'
        ' "%s {x}" text, "_walbridge" text);'
        """INSERT INTO "My.Schema"."T ""q"" é" VALUES (1, 'x', 'y', 'z', 'w'); CREATE PUBLICATION pub FOR ALL TABLES"""
    )
    types = dict.fromkeys(["Id", "a b", "A B", "%s {x}", "_walbridge"], pa.string()) | {"Id": pa.int32()}
    row = {"Id": 1, "a b": "x", "A B": "y", "%s {x}": "z", "_walbridge": "w"}
    handmade.write(("My.Schema", 'T "q" é'), types, [row])
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 0


def test_a_column_that_the_lake_lacks_is_null_there(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    database.execute("ALTER TABLE accounts ADD COLUMN note text")
    code, tables = verdict(database, handmade)
    assert (code, tables["public.accounts"]["notes"]) == (0, ["not in the lake, taken as null there: note"])
    database.execute("UPDATE accounts SET note = 'x' WHERE id = 2")
    assert verdict(database, handmade)[1]["public.accounts"]["keys"]["different"] == ["id=2"]


def test_a_stale_table_is_not_called_equal(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    handmade.publish(FAR_AHEAD, state="stale")
    code, tables = verdict(database, handmade)
    assert (code, tables["public.accounts"]["state"]) == (1, "stale since 10000000/0")


def test_only_a_published_row_of_the_manifest_counts(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    handmade.write("public.accounts", ACCOUNT_TYPES, [])
    handmade.publish(FAR_AHEAD + 1, kind="plan")
    handmade.publish(FAR_AHEAD + 1, kind="applied")
    assert verdict(database, handmade)[0] == 0


def test_the_newest_published_row_is_found_behind_many_that_published_nothing(
    database: Database, handmade: HandmadeLake
) -> None:
    accounts(database, handmade, ACCOUNTS)
    for _ in range(70):
        handmade.publish(FAR_AHEAD, kind="applied")
    assert verdict(database, handmade)[0] == 0


def test_more_than_twenty_keys_are_counted_but_not_all_told(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    database.execute("INSERT INTO accounts SELECT n, 'late', 0 FROM generate_series(6, 105) n")
    code, tables = verdict(database, handmade)
    assert (code, tables["public.accounts"]["missing"]) == (1, 100)
    assert len(tables["public.accounts"]["keys"]["missing"]) == 20


def test_what_is_fetched_stays_bounded_when_everything_differs(
    database: Database, handmade: HandmadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:  # I9
    monkeypatch.setattr("walbridge.verify.rounds.ROWS_FETCHED_MAX", 10)
    accounts(database, handmade, [])
    database.execute("INSERT INTO accounts SELECT n, 'late', 0 FROM generate_series(6, 105) n")
    code, tables = verdict(database, handmade)
    assert (code, tables["public.accounts"]["whole"]) == (1, False)
    assert 0 < tables["public.accounts"]["missing"] <= 10


def test_the_last_lines_are_the_verdict_per_table(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS[:4])
    said: list[str] = []
    assert verify(settings_of(database, handmade), out=said.append) == 1
    assert said[0].splitlines() == [
        "public.accounts: 1 rows missing in the lake",
        "    id=5",
        "public.accounts  UNEQUAL  5 rows  at 10000000/0",
    ]


def test_keys_are_told_as_a_person_writes_them(database: Database, handmade: HandmadeLake) -> None:
    database.execute(
        "CREATE TABLE t (day date, at timestamptz, amount numeric(10,2), PRIMARY KEY (day, at, amount));"
        "INSERT INTO t VALUES ('2024-02-29', '2024-02-29 12:00:00.5+01', 1.5), ('infinity', '0044-03-15 BC', 'NaN');"
        "CREATE PUBLICATION pub FOR ALL TABLES"
    )
    types = {"day": pa.date32(), "at": pa.timestamp("us", "UTC"), "amount": pa.decimal128(10, 2)}
    handmade.write("public.t", types, [])
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[1]["public.t"]["keys"]["missing"] == [
        "day=2024-02-29, at=2024-02-29 11:00:00.500000, amount=1.50",
        "day=infinity, at=0044-03-15 00:00:00+00 BC, amount=NaN",
    ]


def test_verify_shares_no_code_with_the_producer() -> None:
    program = "import sys, walbridge.verify; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "walbridge" in loaded
    assert {"walbridge.producer", "walbridge.spark_consumer", "fastavro", "pyspark"}.isdisjoint(loaded)


def test_a_database_of_another_encoding_is_hashed_as_utf8(database: Database, handmade: HandmadeLake) -> None:
    latin = Database(database.server, f"{database.name}_latin")
    database.execute(f"CREATE DATABASE {latin.name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        latin.execute(
            "CREATE TABLE t (id text PRIMARY KEY, parts text[]); INSERT INTO t VALUES (chr(233), ARRAY[chr(252), 'a']);"
            "CREATE PUBLICATION pub FOR ALL TABLES"
        )
        types = {"id": pa.string(), "parts": pa.list_(pa.string())}
        handmade.write("public.t", types, [{"id": "é", "parts": ["ü", "a"]}])
        handmade.publish(FAR_AHEAD)
        assert verdict(latin, handmade)[0] == 0
        latin.execute("UPDATE t SET parts = '{}'")
        assert verdict(latin, handmade)[1]["public.t"]["keys"]["different"] == ["id=é"]
    finally:
        database.execute(f"DROP DATABASE {latin.name} WITH (FORCE)")


def test_as_many_columns_as_postgres_allows_are_hashed(database: Database, handmade: HandmadeLake) -> None:
    names = [f"c{number}" for number in range(1600)]
    database.execute(f"CREATE TABLE t ({', '.join(f'{name} bool' for name in names)})")
    database.execute(f"INSERT INTO t VALUES ({', '.join(['true'] * 1600)}); CREATE PUBLICATION pub FOR ALL TABLES")
    handmade.write("public.t", dict.fromkeys(names, pa.bool_()), [dict.fromkeys(names, True)])
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 0


def test_a_table_without_columns_is_compared_by_its_count(database: Database, handmade: HandmadeLake) -> None:
    database.execute("CREATE TABLE t (); INSERT INTO t DEFAULT VALUES; INSERT INTO t DEFAULT VALUES")
    database.execute("CREATE PUBLICATION pub FOR ALL TABLES")
    handmade.write("public.t", {}, [{}, {}])
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 0
    handmade.write("public.t", {}, [{}])
    handmade.publish(FAR_AHEAD)
    code, tables = verdict(database, handmade)
    assert (code, tables["public.t"]["missing"]) == (1, 1)
