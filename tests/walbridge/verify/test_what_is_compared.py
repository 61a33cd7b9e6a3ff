"""verify against a real Postgres and a lake made by hand: which tables, columns and rows it compares."""

from __future__ import annotations

import pyarrow as pa

from tests.fix_postgres import Database
from tests.walbridge.verify.accounts import ACCOUNT_TYPES, ACCOUNTS, FAR_AHEAD, accounts, verdict
from tests.walbridge.verify.handmade_lake import HandmadeLake


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
