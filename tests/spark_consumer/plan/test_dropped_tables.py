"""What holds the place of a folder that waits: under no table's id or topic, and in every epoch (I8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.spark_consumer.plan.test_lake_state import BY_ID, EPOCH, NEXT, RELATIONS, A, after, head, plan, touched
from walbridge.spark_consumer.plan.dropped_tables import may_be_unpublished, taken_out, without_folders
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.plan import TableHead

LEFT = head(1, state="stale", since=50)
FOLDER = "public/a"


def state() -> LakeState:
    """Table a was taken out, b goes on."""
    before = after(LakeState("p"), 1, LEFT, head(2))
    assert may_be_unpublished(before.entries) == {1}
    return LakeState.after("p", before.row_at_same_lsn(taken_out(before.entries, {1})))


def paths(of: LakeState) -> list[str]:
    return [entry.path for entry in of.entries.values() if entry.is_dropped]


def test_row_that_takes_a_table_out_is_of_the_same_state_of_the_source() -> None:
    before = after(LakeState("p"), 1, LEFT, head(2))
    row = before.row_at_same_lsn(taken_out(before.entries, {1}))
    assert (row.kind, row.sequence, row.epoch) == ("published", before.sequence + 1, str(EPOCH))
    assert (row.end_lsn, row.to_cut, row.next_offset) == (before.end_lsn, before.to_cut, before.next_offset)
    assert row.commit_time == before.committed_at
    assert row.written_at <= datetime.now(UTC)


def test_tables_that_go_on_or_wait_for_a_copy_have_not_left() -> None:
    entries = state().entries
    assert may_be_unpublished(entries) == frozenset()
    assert {entry.relation_id for entry in entries.values()} == {2, -1}


@pytest.mark.parametrize("again", [1, 3], ids=["the same table", "another of its name and topic"])
def test_folder_is_held_until_it_is_deleted(again: int) -> None:
    held = state()
    new = replace(touched(head(again), None), topic=A.topic)
    assert held.with_folders(plan(2, new), RELATIONS).tables[0].path == "public/a_2"
    done = after(held, 2, TableHead(again, A.topic, "public/a_2", 0, BY_ID[again].schema_id, "current"))
    assert (paths(done), done.entries[again].path) == ([FOLDER], "public/a_2")

    free = LakeState.after("p", held.row_at_same_lsn(without_folders(held.entries, {FOLDER})))
    assert free.with_folders(plan(2, new), RELATIONS).tables[0].path == FOLDER


@pytest.mark.parametrize("system_id", ["7", "8"], ids=["same cluster", "another cluster"])
def test_folder_is_held_in_a_later_epoch_too(system_id: str) -> None:
    """Whether its tables are copied first, or beside the stream."""
    held, epoch = state(), NEXT._replace(system_id=system_id)
    assert paths(after(held, 1, head(2), epoch=epoch)) == [FOLDER]
    entered = LakeState("p", entries={entry.relation_id: entry for entry in held._entries_in_new_epoch(epoch)})
    assert paths(entered) == [FOLDER]
    assert len(entered.entries) == len(held.entries)


def test_several_tables_that_go_at_different_times_hold_a_folder_each() -> None:
    held = state()
    stale = {2: replace(held.entries[2], state="stale")}
    both = taken_out({**held.entries, **stale}, {2})
    assert sorted((each, entry.path) for each, entry in both.items()) == [(-2, "public/b"), (-1, FOLDER)]
