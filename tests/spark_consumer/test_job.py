"""The job from the contract's topics to published tables, in the shared session."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from schemas.cut import Barrier
from schemas.errors import OperatorError
from schemas.metadata_record import RelationRecord
from schemas.position import Lsn, Position
from schemas.settings import Settings
from schemas.topics import cuts_topic
from spark_consumer import job
from spark_consumer.apply import apply_table
from spark_consumer.lake_state import LakeState
from spark_consumer.manifest import CutRow, Manifest
from spark_consumer.read import published, tables_at
from tests.contract_writer import ColumnSpec, ContractWriter, Event, copy_barriers
from walbridge.embedded.kafka import KafkaBroker

ACCOUNT = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("balance", "int4")]
HISTORY = [ColumnSpec("id", "int4"), ColumnSpec("delta", "int4")]
KILL_POINTS = ("job:plan-open", "job:table-applied", "job:before-publish", "job:published")
Run = Callable[[], None]
Rows = list[tuple[Any, ...]]


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours catches it."""


@pytest.fixture
def writer(kafka: KafkaBroker, pipeline_name: str) -> ContractWriter:
    return ContractWriter(kafka.bootstrap_servers, pipeline_name)


@pytest.fixture
def accounts(writer: ContractWriter) -> RelationRecord:
    return writer.relation("accounts", ACCOUNT, relation_id=1, partitions=2)


@pytest.fixture
def history(writer: ContractWriter) -> RelationRecord:
    return writer.relation("history", HISTORY, relation_id=2)


@pytest.fixture
def run(spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path) -> Run:
    """Run a new job over everything there is."""
    settings = Settings(
        name=pipeline_name,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake), "plan_rows_max": 100},  # type: ignore[arg-type]
    )

    def run_once() -> None:
        started = job.Job(spark, settings, threading.Event())
        try:
            started.run(once=True)
        finally:
            started.close()

    return run_once


def rows(spark: SparkSession, lake: Path, name: str, lsn: int | None = None) -> Rows:
    table = tables_at(spark, str(lake), lsn)[f"public.{name}"]
    return sorted(tuple(row) for row in table.drop("_walbridge").collect())


def kinds(lake: Path, pipeline: str) -> list[str]:
    table = DeltaTable(str(lake / "_cuts")).to_pyarrow_table().sort_by("sequence")
    return list(table["kind"].to_pylist())


def newest(lake: Path) -> CutRow:
    return published(str(lake))[-1]


def transfer(accounts: RelationRecord, history: RelationRecord, lsn: int, account: int, balance: int) -> list[Event]:
    """One transaction over both tables."""
    return [
        Event(accounts, "u", lsn, 0, after={"id": account, "balance": balance}),
        Event(history, "c", lsn, 1, after={"id": account, "delta": balance}),
    ]


def test_copy_and_changes_are_published_at_the_lsn_of_their_cut(
    spark: SparkSession, writer: ContractWriter, accounts: RelationRecord, run: Run, lake: Path
) -> None:
    """I8."""
    writer.copy([(accounts, [{"id": n, "balance": 0} for n in range(4)])])
    last = writer.send(
        [
            Event(accounts, "c", 0x2000, 0, after={"id": 9, "balance": 90}),
            Event(accounts, "u", 0x2000, 1, after={"id": 1, "balance": 10}),
            Event(accounts, "d", 0x2000, 2, before={"id": 2}, before_image="key"),
        ]
    )
    run()

    assert rows(spark, lake, "accounts") == [(0, 0), (1, 10), (3, 0), (9, 90)]
    assert newest(lake).end_lsn == last.end_lsn


def test_a_transaction_over_two_tables_is_seen_whole_at_every_published_cut(
    spark: SparkSession, writer: ContractWriter, accounts: RelationRecord, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I8."""
    writer.copy([(accounts, [{"id": 1, "balance": 0}]), (history, [])])
    for n in range(1, 4):
        writer.send(transfer(accounts, history, 0x2000 + n * 16, 1, n))
        run()

    for row in published(str(lake)):
        ((_, balance),) = rows(spark, lake, "accounts", row.end_lsn)
        assert rows(spark, lake, "history", row.end_lsn) == [(1, n) for n in range(1, balance + 1)]


@pytest.mark.parametrize("point", KILL_POINTS)
def test_a_job_killed_at_a_durable_step_applies_every_event_once(
    spark: SparkSession,
    writer: ContractWriter,
    accounts: RelationRecord,
    history: RelationRecord,
    run: Run,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """I5, I8: readers see the old state until the new one is published, whole."""
    writer.copy([(accounts, [{"id": 1, "balance": 0}, {"id": 2, "balance": 0}]), (history, [])])
    run()
    before = newest(lake).end_lsn
    for n in range(3):
        writer.send(transfer(accounts, history, 0x2000 + 16 * n, 1, n + 1))

    def kill(reached: str) -> None:
        if reached == point:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(job, "kill_point", kill)
        with pytest.raises(Killed):
            run()
    if point != "job:published":
        assert newest(lake).end_lsn == before
        assert rows(spark, lake, "history") == []
    writer.send(transfer(accounts, history, 0x3000, 2, 7))
    run()

    assert rows(spark, lake, "accounts") == [(1, 3), (2, 7)]
    assert rows(spark, lake, "history") == [(1, 1), (1, 2), (1, 3), (2, 7)]


def test_a_plan_killed_again_while_it_is_finished_is_still_applied_once(
    spark: SparkSession,
    writer: ContractWriter,
    accounts: RelationRecord,
    history: RelationRecord,
    run: Run,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I5."""
    writer.copy([(accounts, [{"id": 1, "balance": 0}]), (history, [])])
    writer.send(transfer(accounts, history, 0x2000, 1, 5))
    for point in KILL_POINTS:

        def kill(reached: str, point: str = point) -> None:
            if reached == point:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(job, "kill_point", kill)
            with pytest.raises(Killed):
                run()
    run()

    assert rows(spark, lake, "accounts") == [(1, 5)]
    assert rows(spark, lake, "history") == [(1, 5)]


def test_a_lost_checkpoint_changes_nothing(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I5."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    before = newest(lake)
    shutil.rmtree(lake / "_checkpoint")
    run()

    assert newest(lake) == before
    assert rows(spark, lake, "history") == [(1, 1)]


def test_a_rewound_checkpoint_changes_nothing(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path, tmp_path: Path
) -> None:
    """I5."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    shutil.copytree(lake / "_checkpoint", tmp_path / "early")
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 2, "delta": 2})])
    run()
    before = newest(lake)
    shutil.rmtree(lake / "_checkpoint")
    shutil.copytree(tmp_path / "early", lake / "_checkpoint")
    run()

    assert newest(lake) == before
    assert rows(spark, lake, "history") == [(1, 1), (2, 2)]


def test_a_checkpoint_ahead_of_the_lake_hides_no_cut(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path, tmp_path: Path
) -> None:
    """I7: what has been applied is told by the lake alone."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    shutil.copytree(lake / "_checkpoint", tmp_path / "ahead")
    shutil.rmtree(lake)
    shutil.copytree(tmp_path / "ahead", lake / "_checkpoint")
    run()

    assert rows(spark, lake, "history") == [(1, 1)]


def test_an_incomplete_cut_is_applied_and_not_published(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path, pipeline_name: str
) -> None:
    """I8: half a transaction is never a state of the source."""
    writer.copy([(history, [])])
    run()
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 1, "delta": 1})], complete=False)
    run()

    assert kinds(lake, pipeline_name) == ["plan", "published", "plan", "applied"]
    assert rows(spark, lake, "history") == []

    writer.send([Event(history, "c", 0x2000, 1, after={"id": 2, "delta": 2})])
    run()
    assert rows(spark, lake, "history") == [(1, 1), (2, 2)]


def test_a_copy_over_several_plans_is_published_when_it_is_complete(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path
) -> None:
    lsn = writer.epoch.consistent_point
    begin, end = copy_barriers(history, lsn)
    copied = [Event(history, "r", lsn, -1, after={"id": n, "delta": n}) for n in range(300)]
    writer.send([Event(history, "t", lsn, -1), *copied[:150]], barriers=[begin], complete=False)
    run()
    assert published(str(lake)) == []

    writer.send(copied[150:], barriers=[end], end_lsn=lsn)
    run()
    assert len(rows(spark, lake, "history")) == 300


def test_an_idle_cut_moves_the_published_lsn_without_a_plan(
    writer: ContractWriter, history: RelationRecord, run: Run, lake: Path, pipeline_name: str
) -> None:
    writer.copy([(history, [])])
    run()
    writer.send(end_lsn=0x9000)
    run()

    assert kinds(lake, pipeline_name) == ["plan", "published", "published"]
    assert newest(lake).end_lsn == 0x9000
    assert [entry.name for entry in newest(lake).tables] == ["history"]


def test_a_new_epoch_is_published_with_its_own_tables_only(
    spark: SparkSession, writer: ContractWriter, accounts: RelationRecord, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I8: until every table of the new copy is there, readers keep the old state."""
    writer.copy([(accounts, [{"id": 1, "balance": 1}]), (history, [{"id": 1, "delta": 1}])])
    run()
    writer.new_epoch(0x8000)
    begin, end = copy_barriers(accounts, 0x8000)
    truncated = [Event(accounts, "t", 0x8000, -1)]
    writer.send(truncated, barriers=[begin], complete=False)
    run()
    assert rows(spark, lake, "accounts") == [(1, 1)]

    writer.send([Event(accounts, "r", 0x8000, -1, after={"id": 5, "balance": 5})], barriers=[end], end_lsn=0x8000)
    run()
    assert [entry.name for entry in newest(lake).tables] == ["accounts"]
    assert rows(spark, lake, "accounts") == [(5, 5)]


def test_changes_of_a_table_that_the_new_epoch_did_not_copy_stop_the_job(
    writer: ContractWriter, accounts: RelationRecord, history: RelationRecord, run: Run
) -> None:
    """I7."""
    writer.copy([(accounts, []), (history, [])])
    writer.new_epoch(0x8000)
    writer.copy([(accounts, [])])
    writer.send([Event(history, "c", 0x9000, 0, after={"id": 1, "delta": 1})])

    with pytest.raises(OperatorError, match="holds no copy"):
        run()


def test_a_table_that_left_the_publication_is_stale_and_the_others_are_published(
    spark: SparkSession, writer: ContractWriter, accounts: RelationRecord, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I8: it keeps its rows, and nobody takes them for the source's."""
    writer.copy([(accounts, [{"id": 1, "balance": 1}]), (history, [{"id": 1, "delta": 1}])])
    run()
    writer.send(barriers=[(history, Barrier("dropped", Position(Lsn(0x2000), 0)))])
    writer.send([Event(accounts, "u", 0x3000, 0, after={"id": 1, "balance": 2})])
    run()

    assert {entry.name: entry.state for entry in newest(lake).tables} == {"accounts": "current", "history": "stale"}
    assert [
        tuple(row)[:2] for row in tables_at(spark, str(lake), tables=["public.accounts"])["public.accounts"].collect()
    ] == [(1, 2)]
    with pytest.raises(OperatorError, match=r"table public.history is stale"):
        rows(spark, lake, "history")


def lose_a_cut(writer: ContractWriter) -> dict[str, Any]:
    return {"cut_id": writer.cut_id + 2}


def skip_an_lsn(writer: ContractWriter) -> dict[str, Any]:
    return {"previous_end_lsn": writer.end_lsn + 8}


def count_wrongly(_: ContractWriter) -> dict[str, Any]:
    return {"tables": ()}


@pytest.mark.parametrize("alter", [lose_a_cut, skip_an_lsn, count_wrongly])
def test_a_cut_that_does_not_fit_stops_the_job_before_it_is_applied(
    spark: SparkSession,
    writer: ContractWriter,
    history: RelationRecord,
    run: Run,
    lake: Path,
    alter: Callable[[ContractWriter], dict[str, Any]],
) -> None:
    """I7."""
    writer.copy([(history, [])])
    run()
    before = newest(lake)
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 1, "delta": 1})], alter=alter(writer))

    with pytest.raises(OperatorError, match="do not fit together"):
        run()
    assert newest(lake) == before


def expire_cuts(kafka: KafkaBroker, pipeline: str) -> None:
    place = TopicPartition(cuts_topic(pipeline), 0, OFFSET_END)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_records([place])[place].result(30)


def test_cuts_that_expired_after_they_were_applied_are_not_missed(
    spark: SparkSession,
    kafka: KafkaBroker,
    writer: ContractWriter,
    history: RelationRecord,
    run: Run,
    lake: Path,
    pipeline_name: str,
) -> None:
    """The log then begins after the marker of the last cut, not at it."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    expire_cuts(kafka, pipeline_name)
    run()
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 2, "delta": 2})])
    run()

    assert rows(spark, lake, "history") == [(1, 1), (2, 2)]


def test_cuts_that_expired_before_they_were_applied_stop_the_job(
    kafka: KafkaBroker, writer: ContractWriter, history: RelationRecord, run: Run, pipeline_name: str
) -> None:
    """I7."""
    writer.copy([(history, [])])
    run()
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 1, "delta": 1})])
    expire_cuts(kafka, pipeline_name)
    writer.send([Event(history, "c", 0x3000, 0, after={"id": 2, "delta": 2})])

    with pytest.raises(OperatorError, match="cut 3 follows cut 1"):
        run()


def test_a_schema_without_its_record_stops_the_job(writer: ContractWriter, run: Run) -> None:
    """I7: the decoder of an event is never guessed."""
    unknown = writer.relation("t", ACCOUNT, relation_id=9, announce=False)
    writer.copy([(unknown, [{"id": 1}])])

    with pytest.raises(OperatorError, match="lacks the record of schema"):
        run()


def test_a_plan_row_of_a_second_job_stops_this_one(
    writer: ContractWriter, history: RelationRecord, run: Run, lake: Path, pipeline_name: str, monkeypatch: Any
) -> None:
    """I5: one of two jobs stops before it touches a table."""
    writer.copy([(history, [])])
    run()
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 1, "delta": 1})])
    real = LakeState.planned

    def interfere(state: LakeState, *arguments: Any) -> CutRow:
        Manifest(str(lake), pipeline_name, {}).append(real(state, *arguments))
        return real(state, *arguments)

    monkeypatch.setattr(LakeState, "planned", interfere)
    with pytest.raises(OperatorError, match="second Spark job"):
        run()


def test_a_failed_table_fails_the_plan_but_every_other_table_is_finished_first(
    writer: ContractWriter, accounts: RelationRecord, history: RelationRecord, run: Run, lake: Path, monkeypatch: Any
) -> None:
    writer.copy([(accounts, []), (history, [])])
    real = apply_table

    def fail_first(*arguments: Any, **named: Any) -> Any:
        if arguments[3].topic == accounts.topic:
            raise OperatorError("no", remedy="none")
        return real(*arguments, **named)

    monkeypatch.setattr(job, "apply_table", fail_first)
    with pytest.raises(OperatorError):
        run()
    assert DeltaTable(str(lake / "public" / "history")).version() >= 0
    assert published(str(lake)) == []


def test_rows_beyond_one_plan_are_applied_in_several(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I9."""
    writer.copy([(history, [])])
    for n in range(5):
        lsn = 0x2000 + 16 * n
        writer.send([Event(history, "c", lsn, i, after={"id": n, "delta": i}) for i in range(60)])
    run()

    spans = [(row.from_cut, row.to_cut) for row in published(str(lake))]
    assert len(spans) >= 4
    assert len(rows(spark, lake, "history")) == 300
