"""Marked rows leave their files between plans: how many files at a time, and what stays as it was."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark_consumer.delta.maintenance.test_maintenance import Clock
from tests.spark_consumer.delta.test_tidied_for_spark import PATH, Marked
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply.head import is_untouched
from walbridge.spark_consumer.delta.maintenance import maintenance
from walbridge.spark_consumer.delta.maintenance import purge as purge_module
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance
from walbridge.spark_consumer.delta.maintenance.purge import MARKED_SHARE, MarkedFile, Outcome, Portion, Purge, portion
from walbridge.spark_consumer.delta.table import LakeTable

SIZE = 100
IN_TIME_S = 600.0


@pytest.mark.parametrize(
    ("shares", "files_max", "taken"),
    [
        ([0.1, 0.5, 0.3, 0.9, 0.25], 2, Portion(0.3, 2, 2 * SIZE, is_last=False)),
        ([0.1, 0.5, 0.3, 0.9, 0.25], 9, Portion(0.25, 3, 3 * SIZE, is_last=True)),
        ([0.5, 0.9, 0.9], 1, Portion(0.5, 2, 2 * SIZE, is_last=False)),
        ([0.1, 0.9, 0.0], 1, Portion(0.0, 2, 2 * SIZE, is_last=True)),  # the other comes with it
        ([0.0, 0.9], 1, Portion(0.0, 1, SIZE, is_last=True)),
        ([0.25, 0.1], 9, None),
        ([], 9, None),
    ],
)
def test_files_with_the_largest_shares_are_taken_first(
    shares: list[float], files_max: int, taken: Portion | None
) -> None:
    assert portion([MarkedFile(SIZE, share) for share in shares], files_max * SIZE) == taken


@given(
    st.lists(st.builds(MarkedFile, st.integers(1, 9), st.sampled_from([0.0, 0.25, 0.3, 0.5, 1.0]))), st.integers(1, 30)
)
def test_what_is_taken_is_what_spark_takes(files: list[MarkedFile], bytes_max: int) -> None:
    taken = portion(files, bytes_max)

    due = [file for file in files if file.share > MARKED_SHARE]
    if taken is None:
        assert due == []
        return
    chosen = [file for file in files if file.share > taken.above]
    assert {*due[:1]} <= {*files}
    assert (taken.files, taken.size_bytes) == (len(chosen), sum(file.size_bytes for file in chosen))
    assert taken.is_last == all(file.share > taken.above for file in due)


@pytest.mark.parametrize(
    ("add", "share"),
    [
        ({"stats": '{"numRecords": 10}'}, 0),
        ({"stats": '{"numRecords": 10}', "deletionVector": None}, 0),
        ({"stats": '{"numRecords": 10}', "deletionVector": {"cardinality": 4}}, 0.4),
        ({"stats": None, "deletionVector": {"cardinality": 4}}, 1),
        ({"deletionVector": {"cardinality": 4}}, 1),
    ],
)
def test_share_of_marked_rows_is_what_the_log_tells(add: dict[str, object], share: float) -> None:
    assert MarkedFile.of({"size": SIZE} | add) == MarkedFile(SIZE, share)


class Seconds:
    """A test moves it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def table(lake: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Marked:
    """Of 40 rows in one file 15 are marked; one of 20 in another is. A purge of them is never late by itself: on a busy
    machine one took more than the ten seconds of a gap between plans, and was rightly given up."""
    monkeypatch.setattr(purge_module, "PURGE_S", IN_TIME_S)
    made = Marked(lake, spark, Clock())
    write_deltalake(str(made.folder), pa.table({"n": pa.array(range(1000, 1020), pa.int64())}), mode="append")
    made.rows |= {*range(1000, 1020)}
    spark.sql(f"DELETE FROM delta.`{made.folder}` WHERE n < 15 OR n = 1000")
    made.rows -= {*range(15), 1000}
    made.publish()
    return made


def newest(table: Marked) -> LakeTable:
    found = LakeTable.open(str(table.folder), {})
    assert found is not None
    return found


def table_vectors(table: Marked) -> list[list[bool]]:
    found: list[list[bool]] = pa.table(DeltaTable(str(table.folder)).deletion_vectors())["selection_vector"].to_pylist()
    return found


def test_file_of_which_much_is_marked_is_written_anew_and_every_row_stays(
    table: Marked, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5, I8: a plan goes on over it as over any commit without data change, and older versions are what they were."""
    monkeypatch.setattr(maintenance, "COMMITS_BETWEEN_VISITS", 1)
    before = newest(table).version
    settings = Settings(name="p", lake={"path": str(lake)})  # type: ignore[arg-type]
    tidying = Maintenance(str(lake), table.manifest, settings, table.clock, Purge(table.spark))
    tidying.after_plan([PATH])
    tidying.after_plan([])

    head = newest(table)
    assert head.version == before + 1
    assert is_untouched(head.commits(1))
    assert table_vectors(table) == []
    table.assert_readable()
    tidying.after_plan([])
    assert newest(table).version == before + 1
    table.delete(20)
    table.append(7)
    table.assert_readable()


@pytest.mark.soak
def test_file_that_alone_has_marked_rows_is_written_anew(table: Marked) -> None:
    """Delta's OPTIMIZE leaves it as it is."""
    purge = Purge(table.spark)
    assert not purge.purge(DeltaTable(str(table.folder)), {})
    table.spark.sql(f"DELETE FROM delta.`{table.folder}` WHERE n BETWEEN 15 AND 30")
    table.rows -= {*range(15, 31)}
    assert len(table_vectors(table)) == 1

    assert not purge.purge(DeltaTable(str(table.folder)), {})

    assert table_vectors(table) == []
    assert is_untouched(newest(table).commits(1))
    assert table.by_delta_rs() == sorted(table.rows)


@pytest.mark.variant(of="test_file_of_which_much_is_marked_is_written_anew_and_every_row_stays")
def test_purge_that_takes_too_long_is_given_up_and_comes_again_later(
    table: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publication does not wait, and nothing is committed."""
    clock = Seconds()
    purge = Purge(table.spark, clock)
    delta = DeltaTable(str(table.folder))
    monkeypatch.setattr(purge_module, "PURGE_S", 0.0)
    optimize = Purge._optimize

    def slow(self: Purge, uri: str, taken: Portion) -> Outcome:
        clock.now += 3
        return optimize(self, uri, taken)

    monkeypatch.setattr(Purge, "_optimize", slow)
    assert purge.purge(delta, {})
    assert newest(table).version == delta.version()
    assert not purge.is_due()
    clock.now += 3 * purge_module.PAUSE
    assert purge.is_due()

    monkeypatch.setattr(purge_module, "PURGE_S", IN_TIME_S)
    assert not purge.purge(delta, {})
    assert newest(table).version == delta.version() + 1
    table.assert_readable()


@pytest.mark.variant(of="test_driver_writes_what_executors_wrote_to_another_disk")
def test_purge_by_executors_with_a_disk_of_their_own_is_undone_and_none_comes_after_it(
    table: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: their files are in no folder that anybody else sees."""
    optimize = Purge._optimize
    before = {*table.folder.glob("*.parquet")}

    def elsewhere(self: Purge, uri: str, taken: Portion) -> Outcome:
        outcome = optimize(self, uri, taken)
        for file in {*table.folder.glob("*.parquet")} - before:
            file.unlink()
        return outcome

    monkeypatch.setattr(Purge, "_optimize", elsewhere)
    purge = Purge(table.spark)

    assert not purge.purge(DeltaTable(str(table.folder)), {})

    table.assert_readable()
    assert not purge.is_due()
