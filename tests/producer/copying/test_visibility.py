"""What a snapshot contains, and what was received without any snapshot showing it (I8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.producer.copying.visibility import ReceivedTransactions, Snapshot, widen
from walbridge.schemas.errors import ProtocolError

EPOCH = 1 << 32
_xids = st.integers(3, 1 << 40)


@st.composite
def _texts(draw: st.DrawFn) -> tuple[int, int, list[int], str]:
    xmin = draw(_xids)
    xmax = xmin + draw(st.integers(0, 50))
    running = sorted(draw(st.sets(st.integers(xmin, xmax - 1)))) if xmax > xmin else []
    return xmin, xmax, running, f"{xmin}:{xmax}:{','.join(map(str, running))}"


@given(_texts())
def test_snapshot_contains_what_had_ended_when_it_was_taken(drawn: tuple[int, int, list[int], str]) -> None:
    xmin, xmax, running, text = drawn

    snapshot = Snapshot.parse(text)

    assert (snapshot.xmin, snapshot.xmax, snapshot.in_progress) == (xmin, xmax, frozenset(running))
    for xid in range(xmin - 3, xmax + 3):
        assert snapshot.contains(xid) == (xid < xmax and xid not in running)


@pytest.mark.parametrize(
    "text",
    ["", "10:20", "10:20:15:16", "20:10:", "10:20:20", "10:20:9", "10:20:,", "2:5:", "a:b:", "10:20:15 ", "-1:5:"],
)
def test_text_that_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="not a snapshot"):
        Snapshot.parse(text)


@given(near=_xids, distance=st.integers(-(1 << 31), (1 << 31) - 1))
def test_xid_of_32_bits_is_widened_to_the_nearest(near: int, distance: int) -> None:
    """Across the ends of epochs, too."""
    xid = near + distance
    if xid >= 0 and xid % EPOCH >= 3:
        assert widen(xid % EPOCH, near) == xid


@pytest.mark.parametrize(
    ("xid", "near", "widened"),
    [
        (3, 5 * EPOCH - 1, 5 * EPOCH + 3),  # the first of an epoch, of a snapshot at the end of the one before
        (EPOCH - 1, 5 * EPOCH + 3, 5 * EPOCH - 1),
        (3, 3, 3),
        (EPOCH - 1, 3, EPOCH - 1),  # there is no epoch before the first
        (700, 700, 700),
    ],
)
def test_epochs_end_between_an_xid_and_the_snapshot(xid: int, near: int, widened: int) -> None:
    assert widen(xid, near) == widened


@pytest.mark.parametrize("xid", [-1, 0, 1, 2, EPOCH])
def test_xid_that_no_transaction_has_is_refused(xid: int) -> None:
    with pytest.raises(ProtocolError, match="not the xid of a transaction"):
        widen(xid, 5 * EPOCH)


def test_received_transaction_is_remembered_until_a_snapshot_contains_it() -> None:
    received = ReceivedTransactions(begun=100)
    for xid in (101, 102, 103):
        received.receive(xid)

    received.look(Snapshot.parse("102:104:102"))

    assert list(received.before().received) == [102]
    assert not received.before().is_contained_in(Snapshot.parse("102:110:102"))
    assert received.before().is_contained_in(Snapshot.parse("110:110:"))


def test_look_at_a_newer_snapshot_takes_nothing_from_a_window_that_is_open() -> None:
    """The snapshot of its rows may be older, and lack what the look shows."""
    received = ReceivedTransactions(begun=100)
    received.receive(101)
    before = received.before()

    received.look(Snapshot.parse("102:102:"))

    assert not before.is_contained_in(Snapshot.parse("101:102:101"))
    assert received.before().is_contained_in(Snapshot.parse("101:102:101"))


def test_what_is_received_after_a_window_opened_does_not_belong_to_what_was_before() -> None:
    received = ReceivedTransactions(begun=100)
    before = received.before()

    received.receive(101)

    assert before.is_contained_in(Snapshot.parse("101:102:101"))


@pytest.mark.parametrize(("text", "has_ended"), [("99:105:99", False), ("100:100:", True), ("103:105:103", True)])
def test_what_was_open_when_the_session_began_has_ended_when_xmin_is_beyond(text: str, has_ended: bool) -> None:
    assert ReceivedTransactions(begun=100).before().has_ended_in(Snapshot.parse(text)) == has_ended


def test_transaction_above_xmax_may_be_one_that_was_open_when_the_session_began() -> None:
    """It runs, and its commit may be in the WAL; but no xid as high as it had ended when the snapshot was taken."""
    assert not ReceivedTransactions(begun=100).before().has_ended_in(Snapshot.parse("98:98:"))


@pytest.mark.parametrize(
    ("text", "xid"), [("99:105:99", 99), ("100:105:100,101,103", 101), ("100:105:100", None), ("105:105:", None)]
)
def test_transaction_that_a_snapshot_waits_for_is_the_oldest_one_or_one_that_was_received(
    text: str, xid: int | None
) -> None:
    received = ReceivedTransactions(begun=100)
    for each in (101, 103):
        received.receive(each)
    assert received.before().missing_from(Snapshot.parse(text)) == xid


def test_transaction_that_a_snapshot_waits_for_is_told_by_the_32_bits_that_views_show() -> None:
    before = ReceivedTransactions(begun=EPOCH + 100).before()
    assert before.missing_from(Snapshot(EPOCH + 7, EPOCH + 200, frozenset({EPOCH + 7}))) == 7


def test_memory_of_a_session_is_bounded_while_nobody_looks() -> None:
    """The session then counts as begun anew behind the newest transaction (I9)."""
    received = ReceivedTransactions(begun=EPOCH - 2, count_max=3)
    for xid in (EPOCH - 1, 3, 5, 4):
        received.receive(xid)

    assert len(received) == 0
    assert not received.before().has_ended_in(Snapshot(EPOCH + 5, EPOCH + 9, frozenset({EPOCH + 5})))
    assert received.before().has_ended_in(Snapshot(EPOCH + 6, EPOCH + 6, frozenset()))
