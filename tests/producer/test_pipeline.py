"""A start whose servers do not answer yet."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from walbridge.producer import pipeline
from walbridge.producer.postgres.connection import NoAnswer
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.settings import Settings


def test_start_says_what_it_waits_for_once_for_each_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes a connection and says nothing is waited for, for half a minute."""
    reasons = iter(["connection timeout expired", "connection timeout expired"])

    def start(*parts: object) -> None:
        raise RetryableError(next(reasons, "connection refused"))

    monkeypatch.setattr(pipeline, "start", start)
    monkeypatch.setattr(pipeline, "LATE_S", 0)
    settings = Settings.model_validate({"name": "p", "postgres": {"dsn": "dbname=none", "start_timeout_s": 1}})
    with capture_logs() as said, pytest.raises(NoAnswer, match="no answer within 1 s: connection refused"):
        pipeline.Pipeline(settings, lambda: False).run()

    monkeypatch.setattr(pipeline, "LATE_S", 60)
    with capture_logs() as soon, pytest.raises(NoAnswer):
        pipeline.Pipeline(settings, lambda: False).run()
    assert [each for each in soon if each["event"] == "the start waits for a server"] == []

    waits = [each for each in said if each["event"] == "the start waits for a server"]
    assert [each["reason"] for each in waits] == ["connection timeout expired", "connection refused"]
    assert {each["gives_up_after_s"] for each in waits} == {1}
