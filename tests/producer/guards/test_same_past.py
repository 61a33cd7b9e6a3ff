"""Whether the server sends the transaction that was published last once more."""

from collections.abc import Iterable
from typing import cast

import pytest

from tests.producer.pgoutput.encoder import encode_message, keepalive, xlog_data
from walbridge.producer.guards.same_past import can_be_asked, refuse_other_past
from walbridge.producer.pgoutput.messages import Begin
from walbridge.producer.postgres.facts import SlotState
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.schemas.control.progress_record import DDL_OPTION, TIMELINE_OPTION, Progress, last_commit_option
from walbridge.schemas.errors import StreamLost
from walbridge.schemas.position import Lsn

LAST, TIME_US, VERSION = Lsn(1000), 5, 180_000
OPTIONS = {"proto_version": "2", "streaming": "on", "publication_names": '"walbridge"'}


def progress(options: dict[str, str] | None = None) -> Progress:
    known = last_commit_option(LAST, TIME_US) | (OPTIONS if options is None else options)
    return Progress("streaming", "7", 1, "walbridge", "shop", options=known)


def slot(confirmed: int | None) -> SlotState:
    return SlotState("pgoutput", "shop", None, "reserved", None if confirmed is None else Lsn(confirmed), False)


class Stream:
    """Answers with these frames, then with nothing more."""

    def __init__(self, frames: Iterable[bytes]) -> None:
        self._frames = iter(frames)
        self.started: tuple[Lsn, dict[str, str], Lsn | None] | None = None

    def start(self, start_lsn: Lsn, options: dict[str, str], confirmed: Lsn | None = None) -> None:
        self.started = start_lsn, options, confirmed

    def read(self) -> bytes | None:
        return next(self._frames)

    def keep_alive(self) -> None:
        pass

    def wait(self, timeout_s: float) -> None:
        pass


def refuse(*frames: bytes) -> Stream:
    stream = Stream(frames)
    refuse_other_past(cast(ReplicationStream, stream), progress(), slot(900), OPTIONS, lambda: None)
    return stream


def begin(lsn: int, time_us: int = TIME_US) -> bytes:
    return xlog_data(encode_message(Begin(Lsn(lsn), time_us, 77)))


def test_transaction_that_comes_again_is_the_one_that_was_published() -> None:
    stream = refuse(keepalive(900), keepalive(LAST), begin(LAST))

    assert stream.started == (LAST, {"proto_version": "2", "publication_names": '"walbridge"'}, 900)


@pytest.mark.parametrize(
    "frame", [begin(LAST, TIME_US + 1), begin(1008), keepalive(1001)], ids=["of another time", "behind it", "none"]
)
def test_another_transaction_or_none_is_another_past(frame: bytes) -> None:
    """I7."""
    with pytest.raises(StreamLost, match="that was published last is not in the server's WAL"):
        refuse(frame)


@pytest.mark.parametrize(("confirmed", "is_asked"), [(999, True), (1000, True), (1001, False), (None, False)])
def test_transaction_is_asked_for_only_where_the_slot_stands_before_it(confirmed: int | None, is_asked: bool) -> None:
    assert can_be_asked(progress(), slot(confirmed), OPTIONS, VERSION) == is_asked


@pytest.mark.parametrize(
    "now",
    [{"publication_names": '"other"'}, {"origin": "none"}, {"messages": "true"}, {DDL_OPTION: "7"}, {"two_phase": "t"}],
)
def test_nothing_is_asked_where_other_changes_come_than_before(now: dict[str, str]) -> None:
    assert not can_be_asked(progress(), slot(900), OPTIONS | now, VERSION)


@pytest.mark.parametrize("now", [{"streaming": "off"}, {"proto_version": "1"}, {TIMELINE_OPTION: "2"}])
def test_how_changes_come_makes_no_difference(now: dict[str, str]) -> None:
    assert can_be_asked(progress(), slot(900), OPTIONS | now, VERSION)


def test_nothing_is_asked_where_nothing_was_published() -> None:
    assert not can_be_asked(Progress("streaming", "7", 1, "walbridge", "shop"), slot(900), {}, VERSION)


@pytest.mark.parametrize(
    ("version", "is_asked"), [(140_020, False), (150_013, True), (170_004, False), (170_005, True), (180_000, True)]
)
def test_nothing_is_asked_where_another_walsender_may_send_something_else(version: int, is_asked: bool) -> None:
    assert can_be_asked(progress(), slot(900), OPTIONS, version) == is_asked
