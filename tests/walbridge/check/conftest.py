"""A look takes as long as the machine that runs the tests needs; a test of what is away says so."""

import pytest

from walbridge.check import reached


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reached, "ANSWER_S", 60.0)
