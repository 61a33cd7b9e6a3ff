"""The choice between containers and embedded servers."""

from __future__ import annotations

import pytest

from tests import which_servers
from tests.which_servers import VARIABLE, chosen_servers


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What speaks against a daemon: empty when one answers."""
    refusals: list[str] = []
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(which_servers, "daemon_refusal", lambda: "".join(refusals))
    return refusals


def test_daemon_that_answers_gives_the_servers(daemon: list[str]) -> None:
    assert chosen_servers.__wrapped__()[0] == "docker"


def test_without_a_daemon_they_are_embedded_and_the_reason_is_told(daemon: list[str]) -> None:
    daemon.append("there is no Docker daemon")

    assert chosen_servers.__wrapped__() == ("embedded", "there is no Docker daemon")


def test_variable_wins_over_a_daemon_that_answers(daemon: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "embedded")

    assert chosen_servers.__wrapped__()[0] == "embedded"


@pytest.mark.parametrize(("choice", "words"), [("docker", "no daemon today"), ("podman", "docker or embedded")])
def test_choice_that_cannot_be_is_refused(
    daemon: list[str], monkeypatch: pytest.MonkeyPatch, choice: str, words: str
) -> None:
    daemon.append("no daemon today")
    monkeypatch.setenv(VARIABLE, choice)

    with pytest.raises(pytest.UsageError, match=words):
        chosen_servers.__wrapped__()
