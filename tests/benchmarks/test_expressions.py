"""Regular expressions that read values: their time grows with the text, which only a clock can tell."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.fuzz.targets import TARGETS
from tests.fuzz.test_growth import GROWTH, LARGE, SIZE
from walbridge.schemas.errors import ProtocolError

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("case", ["array of one long text", "array of a text without an end", "map", "vector", "text"])
def test_time_of_an_expression_grows_with_its_text(case: str) -> None:
    """A hundredfold time for ten times the bytes would be quadratic; a busy machine is not."""
    name, made = LARGE[case]
    small, large = made(SIZE * GROWTH), made(SIZE * GROWTH * GROWTH)

    assert _time_s(name, large) < 60 * _time_s(name, small) + 0.001


def _time_s(name: str, data: bytes) -> float:
    times_s = []
    for _ in range(5):
        begun_s = time.process_time()
        with contextlib.suppress(ProtocolError):
            TARGETS[name].run(data)
        times_s.append(time.process_time() - begun_s)
    return min(times_s)
