"""Every target keeps its promise: on its seeds, on damaged ones, on structured ones, and for seconds under atheris."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.fuzz import targets
from tests.fuzz.__main__ import options
from tests.fuzz.campaign import fuzz, shares
from tests.fuzz.damage import mutated
from tests.fuzz.targets import ALL, TARGETS, seeds
from tests.producer.pgoutput.encoder import encode_message
from tests.producer.strategies import MESSAGES, PREFIXED
from walbridge.schemas.errors import ProtocolError

DAMAGED_COUNT = 2_000
ATHERIS_COUNT = 8_000


@pytest.mark.parametrize("name", TARGETS)
def test_seed_is_a_value_not_a_refusal(name: str) -> None:
    """Else fuzzing would begin with what is refused at the door."""
    for seed in seeds(name):
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input_is_a_value_or_refused(name: str) -> None:
    refused = 0
    for data in mutated(seeds(name), Random(name), DAMAGED_COUNT):
        try:
            TARGETS[name].run(data)
        except TARGETS[name].refusals:
            refused += 1
    assert refused < DAMAGED_COUNT
    assert refused or name in ("stream", "value")  # which go on after a refusal


@pytest.mark.parametrize("name", TARGETS)
def test_empty_and_short_inputs_are_a_value_or_refused(name: str) -> None:
    for first in range(256):
        for data in (b"", bytes([first]), bytes([first, 0]), bytes([first, 0xFF, 0xFF])):
            TARGETS[name](data)


@given(st.lists(MESSAGES | PREFIXED, max_size=6), st.binary(max_size=8))
@settings(max_examples=examples(200))
def test_session_of_any_messages_in_any_order_is_decoded_or_refused(messages: list[object], rest: bytes) -> None:
    payloads = [encode_message(message) for message in messages]  # type: ignore[arg-type]
    targets.stream(b"".join(len(each).to_bytes(2, "big") + each for each in payloads) + rest)


def test_target_that_breaks_its_promise_is_noticed() -> None:
    """The control: a target that raises anything else is no value and no refusal."""
    broken = targets.Target(lambda data: [][len(data)])
    with pytest.raises(IndexError):
        broken(b"")
    targets.Target(lambda data: (_ for _ in ()).throw(ProtocolError("refused")).__next__())(b"")


def test_make_fuzz_takes_all_targets_or_those_that_are_named() -> None:
    asked = options([])
    assert (asked.targets, asked.inputs) == ([*TARGETS], 2_000_000)
    assert options(["value", "frame", "--inputs", "7"]).targets == ["value", "frame"]
    with pytest.raises(SystemExit):
        options(["nonsense"])


def test_shares_of_a_campaign_add_up_to_what_was_asked_for() -> None:
    assert sum(shares(2_000_000).values()) >= 2_000_000
    assert shares(10, ["frame"]) == {"frame": 10}


@pytest.mark.simulation
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this Python")
def test_seconds_of_coverage_guided_inputs_break_no_promise(tmp_path: Path) -> None:
    """All targets in one process; `make fuzz` gives each its own, and two million inputs."""
    result = fuzz(ALL, ATHERIS_COUNT, tmp_path, seed=5)
    assert result.finding is None, result.finding
    assert result.inputs >= ATHERIS_COUNT
    assert result.covered > 300


@pytest.mark.variant(of="test_seconds_of_coverage_guided_inputs_break_no_promise")
@pytest.mark.simulation
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this Python")
def test_memory_of_the_process_that_starts_a_target_is_not_counted_as_the_target_s(tmp_path: Path) -> None:
    ballast = b"x" * (300 << 20)
    result = fuzz("frame", 1, tmp_path, seed=5)
    assert 0 < result.peak_mb < len(ballast) >> 20, result
