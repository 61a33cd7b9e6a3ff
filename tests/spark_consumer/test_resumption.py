"""Where a job begins, over a real manifest: what it reads on from, and what it does with a plan that was left open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.spark_consumer.plan.cuts import EPOCH, at, changes, cut, part
from tests.spark_consumer.plan.test_next_entries import KEYED, RELATIONS, WHOLE
from walbridge.schemas.control.cut import Barrier, Cut, Epoch
from walbridge.schemas.control.table_progress import STALE
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.errors import CutsLost
from walbridge.spark_consumer.kafka.control.cuts_source import Cuts, CutsSource
from walbridge.spark_consumer.metrics import JobMetrics
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.next_entries import Relations
from walbridge.spark_consumer.plan.plan import Plan
from walbridge.spark_consumer.plan_runner import PlanRunner
from walbridge.spark_consumer.resumption import Resumption, refuse_faults, suspecting_missing_storage

NOW = datetime(2026, 7, 1, tzinfo=UTC)
START, END = 3, 40
"""Of the cuts topic."""


def row(kind: str, sequence: int, to_cut: int, *tables: TableEntry, from_cut: int | None = None) -> CutRow:
    """Cut n ends at LSN 101 + n and has offset 2 n, as those of ``log``."""
    reached = to_cut, 2 * to_cut + 2, 101 + to_cut
    return CutRow(sequence, kind, "p", str(EPOCH), from_cut or to_cut, *reached, None, NOW, tables)


def log(count: int) -> list[tuple[int, Cut]]:
    """Cuts from 1 on, each with five records of the table."""
    table = changes(rows=5, topic=KEYED.topic)
    return [(2 * n, cut(n, table, parts=[part(5 * n, 5 * n + 5, KEYED.topic)])) for n in range(1, count + 1)]


@dataclass
class Source:
    """A cuts topic."""

    cuts: list[tuple[int, Cut]]
    begins: int | None = None
    forgotten: int = 0

    def read(self, start: int, end: int) -> Iterator[Cuts]:
        for pair in self.cuts:
            if start <= pair[0] < end:
                yield [pair]

    def forget_checkpoint(self) -> None:
        self.forgotten += 1

    def bounds(self) -> tuple[int, int]:
        return START, END

    def newest_beginning(self, start: int, end: int, applied: Epoch | None) -> int | None:
        assert (start, end) == (START, END)
        return self.begins


@dataclass
class Plans:
    """Notes the plan that it is to carry out, and the state that this begins from."""

    manifest: Manifest
    carried_out: list[tuple[Plan, LakeState, bool]] = field(default_factory=list)

    def known(self, plan: Plan) -> tuple[Plan, Relations]:
        return plan, RELATIONS

    def refuse_troubles(self, troubles: object) -> None:
        assert troubles == ()

    def carry_out(self, plan: Plan, state: LakeState, *, is_open: bool) -> LakeState:
        self.carried_out.append((plan, state, is_open))
        return replace(state, to_cut=plan.to_cut)


@dataclass
class Lake:
    """One pipeline's, as a job that starts finds it."""

    manifest: Manifest
    source: Source = field(default_factory=lambda: Source(log(6)))
    name: str = "p"

    def __post_init__(self) -> None:
        self.plans = Plans(self.manifest)
        parts = cast(CutsSource, self.source), cast(PlanRunner, self.plans)
        metrics = cast(JobMetrics, SimpleNamespace(show_row=lambda row, published_by: None))
        self.resumption = Resumption(Settings(name=self.name), *parts, metrics)

    def state(self, end: int = END) -> LakeState:
        return self.resumption.state(self.manifest.newest(), START, end)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return Manifest(str(tmp_path / "lake"), "p", {})


PUBLISHED = row("published", 7, 3, WHOLE)
OPEN = row("plan", 8, 5, WHOLE, from_cut=4)


def test_an_empty_lake_is_filled_from_the_first_cut_that_is_kept(manifest: Manifest) -> None:
    assert Lake(manifest).state() == LakeState("p", next_offset=START)


def test_a_job_reads_on_behind_the_newest_row(manifest: Manifest) -> None:
    manifest.append(PUBLISHED)
    lake = Lake(manifest)

    assert lake.state() == LakeState.after("p", PUBLISHED)
    assert (lake.state().next_offset, lake.plans.carried_out) == (8, [])


@pytest.mark.parametrize(("end", "is_refused"), [(7, True), (8, False)])
def test_a_topic_that_ends_before_what_was_applied_was_made_anew(
    manifest: Manifest, end: int, is_refused: bool
) -> None:
    """I7: its next cuts would be taken for those that follow."""
    manifest.append(PUBLISHED)

    if is_refused:
        with pytest.raises(CutsLost, match="made anew"):
            Lake(manifest).state(end)
    else:
        assert Lake(manifest).state(end).next_offset == 8


def test_an_open_plan_is_made_again_from_its_own_cuts_over_the_same_heads(manifest: Manifest) -> None:
    """I5: later cuts are not in it, whatever the topic has by now."""
    manifest.append(PUBLISHED)
    manifest.append(OPEN)
    lake = Lake(manifest)

    assert lake.state().to_cut == 5
    ((plan, before, is_open),) = lake.plans.carried_out
    assert (plan.from_cut, plan.to_cut, is_open) == (4, 5, True)
    assert [(table.relation_id, table.base and table.base.version) for table in plan.tables] == [(1, 5)]
    assert before == LakeState.after("p", PUBLISHED)


def test_cuts_before_an_open_plan_that_touched_no_table_are_passed(manifest: Manifest) -> None:
    """They were applied, and are in no row: the plan follows them, and not the row."""
    manifest.append(PUBLISHED)
    manifest.append(row("plan", 8, 5, WHOLE, from_cut=5))
    cuts = log(6)
    cuts[3] = (8, replace(cut(4), complete=False, end_lsn=104))
    cuts[4] = (10, replace(cuts[4][1], previous_end_lsn=104))
    lake = Lake(manifest, Source(cuts))

    lake.state()

    ((plan, before, _),) = lake.plans.carried_out
    assert (plan.from_cut, before.to_cut, before.end_lsn) == (5, 4, 104)


def test_an_open_plan_of_a_new_epoch_begins_with_tables_that_are_stale(manifest: Manifest) -> None:
    """I8: what the copies of that plan do not bring is not the state of the new source."""
    new = EPOCH._replace(consistent_point=900)
    begin, end = (Barrier(kind, at(950, -1), KEYED.schema_id) for kind in ("copy_begin", "copy_end"))
    copied = changes(begin, end, rows=2, topic=KEYED.topic)
    of_epoch = [cut(1), cut(2, copied, parts=[part(60, 62, KEYED.topic)])]
    cuts = [(20 + 2 * n, replace(each, epoch=new)) for n, each in enumerate(of_epoch)]
    manifest.append(replace(PUBLISHED, next_offset=20, tables=(WHOLE, replace(WHOLE, relation_id=2, topic="p.b"))))
    manifest.append(replace(OPEN, epoch=str(new), from_cut=1, to_cut=2, next_offset=24))
    lake = Lake(manifest, Source(cuts))

    lake.state()

    ((plan, before, _),) = lake.plans.carried_out
    assert (plan.epoch, before.epoch) == (new, new)
    assert {entry.state for entry in before.entries.values()} == {STALE}


OTHER_CUTS = {
    "a cut of it is gone": log(4),
    "it has none": log(3),
    "its cuts touch no table": [(offset, replace(each, tables=(), partitions=())) for offset, each in log(6)],
}


@pytest.mark.parametrize("case", OTHER_CUTS)
def test_an_open_plan_whose_cuts_are_others_by_now_is_not_carried_out(manifest: Manifest, case: str) -> None:
    """I5: what it wrote already would be mixed with something else."""
    manifest.append(PUBLISHED)
    manifest.append(OPEN)
    lake = Lake(manifest, Source(OTHER_CUTS[case]))

    with pytest.raises(CutsLost):
        lake.state()
    assert lake.plans.carried_out == []


def test_an_open_plan_whose_cuts_have_a_gap_is_not_carried_out(manifest: Manifest) -> None:
    """I7."""
    manifest.append(PUBLISHED)
    manifest.append(OPEN)

    with pytest.raises(CutsLost, match="do not fit together"):
        Lake(manifest, Source([pair for pair in log(6) if pair[1].cut_id != 4])).state()


@pytest.mark.parametrize("leaves_plan_open", [False, True])
def test_a_lake_goes_on_under_the_pipelines_new_name_with_what_was_finished(
    manifest: Manifest, leaves_plan_open: bool
) -> None:
    """I8: a plan of the old name's cuts cannot be finished from the new topic; what it wrote is no reader's."""
    manifest.append(PUBLISHED)
    if leaves_plan_open:
        manifest.append(OPEN)
    lake = Lake(manifest, name="q")

    state = lake.state()

    assert (state.pipeline, state.next_offset, state.to_cut) == ("q", START, 3)
    newest = manifest.newest()
    assert newest is not None
    assert (newest.pipeline, newest.kind, newest.sequence) == ("q", "published", 9 if leaves_plan_open else 8)
    assert (newest.tables, lake.plans.carried_out, lake.source.forgotten) == (PUBLISHED.tables, [], 1)


def test_a_lake_of_another_name_that_never_finished_a_plan_is_refused(manifest: Manifest) -> None:
    manifest.append(OPEN)

    with pytest.raises(OperatorError, match="pipeline"):
        Lake(manifest, name="q").state()


LOST = CutsLost("cuts are gone")


def test_lost_cuts_without_a_new_epoch_stay_lost(manifest: Manifest) -> None:
    manifest.append(PUBLISHED)
    lake = Lake(manifest)

    with pytest.raises(CutsLost) as raised:
        lake.resumption.state_of_newest_epoch(LOST, START, END)
    assert (raised.value, manifest.newest()) == (LOST, PUBLISHED)


@pytest.mark.parametrize("rows", [[PUBLISHED], [PUBLISHED, OPEN]], ids=["finished", "a plan is open"])
def test_lost_cuts_are_left_out_for_an_epoch_that_begins_behind_them(manifest: Manifest, rows: list[CutRow]) -> None:
    """Its first cut says what becomes of the tables; until then they are as they were published."""
    for each in rows:
        manifest.append(each)
    lake = Lake(manifest, Source([], begins=20))

    state = lake.resumption.state_of_newest_epoch(LOST, START, END)

    newest = manifest.newest()
    assert newest is not None
    assert (newest.kind, newest.next_offset, newest.sequence) == ("published", 20, rows[-1].sequence + 1)
    assert (state, state.next_offset, lake.source.forgotten) == (LakeState.after("p", newest), 20, 1)


@pytest.mark.parametrize("rows", [[], [row("plan", 1, 1)]], ids=["no row", "the first plan is open"])
def test_an_empty_lake_begins_with_the_newest_epoch_without_a_row(manifest: Manifest, rows: list[CutRow]) -> None:
    for each in rows:
        manifest.append(each)
    before = manifest.newest()

    state = Lake(manifest, Source([], begins=20)).resumption.state_of_newest_epoch(LOST, START, END)

    assert (state.next_offset, state.epoch, state.sequence) == (20, None, len(rows))
    assert manifest.newest() == before


@pytest.mark.parametrize(("begins", "expected"), [(None, CutsLost), (20, RetryableError)])
def test_a_job_that_loses_cuts_tries_again_only_where_a_new_epoch_has_begun(
    manifest: Manifest, begins: int | None, expected: type[Exception]
) -> None:
    lake = Lake(manifest, Source([], begins=begins))

    with (
        pytest.raises(expected, match="cuts are gone"),
        lake.resumption.retrying_with_new_epoch(lambda: LakeState("p")),
    ):
        raise LOST


def test_cuts_must_follow_what_the_lake_holds_and_each_other() -> None:
    """I7."""
    state, cuts = LakeState.after("p", PUBLISHED), log(6)

    refuse_faults(state, cuts[3:])
    for unfit in (cuts[4:], [cuts[3], cuts[5]], cuts[2:]):
        with pytest.raises(CutsLost):
            refuse_faults(state, unfit)


def test_only_what_a_copy_would_mend_doubts_that_an_empty_lake_is_new() -> None:
    """Its storage may not be mounted, and a copy of everything is the wrong remedy then."""
    away = OperatorError("the disk is full", "make room")

    with (
        pytest.raises(CutsLost, match="lake/p was empty at the start, and cuts are gone"),
        suspecting_missing_storage("lake/p"),
    ):
        raise LOST
    with pytest.raises(OperatorError) as raised, suspecting_missing_storage("lake/p"):
        raise away
    assert raised.value is away
    assert away.__cause__ is None, "as its own cause it would be reported without an end"
