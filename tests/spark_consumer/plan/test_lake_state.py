"""What a lake holds between two plans, whatever the plans were."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.events import column, relation
from tests.spark_consumer.world import cut
from walbridge.schemas.control.cut import Epoch, PartitionRange, chain_break
from walbridge.schemas.errors import TableError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.plan.lake_state import LakeState, same_tables
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry, by_name
from walbridge.spark_consumer.plan.pending_copy import CopyShape, PendingCopy
from walbridge.spark_consumer.plan.plan import SUPERSEDED, Plan, Segment, TableHead, TablePlan
from walbridge.spark_consumer.plan.table_trouble import TableTrouble

EPOCH = Epoch("7", 1, "s", 0x1000)
NEXT = EPOCH._replace(consistent_point=0x9000)
A, B = (relation([column("id", "int4", is_key=True)], name=name, relation_id=n) for n, name in enumerate("ab", 1))
NEW_A = relation([column("id", "int8", is_key=True)], name="a", relation_id=3)
RELATIONS = {each.schema_id: each for each in (A, B, NEW_A)}
BY_ID = {each.table.relation_id: each for each in RELATIONS.values()}


def head(relation_id: int = 1, version: int = 1, state: str = "current", since: int | None = None) -> TableHead:
    of = BY_ID[relation_id]
    return TableHead(relation_id, of.topic, f"public/{of.table.name}", version, of.schema_id, state, since)


def touched(of: TableHead, base: TableHead | None) -> TablePlan:
    return TablePlan(of.relation_id, of.topic, base, (Segment(0, of.schema_id, None, None),), of.state)


def plan(
    to_cut: int, *tables: TablePlan, epoch: Epoch = EPOCH, complete: bool = True, time_us: int | None = None
) -> Plan:
    ranges = {(table.topic, 0): PartitionRange(table.topic, 0, 0, 1, 1) for table in tables}
    return Plan(epoch, to_cut, to_cut, 100 * to_cut, time_us, complete, 0, 2 * to_cut, ranges, tables)


def after(state: LakeState, to_cut: int, *heads: TableHead, epoch: Epoch = EPOCH, complete: bool = True) -> LakeState:
    """The state as a restart finds it once these tables are done."""
    bases = state.heads(epoch)
    done = plan(to_cut, *[touched(each, bases.get(each.relation_id)) for each in heads], epoch=epoch, complete=complete)
    return LakeState.after("p", state.applied_row(done, heads, RELATIONS))


def row_of(state: LakeState, to_cut: int, epoch: Epoch = EPOCH) -> CutRow:
    """What a complete cut without tables would publish."""
    return state.applied_row(plan(to_cut, epoch=epoch), [], RELATIONS)


def kinds_after(*steps: Sequence[TableHead], complete: bool = True) -> list[str]:
    """Kind of each row, plan after plan."""
    state, kinds = LakeState("p"), []
    for to_cut, heads in enumerate(steps, 1):
        bases = state.heads(EPOCH)
        tables = [touched(each, bases.get(each.relation_id)) for each in heads]
        row = state.applied_row(plan(to_cut, *tables, complete=complete), heads, RELATIONS)
        state = LakeState.after("p", row)
        kinds.append(row.kind)
    return kinds


def test_an_empty_lake_takes_the_first_cut_of_any_epoch() -> None:
    state = LakeState.after("p", None)

    assert (state.last_cut, state.heads(EPOCH)) == (None, {})


def test_the_next_cut_must_follow_the_one_that_was_applied() -> None:
    """I7: after a restart too."""
    state = after(LakeState("p"), 4, head())
    follows = replace(cut(5, A, 0, [], 500), epoch=EPOCH, previous_end_lsn=400)

    assert chain_break(state.last_cut, follows) is None
    assert chain_break(state.last_cut, replace(follows, cut_id=6)) is not None
    assert chain_break(state.last_cut, replace(follows, previous_end_lsn=300)) is not None


def test_a_row_says_how_far_its_plan_went() -> None:
    done = replace(plan(4, time_us=1_700_000_000_123_456), from_cut=2)
    row = LakeState("p", sequence=6).applied_row(done, [], RELATIONS)

    assert (row.sequence, row.from_cut, row.to_cut, row.next_offset, row.end_lsn) == (7, 2, 4, 8, 400)
    assert row.commit_time == datetime(2023, 11, 14, 22, 13, 20, 123_456, UTC)
    assert LakeState.after("p", row).to_cut == 4


def test_nothing_is_published_while_a_table_is_copied() -> None:
    """I8."""
    copying, current = head(1, state="copying"), head(1)

    assert kinds_after([copying], [head(2)], [current], [head(2)]) == ["applied", "applied", "published", "published"]


def test_nothing_is_published_inside_a_transaction() -> None:
    """I8: a plan may end in a cut that holds half of one."""
    assert kinds_after([head(1)], complete=False) == ["applied"]


def test_a_stale_table_keeps_no_other_from_being_published() -> None:
    assert kinds_after([head(1, state="stale"), head(2)]) == ["published"]


def test_the_row_of_an_open_plan_stands_between_two_finished_ones() -> None:
    state = after(LakeState("p"), 1, head())
    opened = plan(2, touched(head(version=2), state.heads(EPOCH)[1]))
    planned = state.planned_row(opened, RELATIONS)
    done = state.applied_row(opened, [head(version=2)], RELATIONS)

    assert [state.sequence, planned.sequence, done.sequence] == [2, 3, 4]
    assert (planned.kind, planned.from_cut, planned.to_cut, planned.next_offset) == ("plan", 2, 2, 4)
    assert [(entry.relation_id, entry.version) for entry in planned.tables] == [(1, 1)]


def test_an_open_plan_names_tables_that_are_not_there_yet() -> None:
    (entry,) = LakeState("p").planned_row(plan(1, touched(head(), None)), RELATIONS).tables

    assert (entry.qualified_name, entry.version, entry.head) == ("public.a", None, None)


BASES: dict[str, TableHead | None] = {"as opened": head(version=5), "another": head(version=6), "none": None}


@pytest.mark.parametrize("made_again", BASES)
def test_a_plan_made_again_is_the_opened_one_only_over_the_same_versions(made_again: str) -> None:
    """I5: over other versions its rows may be there already."""
    state = LakeState("p")
    opened = state.planned_row(plan(1, touched(head(version=6), BASES["as opened"])), RELATIONS)

    again = plan(1, touched(head(version=6), BASES[made_again]))

    assert same_tables(opened, again) == (made_again == "as opened")


def test_a_plan_made_again_of_other_tables_is_not_the_opened_one() -> None:
    one, two = touched(head(1), head(1)), touched(head(2), head(2))
    opened = LakeState("p").planned_row(plan(1, one, two), RELATIONS)

    assert same_tables(opened, plan(1, two, one))
    assert not same_tables(opened, plan(1, one))


def test_tables_of_an_older_epoch_must_be_copied_before_they_are_read_again() -> None:
    """I8."""
    state = after(LakeState("p"), 7, head(1), head(2))

    assert {of.state for of in state.heads(EPOCH).values()} == {"current"}
    assert {(of.state, of.since) for of in state.heads(NEXT).values()} == {(SUPERSEDED, 700)}


def test_a_new_epoch_is_published_without_tables_that_it_did_not_copy() -> None:
    state = after(LakeState("p"), 7, head(1), head(2))

    copying = after(state, 1, head(1, 2, "copying"), epoch=NEXT)
    published = after(copying, 2, head(1, 3), epoch=NEXT)

    assert {key: entry.state for key, entry in copying.entries.items()} == {1: "copying", 2: SUPERSEDED}
    assert {key: entry.state for key, entry in published.entries.items()} == {1: "current"}


def test_a_table_made_anew_takes_the_place_of_the_one_that_was_at_its_path() -> None:
    """I8: two tables at one path would be one."""
    state = after(LakeState("p"), 1, head(1), head(2))

    renewed = after(state, 2, head(NEW_A.table.relation_id, 9))

    assert {key: entry.path for key, entry in renewed.entries.items()} == {2: "public/b", 3: "public/a"}


def test_a_state_has_begun_where_it_first_was() -> None:
    stale = after(after(LakeState("p"), 1, head()), 2, head(version=2, state="stale"))
    still = after(stale, 3, head(version=3, state="stale"))

    assert [stale.entries[1].since, still.entries[1].since] == [200, 200]
    assert after(still, 4, head(version=4)).entries[1].since == 400


def test_cuts_that_change_nothing_are_idle_from_the_first_published_row_on() -> None:
    """I8: what is applied and not published is published by the cut that completes it, though it holds no row."""
    new = LakeState("p")
    applied = after(new, 1, head(), complete=False)
    published = after(applied, 2)

    assert [state.is_idle(row_of(state, 3)) for state in (new, applied, published)] == [False, False, True]
    assert not published.is_idle(row_of(published, 1, NEXT))


def test_cuts_that_are_passed_leave_the_row_that_would_publish_them() -> None:
    """It says the newest cut, and follows the newest row."""
    state = after(LakeState("p"), 1, head())
    for to_cut in (2, 3):
        state = state.after_empty_plan(plan(to_cut), RELATIONS, row_of(state, to_cut))
    assert state.idle is not None

    found = LakeState.after("p", state.idle)
    assert (state.idle.sequence, found.to_cut, found.idle) == (state.sequence + 1, 3, None)
    assert found.entries == state.entries


def test_copy_that_goes_on_inside_of_a_transaction_makes_the_next_cut_worth_a_row() -> None:
    state = after(LakeState("p"), 1, head())
    copies = {1: PendingCopy(A.topic, (CopyShape(0x2000, -1, A.schema_id),))}
    passed = state.after_empty_plan(replace(plan(2, complete=False), copies=copies), RELATIONS)

    assert not passed.is_idle(passed.applied_row(replace(plan(3), copies=copies), [], RELATIONS))


STATES = st.sampled_from(["current", "copying", "stale"])
STEPS = st.lists(
    st.tuples(st.dictionaries(st.sampled_from([1, 2, 3]), STATES, max_size=2), st.booleans(), st.booleans()),
    min_size=1,
    max_size=8,
)


@given(STEPS)
def test_states_follow_any_plans(steps: list[tuple[dict[int, str], bool, bool]]) -> None:
    """I5, I8: a restart stands where the newest row does, and readers get one table a path, none half copied."""
    state, epoch, sequences = LakeState("p"), EPOCH, [0]
    for to_cut, (states, complete, new_epoch) in enumerate(steps, 1):
        epoch = epoch._replace(consistent_point=to_cut) if new_epoch else epoch
        heads = [head(relation_id, to_cut, of) for relation_id, of in states.items() if {1, 3} - set(states)]
        tables = [touched(each, state.heads(epoch).get(each.relation_id)) for each in heads]
        done = plan(to_cut, *tables, epoch=epoch, complete=complete)
        row = state.applied_row(done, heads, RELATIONS)
        if tables:
            sequences.append(state.planned_row(done, RELATIONS).sequence)
        sequences.append(row.sequence)
        if not tables:
            passed = state.after_empty_plan(done, RELATIONS)
            like_passed = replace(LakeState.after("p", row), entries={}, is_published=passed.is_published)
            assert replace(passed, sequence=row.sequence, entries={}) == like_passed
            assert not state.is_idle(row) or passed.is_published
            assert passed.heads(epoch) == state.heads(epoch)
        kept = {each.relation_id: each for each in heads}
        found = LakeState.after("p", row).heads(epoch)
        assert {key: replace(each, since=None) for key, each in found.items() if key in kept} == kept
        entries: Sequence[TableEntry] = row.tables
        assert len({entry.path for entry in entries}) == len(entries)
        is_published = complete and not any(entry.state == "copying" for entry in entries)
        assert row.kind == ("published" if is_published else "applied")
        assert not is_published or all(entry.state != SUPERSEDED for entry in entries)
        assert is_published or {*state.heads(epoch)} - {*kept} <= {*found} | {1, 3}
        state = LakeState.after("p", row)
    assert sequences == list(range(len(sequences)))


def folders(state: LakeState, *tables: TablePlan) -> list[str]:
    return [table.path for table in state.with_folders(plan(9, *tables), RELATIONS).tables]


def test_a_new_table_has_the_folder_of_its_name_if_no_other_one_has_it() -> None:
    """I8: a folder is its table's for life, so a table that was renamed has that of the name it had first."""
    of_a, of_new_a = touched(head(1), None), touched(head(3), None)
    kept = replace(head(1), path="public/b")

    assert folders(LakeState("p"), of_a, of_new_a) == ["public/a", "public/a_2"]
    assert folders(after(LakeState("p"), 1, head(1)), of_new_a) == ["public/a_2"]
    assert folders(after(LakeState("p"), 1, kept), of_new_a, touched(head(2), None)) == ["public/a", "public/b_2"]


def test_a_table_whose_plan_replaces_what_is_at_a_path_has_that_path() -> None:
    state = after(LakeState("p"), 1, head(1))
    base = replace(head(1), state=SUPERSEDED)

    assert folders(state, replace(touched(head(3), base), path=base.path), touched(head(1), None)) == [
        "public/a",
        "public/a_2",
    ]
    assert folders(state, touched(head(1), None)) == ["public/a"]


@pytest.mark.parametrize("first", [1, 3])
def test_of_two_tables_with_one_name_the_one_that_got_it_last_has_it(first: int) -> None:
    """The old one was dropped before the catalogue could be asked what it was called."""
    begun = {1: None, 3: Position(Lsn(150), 2)}
    heads = [head(first), replace(head(4 - first), path="public/other")]
    tables = [
        replace(touched(each, None), segments=(Segment(0, each.schema_id, begun[each.relation_id], None),))
        for each in heads
    ]
    row = LakeState("p").applied_row(plan(1, *tables), heads, RELATIONS)

    assert by_name(row.tables)["public.a"].relation_id == 3


def test_a_table_in_trouble_keeps_its_name_against_one_that_was_called_so_before() -> None:
    """I8: else readers would get the rows of the other one under its name."""
    renamed = TableEntry(1, "public", "t", "p1", "t1", 1, "0" * 16, "current")
    in_trouble = TableEntry(2, "public", "t", "p2", "t2", 1, "0" * 16, "stale", 7, why="is gone")

    assert by_name([renamed, in_trouble])["public.t"].relation_id == 2
    assert by_name([in_trouble, renamed])["public.t"].relation_id == 1


def trouble(relation_id: int, first: str | None = None) -> TableTrouble:
    of = BY_ID[relation_id]
    return TableTrouble(relation_id, of.topic, of.schema_id, TableError("is gone", first))


@pytest.mark.parametrize(("first", "state"), [(None, "stale"), ("mend it", "quarantined")])
def test_a_table_in_trouble_is_as_it_was_at_the_last_certain_lsn_in_its_own_place(
    first: str | None, state: str
) -> None:
    """I8: all others are published, and it keeps its version, its since and its place however often it fails."""
    before = after(LakeState("p"), 44, head(1), head(2))
    for to_cut in (45, 46):
        done = plan(to_cut, touched(head(1), head(1)), touched(head(2), head(2)))
        row = before.applied_row(done, [head(2, version=to_cut)], RELATIONS, [trouble(1, first)])
        left, other = row.tables

        assert row.kind == "published"
        assert (left.relation_id, left.state, left.since, left.version) == (1, state, 4400, 1)
        assert left.why == ("is gone" if first is None else "is gone; mend it")
        assert (other.state, other.version, other.why) == ("current", to_cut, None)
        before = LakeState.after("p", row)
        assert before.awaiting_copy(EPOCH) == {1}
    assert before.awaiting_copy(NEXT) == frozenset()


def test_a_table_in_trouble_of_which_the_lake_has_nothing_is_named_and_has_no_version() -> None:
    state = LakeState.after("p", after_trouble := LakeState("p").applied_row(plan(1), [], RELATIONS, [trouble(1)]))

    (entry,) = after_trouble.tables
    assert (entry.qualified_name, entry.version, entry.state) == ("public.a", None, "stale")
    assert (state.heads(EPOCH), state.awaiting_copy(EPOCH)) == ({}, frozenset({1}))


@pytest.mark.parametrize("states", [("stale", "current"), ("current", "stale"), ("superseded", "current")])
def test_of_two_tables_with_one_name_the_one_that_goes_on_has_it(states: tuple[str, str]) -> None:
    rows = [TableEntry(n, "public", "t", f"p{n}", f"t{n}", 1, "0" * 16, state) for n, state in enumerate(states)]

    assert by_name(rows)["public.t"].state == "current"
