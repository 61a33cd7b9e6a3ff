"""The oracle of the producer's tests is no easier on what it reads than the contract: each damage fails it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.replay import Event, Replay
from tests.source_rows import check_no_table_is_absent, comparable
from walbridge.schemas.control.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.table_schema import TableSchema

TOPIC = "p.public.t"
RELATION = RelationRecord(TableSchema(7, "public", "t", "d", ()), TOPIC, 2, "0" * 16, "{}", None, None)


def event(op: str, lsn: int, key: bytes | None, partition: int, ordinal: int = 0, value: str = "a") -> Event:
    after = {"id": 1, "value": value} if op in "cu" else None
    return Event(RELATION, partition, 0, key, {}, op, Position(Lsn(lsn), ordinal), None, after, (), None, {})


def cut(end_lsn: int, barriers: tuple[Barrier, ...] = ()) -> Cut:
    changes = TableChanges(7, TOPIC, ("0" * 16,), 1, barriers)
    ranges = (PartitionRange(TOPIC, 0, 0, 1, 1),)
    return Cut(Epoch("1", 1, "s", 1), 1, 1, end_lsn, None, None, 1, True, 0, ranges, (changes,))


@pytest.fixture
def copied() -> Replay:
    """A table of two partitions, copied at LSN 1, with one row of LSN 5."""
    replay = Replay()
    begin = Barrier("copy_begin", Position(Lsn(1), -1), "0" * 16)
    replay.apply(cut(10, (begin,)), [event("t", 1, None, 0, -1), event("t", 1, None, 1, -1), event("c", 5, b"k", 0)])
    return replay


def test_a_key_stays_in_its_partition(copied: Replay) -> None:  # I3
    copied.apply(cut(20), [event("u", 15, b"k", 0, value="b")])
    with pytest.raises(AssertionError, match="partition"):
        copied.apply(cut(30), [event("u", 25, b"k", 1, value="c")])


def test_a_row_that_was_read_again_is_there_or_gone_whatever_was_before(copied: Replay) -> None:
    def row(key: bytes, value: str) -> Event:
        source = {"snapshot": "incremental"}
        after = {"id": 1, "value": value}
        return Event(RELATION, 0, 0, key, {}, "r", Position(Lsn(15), -1), None, after, (), None, source)

    copied.apply(cut(20), [row(b"k", "b"), row(b"new", "c"), event("d", 15, b"not there", 1, -1)])
    assert [each["value"] for each in copied.rows("public", "t")] == ["b", "c"]
    copied.apply(cut(30), [event("d", 25, b"k", 0, -1)])
    assert [each["value"] for each in copied.rows("public", "t")] == ["c"]
    with pytest.raises(KeyError):
        copied.apply(cut(40), [event("d", 35, b"k", 0, 0)])


def test_a_complete_cut_holds_nothing_from_after_its_end(copied: Replay) -> None:  # I8
    with pytest.raises(AssertionError, match="after its end"):
        copied.apply(cut(20), [event("u", 21, b"k", 0)])


def test_a_table_without_any_event_is_absent(copied: Replay) -> None:  # I7
    check_no_table_is_absent({("public", "t")}, copied)
    with pytest.raises(AssertionError, match="lost"):
        check_no_table_is_absent({("public", "t"), ("public", "lost")}, copied)


@pytest.mark.parametrize(
    ("one", "other"), [(0.0, -0.0), (1, True), (1, 1.0), (Decimal("1.5"), Decimal("1.50")), ((0.0,), (-0.0,))]
)
def test_values_that_python_takes_for_equal_are_two(one: Any, other: Any) -> None:
    assert one == other
    assert comparable({"value": one}) != comparable({"value": other})
