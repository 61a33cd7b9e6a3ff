"""What rows of ``_cuts`` say of tables whose copy goes on beside the stream."""

from collections.abc import Mapping
from dataclasses import replace

from tests.spark_consumer.events import column, relation
from walbridge.schemas.control.cut import Barrier, Cut, Epoch, TableChanges, chain_break
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.pending_copy import CopyRange, CopyShape, PendingCopy
from walbridge.spark_consumer.plan.plan import SUPERSEDED, Plan, TableHead, make_plan

EPOCH = Epoch("7", 1, "s", 0x1000)
NEXT = EPOCH._replace(consistent_point=0x9000)
A, B = (relation([column("id", "int4", is_key=True)], name=name, relation_id=n) for n, name in enumerate("ab", 1))
NEW_A = relation([column("id", "int8", is_key=True)], name="a", relation_id=3)
BAG = relation([column("id", "int4")], name="bag", relation_id=4, identity="f")
BY_ID = {each.table.relation_id: each for each in (A, B, NEW_A, BAG)}
RELATIONS = {each.schema_id: each for each in BY_ID.values()}


def head(relation_id: int, version: int = 1, state: str = "current") -> TableHead:
    of = BY_ID[relation_id]
    return TableHead(relation_id, of.topic, f"public/{of.table.name}", version, of.schema_id, state)


def copy(relation_id: int, lsn: int = 500) -> PendingCopy:
    of = BY_ID[relation_id]
    return PendingCopy(of.topic, (CopyShape(lsn, -1, of.schema_id),), (CopyRange(0, 3, 9, 4),))


def plan(to_cut: int, copies: Mapping[int, PendingCopy], *, epoch: Epoch = EPOCH, complete: bool = True) -> Plan:
    return Plan(epoch, to_cut, to_cut, 1000 * to_cut, None, complete, 0, 2 * to_cut, {}, (), copies)


def row_after(state: LakeState, done: Plan, *heads: TableHead) -> CutRow:
    return state.applied_row(done, heads, RELATIONS)


def lake_with(*heads: TableHead) -> LakeState:
    return LakeState.after("p", row_after(LakeState("p"), plan(1, {}), *heads))


def entries(row: CutRow) -> dict[int, TableEntry]:
    return {entry.relation_id: entry for entry in row.tables}


def test_a_first_copy_holds_up_nobody_and_is_named_as_one() -> None:
    """I8: all tables that are current are published."""
    row = row_after(lake_with(head(2)), plan(2, {1: copy(1)}), head(2, 2))

    assert row.kind == "published"
    assert entries(row)[1] == TableEntry(1, "public", "a", A.topic, "", None, A.schema_id, "copying", 500, copy(1))
    assert LakeState.after("p", row).heads(EPOCH) == {2: replace(head(2, 2), since=1000)}
    assert LakeState.after("p", row).copies(EPOCH) == {1: copy(1)}


def test_a_table_that_is_copied_again_stays_what_it_is() -> None:
    for state in ("current", "stale"):
        row = row_after(lake_with(head(1, state=state)), plan(2, {1: copy(1)}))
        entry = entries(row)[1]

        assert (row.kind, entry.state, entry.version, entry.copy_from) == ("published", state, 1, copy(1))


def test_a_table_without_a_key_is_not_current_while_it_is_copied() -> None:
    """I8: its changes are not in the topic before its rows."""
    begun = row_after(lake_with(head(4)), plan(2, {4: copy(4)}), head(4, 2))
    ended = row_after(LakeState.after("p", begun), plan(3, {}), head(4, 3))
    left = row_after(LakeState.after("p", begun), plan(3, {}))

    assert [(e.state, e.since, e.version) for row in (begun, ended, left) for e in row.tables] == [
        ("copying", 500, 2),
        ("current", 3000, 3),
        ("stale", 3000, 2),
    ]


def test_a_copy_that_ended_is_remembered_no_more() -> None:
    begun = LakeState.after("p", row_after(lake_with(head(1)), plan(2, {1: copy(1), 2: copy(2)})))
    row = row_after(begun, plan(3, {}), head(1, 2), head(2, 0))

    assert {key: (e.state, e.version, e.copy_from) for key, e in entries(row).items()} == {
        1: ("current", 2, None),
        2: ("current", 0, None),
    }


def test_a_table_that_was_left_inside_of_its_first_copy_is_named_no_more() -> None:
    begun = LakeState.after("p", row_after(lake_with(head(2)), plan(2, {1: copy(1)})))

    assert [*entries(row_after(begun, plan(3, {})))] == [2]


def test_the_copy_of_a_table_made_anew_takes_its_entry_and_its_rows_are_stale() -> None:
    """I8: one table a name, and its folder is known to the plan that ends the copy."""
    row = row_after(lake_with(head(1)), plan(2, {3: copy(3)}))
    (entry,) = row.tables

    assert (entry.relation_id, entry.path, entry.version) == (3, "public/a", 1)
    assert (entry.state, entry.since) == ("stale", 500)
    assert LakeState.after("p", row).heads(EPOCH)[3].path == "public/a"


MOVED = replace(copy(1), topic="p.public.a_2")


def test_a_table_that_is_copied_into_another_topic_keeps_its_rows_until_the_end() -> None:
    """I8: its topic is gone, and what was published of it is not."""
    begun = row_after(lake_with(head(1, state="stale")), plan(2, {1: MOVED}))
    (entry,) = begun.tables
    assert (entry.path, entry.version, entry.state, entry.topic) == ("public/a", 1, "stale", "p.public.a_2")

    ended = row_after(LakeState.after("p", begun), plan(3, {}), replace(head(1, 2), topic="p.public.a_2"))
    assert [(e.path, e.version, e.state, e.topic) for e in ended.tables] == [("public/a", 2, "current", "p.public.a_2")]


def test_a_topic_that_a_table_left_is_free_for_another_one() -> None:
    """Both copies go on at a time."""
    begun = LakeState.after("p", row_after(lake_with(head(1, state="stale")), plan(2, {1: MOVED})))
    row = row_after(begun, plan(3, {1: MOVED, 3: copy(3)}))

    assert {key: (e.version, e.state, e.topic) for key, e in entries(row).items()} == {
        1: (1, "stale", "p.public.a_2"),
        3: (None, "copying", A.topic),
    }


def test_a_table_of_another_epoch_in_another_topic_is_copied_as_a_new_one() -> None:
    """Relations of another server may have the same numbers."""
    renamed = replace(copy(1), topic=B.topic, shapes=(CopyShape(500, -1, B.schema_id),))
    (entry,) = row_after(lake_with(head(1)), plan(1, {1: renamed}, epoch=NEXT)).tables

    assert (entry.qualified_name, entry.path, entry.version, entry.state) == ("public.b", "", None, "copying")


def test_a_copy_does_not_outlive_its_epoch() -> None:
    """The tables of the old one are stale while they are copied, and named no more where they are not."""
    begun = LakeState.after("p", row_after(lake_with(head(1), head(2)), plan(2, {1: copy(1), 4: copy(4)})))
    assert begun.copies(NEXT) == {}
    assert {each.state for each in begun.heads(NEXT).values()} == {SUPERSEDED}

    row = row_after(begun, plan(1, {1: copy(1, 0x9100)}, epoch=NEXT))
    assert row.kind == "published"
    assert {entry.relation_id: (entry.state, entry.since) for entry in row.tables} == {1: ("stale", 2000)}


def test_cuts_that_leave_no_row_are_remembered_with_their_copies() -> None:
    """I7: what a copy's records are counted by."""
    state = lake_with(head(2)).after_empty_plan(plan(2, {1: copy(1)}, complete=False), RELATIONS)

    assert state.copies(EPOCH) == {1: copy(1)}
    assert state.heads(EPOCH) == lake_with(head(2)).heads(EPOCH)


def begins(epoch: Epoch = NEXT, *tables: TableChanges, complete: bool = True) -> Cut:
    """Cut 1 of an epoch at 0x500, below what the one before reached."""
    return Cut(epoch, 1, 0x500, 0x500, None, None, 0, complete, 0, (), tables)


def test_an_epoch_that_begins_without_a_copy_leaves_each_table_as_it_is_and_calls_it_stale() -> None:
    """I8: readers keep the old rows, marked, until the copy of the table is whole; also of one that is never copied."""
    gone = TableChanges(1, A.topic, (), 0, (Barrier("dropped", Position(Lsn(0x500), -1)),))
    before = LakeState.after("p", row_after(lake_with(head(1), head(2)), plan(2, {1: copy(1), 4: copy(4)})))

    state = before.in_epoch_of(begins(NEXT, gone))
    row = row_after(state, replace(plan(1, {}, epoch=NEXT), end_lsn=0x500))

    assert chain_break(state.last_cut, begins()) is None
    assert (row.kind, row.epoch, row.end_lsn, state.is_idle(row)) == ("published", str(NEXT), 0x500, False)
    told = {key: (e.state, e.since, e.version, e.path, e.copy_from) for key, e in entries(row).items()}
    assert told == {n: ("stale", 2000, 1, f"public/{name}", None) for n, name in enumerate("ab", 1)}
    assert (state.awaiting_copy(NEXT), state.copies(NEXT)) == (frozenset({1, 2}), {})
    assert (
        make_plan([(0, begins(NEXT, gone))], state.heads(NEXT), state.copies(NEXT), state.awaiting_copy(NEXT)).tables
        == ()
    )


def test_a_table_of_the_epoch_before_is_current_once_its_copy_is_whole() -> None:
    """I8: its folder stays its own."""
    state = lake_with(head(1), head(2)).in_epoch_of(begins())
    begun = LakeState.after("p", row_after(state, plan(2, {1: copy(1, 0x510)}, epoch=NEXT)))
    assert {key: (e.state, e.copy_from) for key, e in begun.entries.items()} == {
        1: ("stale", copy(1, 0x510)),
        2: ("stale", None),
    }

    ended = LakeState.after("p", row_after(begun, plan(3, {}, epoch=NEXT), head(1, 2)))
    assert {key: (e.state, e.path, e.version) for key, e in ended.entries.items()} == {
        1: ("current", "public/a", 2),
        2: ("stale", "public/b", 1),
    }


def test_a_table_that_was_stale_before_the_epoch_began_is_so_since_then() -> None:
    state = lake_with(head(1, state="stale"), head(2, state="quarantined")).in_epoch_of(begins())
    assert {key: e.state for key, e in state.entries.items()} == {1: "stale", 2: "quarantined"}
    assert {e.since for e in state.entries.values()} == {1000}


def test_half_a_first_copy_is_nothing_to_an_epoch_that_begins_without_one() -> None:
    """I8: its rows are of no state of the source, so nobody is shown them as stale. What the copy was to replace is as
    old as it was."""
    half = plan(1, {}, epoch=NEXT, complete=False)
    first = LakeState.after("p", row_after(lake_with(head(2)), half, head(1, state="copying")))
    assert {key: e.state for key, e in first.entries.items()} == {1: "copying", 2: SUPERSEDED}

    state = first.in_epoch_of(begins(NEXT._replace(consistent_point=0xA000)))

    assert {key: (e.state, e.since) for key, e in state.entries.items()} == {2: ("stale", 1000)}


def test_only_an_epoch_without_a_first_copy_is_entered_so() -> None:
    """A first copy begins with the first cut, be it whole in it or not."""
    state = lake_with(head(1))
    begin = TableChanges(1, A.topic, (), 0, (Barrier("copy_begin", Position(Lsn(0x9000), -1), A.schema_id),))

    assert state.in_epoch_of(begins(EPOCH)) is state
    assert state.in_epoch_of(begins(NEXT, begin)) is state
    assert state.in_epoch_of(begins(NEXT, begin, complete=False)) is state
    assert state.in_epoch_of(replace(begins(), complete=False)) is state
    assert LakeState("p").in_epoch_of(begins()) == LakeState("p")


def test_relation_ids_of_another_cluster_mean_other_tables() -> None:
    """I8: the copy of the table that has the topic takes the entry's place, whatever had its id before."""
    elsewhere = NEXT._replace(system_id="8")
    state = lake_with(head(1), head(2)).in_epoch_of(begins(elsewhere))
    assert {key: (e.relation_id, e.path) for key, e in state.entries.items()} == {
        -1: (-1, "public/a"),
        -2: (-2, "public/b"),
    }
    swapped = replace(copy(1, 0x510), shapes=(CopyShape(0x510, -1, B.schema_id),), topic=B.topic)

    begun = LakeState.after("p", row_after(state, plan(2, {1: swapped}, epoch=elsewhere)))

    assert {key: (e.path, e.state, e.topic) for key, e in begun.entries.items()} == {
        -1: ("public/a", "stale", A.topic),
        1: ("public/b", "stale", B.topic),
    }
    again = begun.in_epoch_of(begins(NEXT))
    assert {e.path for e in again.entries.values()} == {"public/a", "public/b"}
