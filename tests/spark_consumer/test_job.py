"""The job from the contract's topics to published tables, in the shared session."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.contract_writer import ContractWriter, Event, copy_barriers
from tests.spark_consumer.accounts import HISTORY, Run, newest, rows, transfer
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.kafka.control.copy_requests import CopyRequests
from walbridge.spark_consumer.plan.table_trouble import TableTrouble
from walbridge.spark_consumer.read import published, tables_at


def kinds(lake: Path, pipeline: str) -> list[str]:
    table = DeltaTable(str(lake / "_cuts")).to_pyarrow_table().sort_by("sequence")
    return list(table["kind"].to_pylist())


def test_copy_and_changes_are_published_at_the_lsn_of_their_cut(
    writer: ContractWriter, accounts: RelationRecord, run: Run, lake: Path
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

    assert rows(lake, "accounts") == [(0, 0), (1, 10), (3, 0), (9, 90)]
    assert newest(lake).end_lsn == last.end_lsn


@pytest.mark.soak
def test_a_transaction_over_two_tables_is_seen_whole_at_every_published_cut(
    writer: ContractWriter, accounts: RelationRecord, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I8."""
    writer.copy([(accounts, [{"id": 1, "balance": 0}]), (history, [])])
    for n in range(1, 4):
        writer.send(transfer(accounts, history, 0x2000 + n * 16, 1, n))
        run()

    for row in published(str(lake)):
        ((_, balance),) = rows(lake, "accounts", row.end_lsn)
        assert rows(lake, "history", row.end_lsn) == [(1, n) for n in range(1, balance + 1)]


@pytest.mark.soak
def test_a_copy_over_several_plans_is_published_when_it_is_complete(
    writer: ContractWriter, history: RelationRecord, run: Run, lake: Path
) -> None:
    lsn = writer.epoch.consistent_point
    begin, end = copy_barriers(history, lsn)
    copied = [Event(history, "r", lsn, -1, after={"id": n, "delta": n}) for n in range(300)]
    writer.send([Event(history, "t", lsn, -1), *copied[:150]], barriers=[begin], complete=False)
    run()
    assert published(str(lake)) == []

    writer.send(copied[150:], barriers=[end], end_lsn=lsn)
    run()
    assert len(rows(lake, "history")) == 300


@pytest.mark.soak
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


@pytest.mark.soak
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
        rows(lake, "history")


def test_trouble_that_is_found_inside_of_a_split_transaction_has_a_copy_asked_for(
    writer: ContractWriter, accounts: RelationRecord, history: RelationRecord, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is remembered, it is no news at the transaction's end, where the copy was to be asked for."""
    asked: list[int] = []

    def ask(requests: CopyRequests, slot: str, troubles: Iterable[TableTrouble]) -> frozenset[int]:
        asked.extend(each.relation_id for each in troubles)
        return frozenset()

    monkeypatch.setattr(CopyRequests, "ask", ask)
    writer.copy([(accounts, []), (history, [])])
    run()
    other = writer.relation("history", HISTORY, relation_id=7)
    writer.send(
        [Event(each, "c", 0x2000, n, after={"id": n, "delta": n}) for n, each in enumerate((history, other))],
        complete=False,
    )
    writer.send([Event(accounts, "c", 0x2000, 2, after={"id": 1, "balance": 1})])
    run()

    assert asked == [other.table.relation_id]


@pytest.mark.soak
def test_rows_beyond_one_plan_are_applied_in_several(
    writer: ContractWriter, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I9."""
    writer.copy([(history, [])])
    for n in range(5):
        lsn = 0x2000 + 16 * n
        writer.send([Event(history, "c", lsn, i, after={"id": n, "delta": i}) for i in range(60)])
    run()

    spans = [(row.from_cut, row.to_cut) for row in published(str(lake))]
    assert len(spans) >= 4
    assert len(rows(lake, "history")) == 300
