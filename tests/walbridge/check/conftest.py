"""A look takes as long as the machine that runs the tests needs; a test of what is away says so."""

import pytest

from walbridge.check import verb


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "ANSWER_S", 60.0)
