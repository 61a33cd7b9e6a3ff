"""What rows of ``_cuts`` say of tables whose copy goes on beside the stream."""

from collections.abc import Mapping
from dataclasses import replace

from tests.spark_consumer.events import column, relation
from walbridge.schemas.cut import Epoch
from walbridge.spark_consumer.plan.copy_from import CopyFrom, CopyRange, CopyShape
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.plan import SUPERSEDED, Plan, TableHead

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


def copy(relation_id: int, lsn: int = 500) -> CopyFrom:
    of = BY_ID[relation_id]
    return CopyFrom(of.topic, (CopyShape(lsn, -1, of.schema_id),), (CopyRange(0, 3, 9, 4),))


def plan(to_cut: int, copies: Mapping[int, CopyFrom], *, epoch: Epoch = EPOCH, complete: bool = True) -> Plan:
    return Plan(epoch, to_cut, to_cut, 1000 * to_cut, None, complete, 0, 2 * to_cut, {}, (), copies)


def row_after(state: LakeState, done: Plan, *heads: TableHead) -> CutRow:
    return state.applied(done, heads, RELATIONS)


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


def test_a_table_under_another_name_is_copied_as_a_new_one() -> None:
    renamed = replace(copy(1), topic=B.topic, shapes=(CopyShape(500, -1, B.schema_id),))
    (entry,) = row_after(lake_with(head(1)), plan(2, {1: renamed})).tables

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
    state = lake_with(head(2)).passed(plan(2, {1: copy(1)}, complete=False), RELATIONS)

    assert state.copies(EPOCH) == {1: copy(1)}
    assert state.heads(EPOCH) == lake_with(head(2)).heads(EPOCH)
