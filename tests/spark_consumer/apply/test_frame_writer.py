"""Large segments, which executors write: the same rows, whatever happens between two commits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.contract_writer import Event
from tests.faults import kill_points
from tests.in_soak import in_soak, others_in_variants
from tests.spark_consumer.apply.test_appliers import ENDLESS, ENDS, ITEMS, KEYS, LSN, TYPES, event, infinite_event
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.events import Log, applied, changed, column, head_rows, relation, table_plan, values
from tests.spark_consumer.events import copied as copied_by_driver
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import TableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply import frame_writer
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.delta.by_spark.commit import append_by_spark
from walbridge.spark_consumer.delta.columns import arrow_schema
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold import segment_rows
from walbridge.spark_consumer.kafka import change_reader, slices
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import Segment, TableHead

KEYLESS = relation([column("body")], identity="n")


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment is, of two records or more."""
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", Volume())
    monkeypatch.setattr(slices, "SLICE_ROWS_MAX", 1)
    monkeypatch.setattr(segment_rows, "ONE_TASK_ROWS_MAX", 1)


@pytest.fixture
def executors(spark: SparkSession) -> Appliers:
    return Appliers("spark", spark)


def copied(
    spark: SparkSession | None, lake: Path, of: RelationRecord, appliers: Appliers, *rows: dict[str, Any]
) -> TableHead:
    return applied(spark, lake, copies(of, *rows), table_plan(of, None), [of], appliers=appliers)


def copies(of: RelationRecord, *rows: dict[str, Any]) -> Log:
    log = Log()
    for row in rows:
        log.add(Event(of, "r", 0x1000, -1, after=row))
    return log


def writers(lake: Path, head: TableHead) -> list[str]:
    """Which engine made each commit with rows, oldest first."""
    history = reversed(DeltaTable(f"{lake}/{head.path}").history())
    entries = [entry for entry in history if entry["operation"] in ("WRITE", "MERGE")]
    return ["spark" if "Apache-Spark" in entry["engineInfo"] else "local" for entry in entries]


def bodies(lake: Path, head: TableHead) -> list[Any]:
    return [(row["id"], row["body"]) for row in values(head_rows(lake, head))]


def test_executors_write_what_is_more_than_the_driver_takes(spark: SparkSession) -> None:
    million = Volume(1_000_000, 2**20)

    def chosen(volume: Volume) -> list[str]:
        return [name for name in ("local", "auto", "spark") if Appliers(name, spark).writes_by_executors(volume)]

    assert chosen(Volume(1, 1)) == []
    assert chosen(million) == ["spark"]
    assert chosen(million + Volume(1)) == chosen(Volume(2, 300 * 2**20)) == ["auto", "spark"]
    assert not Appliers("auto").writes_by_executors(million + million)


def test_executors_of_a_cluster_write_what_is_large_of_one_plan(spark: SparkSession) -> None:
    """Where nothing is set: a plan has a bound, and else executors would never write new rows of some 200 bytes."""
    whole_plan = Settings(name="p", lake={"path": "lake"}).lake.plan_rows_max  # type: ignore[arg-type]
    cluster = Appliers("auto", spark, on_cluster=True)

    assert cluster.writes_by_executors(Volume(whole_plan, 200 * whole_plan))
    assert cluster.writes_by_executors(Volume(2, 65 * 2**20))
    assert not cluster.writes_by_executors(Volume(200_000, 64 * 2**20))
    assert not Appliers("auto", spark).writes_by_executors(Volume(whole_plan, 200 * whole_plan))
    assert not Appliers("local", spark, on_cluster=True).writes_by_executors(Volume(whole_plan, 200 * whole_plan))


@pytest.mark.variant(of="test_values_of_every_type_reach_the_lake_by_spark")
def test_every_type_comes_out_as_delta_rs_writes_it(spark: SparkSession, lake: Path) -> None:
    """Copied, inserted, and with values that the lake has as text alone."""
    found = []
    for name, by in (("local", None), ("spark", spark)):
        appliers, folder, of_keys = Appliers(name, spark), lake / name, lake / f"keys of {name}"
        head = copied(by, folder, TYPES, appliers, {"id": 1}, ENDS)
        inserts = [event("c", at, TYPES, **ENDS | {"id": 3 + at}) for at in range(2)]
        head = changed(by, folder, head, *inserts, appliers=appliers)
        keys = copied_by_driver(None, of_keys, KEYS)
        infinite = [infinite_event("c", at, LSN, text, {"the `key`": "", "x": 1.5}) for at, text in enumerate(ENDLESS)]
        keys = changed(spark, of_keys, keys, *infinite, appliers=appliers)
        found.append([sorted(head_rows(*of), key=repr) for of in ((folder, head), (of_keys, keys))])
        assert writers(of_keys, keys)[-1] == name

    assert found[0] == found[1]


def test_new_rows_are_added_and_others_searched_for(spark: SparkSession, lake: Path, executors: Appliers) -> None:
    """I5: a row that came and went is none, and a key that comes twice is one. What executors write is told once a
    table, with its figures."""
    with capture_logs() as said:
        head = copied(spark, lake, ITEMS, executors, *[{"id": key, "body": "b"} for key in (1, 2)])
        new = [event("c", 0, id=3, body="c"), event("u", 1, id=3, body="d")]
        new += [event("c", 2, id=4), event("d", 3, id=4), event("c", 4, id=5, body="e")]
        head = changed(spark, lake, head, *new, appliers=executors)
    added = writers(lake, head)
    other = [event("u", 0, lsn=LSN + 8, id=1, body="x"), event("c", 1, lsn=LSN + 8, id=6, body="f")]
    head = changed(spark, lake, head, *other, to_cut=3, appliers=executors)

    assert added[-1] == "spark"
    assert bodies(lake, head) == [(1, "x"), (2, "b"), (3, "d"), (5, "e"), (6, "f")]
    (told,) = [each for each in said if each["event"] == "a table's new rows are written by executors"]
    assert (told["path"], told["rows"]) == (f"{lake}/{head.path}", 2)
    assert told["bytes"] > 0


def test_copy_takes_the_place_of_what_was_there(spark: SparkSession, lake: Path, executors: Appliers) -> None:
    """I8: its rows are folded with the changes that came beside it."""
    base = copied_by_driver(None, lake, ITEMS, *[{"id": key, "body": "old"} for key in range(4)])
    log = copies(ITEMS, *[{"id": key, "body": "b"} for key in (1, 2, 3)])
    for change in (event("u", 0, id=1, body="x"), event("d", 1, id=2)):
        log.add(change)
    part = table_plan(ITEMS, base, [Segment(0, ITEMS.schema_id, None, None, empties=True)])

    head = applied(spark, lake, log, part, [ITEMS], to_cut=2, appliers=executors)

    assert bodies(lake, head) == [(1, "x"), (3, "b")]
    assert writers(lake, head)[-2:] == ["local", "spark"]


@pytest.mark.parametrize("point", others_in_variants(kill_points.BY_EXECUTORS, kill_points.BY_EXECUTORS[:1]))
@pytest.mark.parametrize("then", [in_soak("local"), "spark"])
def test_copy_that_was_killed_between_two_commits_is_whole_and_once(
    spark: SparkSession, lake: Path, executors: Appliers, crash_at: Counter[str], point: str, then: str
) -> None:
    """I5: whichever engine the next start has."""
    rows = [{"id": key, "body": "b"} for key in (1, 2, 3)]
    crash_at[point] = 1
    with pytest.raises(Crash):
        copied(spark, lake, ITEMS, executors, *rows)

    heads = [copied(spark, lake, ITEMS, Appliers(then, spark), *rows) for _ in range(2)]

    assert heads[0] == heads[1]
    assert bodies(lake, heads[0]) == [(1, "b"), (2, "b"), (3, "b")]


@pytest.mark.variant(of="test_killed_behind_sparks_commit_it_is_not_made_again")
def test_base_that_holds_rows_of_executors_already_is_refused(
    spark: SparkSession, lake: Path, executors: Appliers
) -> None:
    """I5: also where a table has nothing else of Spark's."""
    base = copied_by_driver(None, lake, ITEMS, {"id": 1})
    new = [event("c", at, id=5 + at) for at in range(3)]
    head = changed(spark, lake, base, *new, appliers=executors)

    with pytest.raises(TableError, match="cut 2 would be applied twice"):
        changed(spark, lake, head, *new, appliers=executors)


@pytest.mark.variant(of="test_copy_takes_the_place_of_what_was_there")
def test_large_segment_that_empties_a_table_and_comes_to_no_rows_is_done_once(
    spark: SparkSession, lake: Path, executors: Appliers
) -> None:
    """I5: Spark makes no commit of no rows."""
    base = copied_by_driver(None, lake, ITEMS, {"id": 1}, {"id": 2})
    log = copies(ITEMS, *[{"id": key} for key in (1, 2)])
    for at, key in enumerate((1, 2)):
        log.add(event("d", at, id=key))
    part = table_plan(ITEMS, base, [Segment(0, ITEMS.schema_id, None, None, empties=True)])

    heads = [applied(spark, lake, log, part, [ITEMS], to_cut=2, appliers=executors) for _ in range(2)]

    assert heads[0] == heads[1]
    assert bodies(lake, heads[0]) == []


@pytest.fixture
def rivals(monkeypatch: pytest.MonkeyPatch) -> list[Commit]:
    """Commits of another program, each before one of executors; those that it has made leave the list."""
    left: list[Commit] = []

    def with_rival(table: LakeTable, *rest: Any) -> None:
        if left:
            rival = LakeTable.open(table.uri, {})
            assert rival is not None
            rows = pa.Table.from_pylist([{"id": 99}], arrow_schema(rival.fields))
            rival.append(rows.to_reader(), left.pop())
        append_by_spark(table, *rest)

    monkeypatch.setattr(frame_writer, "append_by_spark", with_rival)
    return left


@pytest.mark.variant(of="test_commit_of_another_program_between_those_of_a_copy_is_undone")
def test_commit_of_another_program_before_it_is_undone(
    spark: SparkSession, lake: Path, executors: Appliers, rivals: list[Commit]
) -> None:
    """I5: Spark appends behind it, and only the version tells."""
    base = copied_by_driver(None, lake, ITEMS, {"id": 1}, {"id": 2})
    rivals.append(Commit(plan=None))

    head = changed(spark, lake, base, *[event("c", at, id=5 + at) for at in range(2)], appliers=executors)

    assert [key for key, _ in bodies(lake, head)] == [1, 2, 5, 6]
    assert rivals == []


@pytest.mark.parametrize("is_new", [in_soak(True), False], ids=["of a new table", "of a table with rows"])
def test_commit_of_another_program_between_those_of_a_copy_is_undone(
    spark: SparkSession, lake: Path, executors: Appliers, rivals: list[Commit], is_new: bool
) -> None:
    """I5: rows that are added behind it take nobody's place."""
    base = None if is_new else copied_by_driver(None, lake, ITEMS, {"id": 3}, {"id": 4})
    rivals.append(Commit(plan=None))
    part = table_plan(ITEMS, base, [Segment(0, ITEMS.schema_id, None, None, empties=True, is_copied=True)])
    log = copies(ITEMS, {"id": 1}, {"id": 2})

    heads = [applied(spark, lake, log, part, [ITEMS], to_cut=2, appliers=executors) for _ in range(2)]

    assert [key for key, _ in bodies(lake, heads[0])] == [1, 2]
    assert heads[0] == heads[1]
    assert rivals == []


@pytest.mark.variant(of="test_job_that_was_overtaken_at_any_step_stops_and_harms_nothing")
def test_rows_that_another_job_adds_for_the_same_plan_are_there_once(
    spark: SparkSession, lake: Path, executors: Appliers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: it stood still, or its JVM outlived it, and what it has begun to write comes beside the same of this one."""
    base = copied_by_driver(None, lake, KEYLESS, {"body": "a"})
    new = [Event(KEYLESS, "c", LSN, at, after={"body": "b"}) for at in range(2)]

    def beside_another(*rest: Any) -> None:
        monkeypatch.setattr(frame_writer, "append_by_spark", append_by_spark)
        changed(spark, lake, base, *new, appliers=executors)
        append_by_spark(*rest)

    monkeypatch.setattr(frame_writer, "append_by_spark", beside_another)
    heads = [changed(spark, lake, base, *new, appliers=executors) for _ in range(2)]

    assert sorted(row["body"] for row in head_rows(lake, heads[0])) == ["a", "b", "b"]
    assert heads[0] == heads[1]


@pytest.mark.variant(of="test_change_that_names_no_row_stops")
def test_other_operation_among_rows_without_a_key_is_told_before_a_row_is_written(
    spark: SparkSession, lake: Path, executors: Appliers
) -> None:
    """I7"""
    head = copied(spark, lake, KEYLESS, executors, {"body": "b"}, {"body": "b"})
    changes = [Event(KEYLESS, op, LSN, at, after={"body": "c"}) for at, op in enumerate("cu")]

    with pytest.raises(TableError, match=r"changes other than c and r of table public\.t"):
        changed(spark, lake, head, *changes, appliers=executors)
    assert [row["body"] for row in head_rows(lake, head)] == ["b", "b"]
