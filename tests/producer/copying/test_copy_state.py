"""The states of a table: which event leads where, and how far a copy is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from walbridge.producer.copying.copy_state import (
    LISTED_BYTES_MAX,
    LISTED_BYTES_READ,
    Chunk,
    Illegal,
    TableState,
)
from walbridge.schemas.control import table_progress as states
from walbridge.schemas.control.table_progress import TableCopy
from walbridge.schemas.position import Lsn

NEW = TableState.appeared(16_384, Lsn(10), "added after the copy")
COPYING = NEW.begin_copy(Lsn(20))
WHOLE = COPYING.enter(Chunk(3, 30, ("3",), is_last=True))
STATES = {
    states.STALE: NEW,
    states.COPYING: COPYING,
    states.CURRENT: WHOLE.end_copy(Lsn(30)),
    states.QUARANTINED: NEW.quarantine(Lsn(40), "a row is too large"),
    states.DROPPED: NEW.leave(Lsn(50), "dropped"),
}
LSN, WHY = Lsn(99), "why"
EVENTS: dict[str, Callable[[TableState], TableState]] = {
    "truncate": lambda table: table.truncate(),
    "leave": lambda table: table.leave(LSN, WHY),
    "doubt": lambda table: table.doubt(LSN, WHY),
    "quarantine": lambda table: table.quarantine(LSN, WHY),
    "begin_copy": lambda table: table.begin_copy(LSN),
    "enter": lambda table: table.enter(Chunk(1, 10, ("1",))),
    "end_copy": lambda table: table.end_copy(LSN),
}
A, B = {b"a": b"row a"}, {b"b": b"row b"}

S, C, Q, D, Y = states.STALE, states.CURRENT, states.QUARANTINED, states.DROPPED, states.COPYING
AFTER: dict[str, dict[str, str | None]] = {
    # None: illegal
    S: {"truncate": S, "leave": D, "doubt": S, "quarantine": Q, "begin_copy": Y},
    Y: {"truncate": Y, "leave": D, "doubt": S, "quarantine": Q, "enter": Y},
    C: {"truncate": C, "leave": D, "doubt": S, "quarantine": Q, "begin_copy": Y},
    Q: {"truncate": Q, "leave": D, "doubt": Q, "begin_copy": Y},
    D: {"truncate": D, "leave": D, "doubt": D},
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", STATES)
def test_event_leads_to_the_state_of_the_table_of_transitions(state: str, event: str) -> None:
    table, expected = STATES[state], AFTER[state].get(event)

    if expected is None:
        with pytest.raises(Illegal):
            EVENTS[event](table)
        return
    after = EVENTS[event](table)

    assert after.state == expected
    assert after.is_followed == (expected in (states.CURRENT, states.COPYING))
    assert (after.copy is not None) == (expected == states.COPYING)
    if expected != state:
        assert after.since == LSN


def test_reason_and_time_of_the_first_doubt_stay() -> None:
    """A later one tells less."""
    doubted = STATES[states.CURRENT].doubt(Lsn(60), "its folder is gone")

    assert doubted.doubt(LSN, WHY) == doubted
    assert (doubted.since, doubted.why) == (60, "its folder is gone")


def test_copy_goes_on_behind_its_last_chunk() -> None:
    """What progress holds is all that a restart needs."""
    table = COPYING.enter(Chunk(2, 20, ("1", "b"))).enter(Chunk(3, 40, ("7", "a")))

    assert table.copy == TableCopy(Lsn(20), ("7", "a"), rows=5, bytes=60, chunks=2, has_all_ranges=False)


def test_last_range_may_be_empty() -> None:
    table = COPYING.enter(Chunk(2, 20, ("1",))).enter(Chunk(0, 0, None, is_last=True))

    assert table.copy is not None
    assert table.copy.bound == ("1",)
    assert table.end_copy(LSN) == TableState(16_384, states.CURRENT, LSN)


def test_copy_does_not_end_before_its_last_range() -> None:
    with pytest.raises(Illegal, match="not whole"):
        COPYING.enter(Chunk(2, 20, ("1",))).end_copy(LSN)


def test_no_range_follows_the_last_one() -> None:
    with pytest.raises(Illegal, match="after the last"):
        WHOLE.enter(Chunk(2, 20, ("1",)))


def test_copy_does_not_end_before_its_listed_keys_are_read() -> None:
    table = WHOLE.list_moved(LSN, A)
    with pytest.raises(Illegal, match="not whole"):
        table.end_copy(LSN)

    assert table.enter(Chunk(1, 10, asked=A)).end_copy(LSN).state == states.CURRENT


def test_key_that_was_listed_again_in_the_window_of_its_own_chunk_stays() -> None:
    """Another row came to it meanwhile, with values that are unknown again."""
    table = WHOLE.list_moved(LSN, A).enter(Chunk(0, 0, asked=A, read_again=A))

    assert table.copy is not None
    assert table.copy.listed == A


def test_key_that_a_chunk_sent_whole_is_no_longer_listed() -> None:
    table = COPYING.list_moved(LSN, A | B).enter(Chunk(1, 10, ("1",), moved={b"a"}))

    assert table.copy is not None
    assert table.copy.listed == B


@pytest.mark.parametrize(
    ("table", "reads_listed"),
    [
        (COPYING, False),
        (COPYING.list_moved(LSN, A), False),
        (COPYING.list_moved(LSN, {b"k": b"r" * LISTED_BYTES_READ}), True),
        (WHOLE, False),
        (WHOLE.list_moved(LSN, A), True),
    ],
)
def test_listed_keys_are_read_when_they_are_many_or_all_that_is_left(table: TableState, reads_listed: bool) -> None:
    assert table.reads_listed == reads_listed


def test_list_of_keys_is_bounded() -> None:
    """The copy is then given up: progress stays small (I9)."""
    table = COPYING.list_moved(LSN, {b"k": b"r" * (LISTED_BYTES_MAX - 2)})
    assert table.state == states.COPYING

    assert table.list_moved(LSN, A).state == states.STALE


def test_keys_are_listed_only_while_a_table_is_copied() -> None:
    current = STATES[states.CURRENT]

    assert current.list_moved(LSN, A) == current


def test_truncate_takes_the_listed_rows_too() -> None:
    table = COPYING.enter(Chunk(2, 20, ("1",))).list_moved(LSN, A).truncate()

    assert table.copy is not None
    assert (table.copy.listed, table.copy.bound) == ({}, ("1",))
