"""A table that is read in parts: each row is in one of them, and no statement takes long."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from tests.fix_postgres import Database
from tests.in_soak import others_in_variants
from tests.walbridge.verify.accounts import FAR_AHEAD, settings_of
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.verify import sweep as module
from walbridge.verify.report import TableResult
from walbridge.verify.rounds import compare_on
from walbridge.verify.source_connection import connected
from walbridge.verify.sweep import Rewritten, sweep

ROWS = 3_000
TYPES = {"id": pa.int32(), "note": pa.string()}
NOTE = "repeat('x', 300)"
TABLES = {
    "plain": "CREATE TABLE t (id int PRIMARY KEY, note text)",
    "partitioned": (
        "CREATE TABLE t (id int PRIMARY KEY, note text) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (500);"
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (500) TO (100000)"
    ),
    "without a key": "CREATE TABLE t (id int, note text)",
}


@pytest.fixture(params=["ranges", "lists"])
def small_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of two blocks each, by ranges and as servers before version 14 read them; how many there were."""
    monkeypatch.setattr(module, "_BLOCKS_FIRST", 2)
    monkeypatch.setattr(module, "_next_blocks", lambda blocks, _: blocks)
    if request.param == "lists":
        monkeypatch.setattr(module, "_RANGES_SINCE", 10**9)
    return []


def swept(database: Database, handmade: HandmadeLake, beats: list[int]) -> TableResult:
    settings = settings_of(database, handmade)
    with connected(database.dsn, 30) as connection:
        (result,) = compare_on(connection, settings, ["t"], 10.0, lambda each: sweep(each, lambda: beats.append(1)))
    return result


def made(database: Database, handmade: HandmadeLake, ddl: str, **altered: Any) -> None:
    """The source and an equal lake but for row 1234, of which some values are other ones there."""
    database.execute(f"{ddl}; INSERT INTO t SELECT n, {NOTE} FROM generate_series(1, {ROWS}) n")
    root = " WITH (publish_via_partition_root)" if "PARTITION" in ddl else ""
    database.execute(f"CREATE PUBLICATION pub FOR TABLE t{root}")
    rows: list[dict[str, Any]] = [{"id": n, "note": "x" * 300} for n in range(1, ROWS + 1)]
    rows[1233] |= altered
    handmade.write("public.t", TYPES, rows)
    handmade.publish(FAR_AHEAD)


@pytest.mark.parametrize("ddl", others_in_variants(TABLES.values(), [TABLES["partitioned"]]), ids=TABLES)
def test_each_row_is_in_one_part(database: Database, handmade: HandmadeLake, small_parts: list[int], ddl: str) -> None:
    made(database, handmade, ddl)

    result = swept(database, handmade, small_parts)

    assert (result.equal, result.rows, result.in_flux) == (True, ROWS, 0)
    assert len(small_parts) > 20


def test_one_altered_value_is_found_by_its_key_in_parts(
    database: Database, handmade: HandmadeLake, small_parts: list[int]
) -> None:
    made(database, handmade, TABLES["plain"], note="y")

    assert swept(database, handmade, small_parts).keys["different"] == ["id=1234"]


def test_rows_that_come_behind_the_table_while_it_is_read_are_left_to_the_next_round(
    database: Database, handmade: HandmadeLake, small_parts: list[int]
) -> None:
    """Else the last statement of a table that grows by gigabytes would read them all."""
    made(database, handmade, TABLES["plain"])
    more = iter([f"INSERT INTO t SELECT n, {NOTE} FROM generate_series({ROWS + 1}, {3 * ROWS}) n"])

    def grow() -> None:
        for statement in more:
            database.execute(statement)

    with connected(database.dsn, 30) as connection, sweep(connection, grow) as source:
        (table,) = source.tables(["pub"], ["public.t"])
        assert ROWS <= source.fingerprint(table, 3).rows < ROWS + 100
    assert database.value("SELECT count(*) FROM t") == 3 * ROWS


def test_table_that_is_rewritten_between_two_parts_is_not_judged(
    database: Database, handmade: HandmadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: rows that nobody changed may be in no part then, though the lake has them rightly."""
    monkeypatch.setattr(module, "_BLOCKS_FIRST", 2)
    made(database, handmade, TABLES["plain"])
    beats = itertools.count()

    def rewrite() -> None:
        if next(beats) == 3:
            database.execute("VACUUM FULL t")

    with connected(database.dsn, 30) as connection, pytest.raises(Rewritten):
        compare_on(connection, settings_of(database, handmade), ["t"], 10.0, lambda each: sweep(each, rewrite))


def test_empty_table_is_equal_to_an_empty_lake(database: Database, handmade: HandmadeLake) -> None:
    database.execute(f"{TABLES['plain']}; CREATE PUBLICATION pub FOR TABLE t")
    handmade.write("public.t", TYPES, [])
    handmade.publish(FAR_AHEAD)

    assert swept(database, handmade, []).equal


@pytest.mark.parametrize(("took_s", "blocks"), [(0.0, 256), (0.5, 128), (1.0, 64), (64.0, 1), (1000.0, 1)])
def test_next_part_is_made_so_large_that_it_takes_a_second(took_s: float, blocks: int) -> None:
    assert module._next_blocks(64, took_s) == blocks
