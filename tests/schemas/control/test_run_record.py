"""What a program last said of itself, and what follows from it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from walbridge.schemas.control.run_record import (
    NEVER_RAN,
    SILENT_S,
    End,
    How,
    LastWords,
    Run,
    decode_run,
    encode_run,
    last_words,
    record_key,
)
from walbridge.schemas.errors import ProtocolError

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUN = Run("producer", "p", "1", "0.1.0", "host", 7, "boot/ns/7/99", AT, AT, "streaming")
FAILED = End(AT, How.REFUSED, 2, "slot s is lost", "walbridge copy --all")
SOON, LATE = AT + timedelta(seconds=SILENT_S - 1), AT + timedelta(seconds=SILENT_S + 1)


@pytest.mark.parametrize("run", [RUN, RUN.ended(FAILED), RUN.ended(End(AT, How.STOPPED, 0))])
def test_record_comes_back_as_it_was(run: Run) -> None:
    assert decode_run(encode_run(run)) == run


def test_name_that_is_no_unicode_does_not_keep_a_program_from_telling_its_end() -> None:
    """As a folder's from the environment: what cannot be written is shown as unknown."""
    ended = RUN.ended(replace(FAILED, what="cannot write to /tmp/\udcff"))
    assert decode_run(encode_run(ended)).end == replace(FAILED, what="cannot write to /tmp/?")


def test_record_of_newer_code_is_read_as_far_as_it_is_known() -> None:
    record = json.loads(encode_run(RUN)) | {"format_version": 9, "mood": "fine"}
    assert decode_run(json.dumps(record).encode()) == RUN


INFINITE = encode_run(RUN).replace(b'"pid": %d' % RUN.pid, b'"pid": Infinity')


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"\xff", encode_run(RUN).replace(b"+00:00", b""), b"null", b"[" * 20_000, INFINITE]
)
def test_what_is_no_record_is_refused(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_run(text)


def test_program_that_was_heard_of_lately_runs() -> None:
    assert last_words(RUN, [None], SOON, None) == LastWords(RUN, None, is_running=True)


def test_program_that_is_not_heard_of_any_more_ended_without_a_word() -> None:
    words = last_words(RUN, [], LATE, None)
    assert words == LastWords(RUN, None, is_running=False)
    assert words.has_died


@pytest.mark.parametrize(("is_alive", "now"), [(True, LATE), (False, AT)])
def test_machine_that_can_be_asked_knows_better_than_the_clock(is_alive: bool, now: datetime) -> None:
    assert last_words(RUN, [], now, is_alive).is_running is is_alive


def test_program_that_says_its_end_does_not_run_and_says_why() -> None:
    words = last_words(RUN.ended(FAILED), [RUN.ended(FAILED)], AT, None)
    assert words == LastWords(RUN.ended(FAILED), RUN.ended(FAILED))
    assert not words.has_died


def test_end_that_came_through_as_the_other_record_alone_is_the_runs() -> None:
    words = last_words(RUN, [RUN.ended(FAILED)], AT, None)
    assert (words.is_running, words.has_died) == (False, False)


def test_start_that_is_refused_leaves_the_program_that_runs_as_running() -> None:
    second = replace(RUN, run_id="2").ended(FAILED)
    assert last_words(RUN, [second], SOON, None) == LastWords(RUN, second, is_running=True)


def test_newest_end_is_told_wherever_it_was_kept() -> None:
    left = replace(RUN, run_id="2").ended(replace(FAILED, at=LATE))
    assert last_words(RUN.ended(FAILED), [RUN.ended(FAILED), left], LATE, None).end == left


def test_end_without_a_word_does_not_say_that_the_run_was_heard_of_then() -> None:
    assert RUN.ended(End(LATE, How.UNSAID)).seen == AT
    assert RUN.ended(replace(FAILED, at=LATE)).seen == LATE


def test_records_of_a_slot_have_their_own_keys() -> None:
    assert record_key("s", "producer", "run") == b"s/producer/run"


def test_slot_in_use_tells_of_a_run_that_its_machine_does_not_deny() -> None:
    """A reader's clock may be ahead, and while Kafka is away no record is renewed."""
    assert last_words(RUN, [], LATE, None).with_slot_in_use(True).is_running
    assert not last_words(RUN, [], LATE, None).with_slot_in_use(False).is_running
    assert not last_words(RUN, [], LATE, False).with_slot_in_use(True).is_running
    assert not last_words(RUN.ended(FAILED), [], LATE, None).with_slot_in_use(True).is_running
    assert NEVER_RAN.with_slot_in_use(True) == NEVER_RAN
