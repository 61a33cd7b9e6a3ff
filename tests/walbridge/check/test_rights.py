"""Rights in Kafka where a broker does not say: ``tests/end_to_end/`` has those that it refuses."""

from __future__ import annotations

import socket

import pytest

from walbridge.check import rights
from walbridge.check.finding import Finding, ok, warning
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.settings import Settings


def findings(servers: str) -> list[Finding]:
    settings = Settings.model_validate({"name": "shop", "kafka": {"bootstrap_servers": servers}})
    return list(rights.producer_findings(settings, ()))


def test_broker_that_does_not_answer_in_time_has_neither_given_nor_refused_a_right(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer, once it gives one, is told."""
    monkeypatch.setattr(rights, "OPEN_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = findings(f"127.0.0.1:{silent.getsockname()[1]}")

    assert asked == [
        warning(
            "rights",
            "whether walbridge produce may open transactions is not known: Kafka gave no answer within 0.5 s",
            "run walbridge check again; if it comes again, see the broker's log: produce would wait, too",
        )
    ]
    monkeypatch.undo()
    assert findings(kafka.bootstrap_servers) == [
        ok("rights", "walbridge produce may open transactions; Write on its topics is asked for once they are there")
    ]
