"""Messages and origins on other versions than the newest: on the oldest that has both; MATRIX=1: on each."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.fix_producer import ProducerUnderTest
from tests.integration.test_logical_messages import TABLE, emit, seen
from tests.integration.test_origin import replicate
from tests.postgres_versions import MAJORS

MESSAGES_SINCE = 14
ORIGIN_LSN = 0xA_0000_1234


def shown(major: int) -> list[str]:
    return ["origin of replicated changes", *(["logical messages"] if major >= MESSAGES_SINCE else [])]


TESTED = MAJORS if os.environ.get("MATRIX") else (MESSAGES_SINCE,)


@pytest.fixture(params=[pytest.param(major, marks=pytest.mark.feature(*shown(major))) for major in TESTED])
def talking(
    producer_on: Callable[[int], ProducerUnderTest], request: pytest.FixtureRequest
) -> tuple[int, ProducerUnderTest]:
    """A producer that publishes messages where its server can send them."""
    made = producer_on(request.param)
    made.settings["postgres"] = {"messages": request.param >= MESSAGES_SINCE}
    made.database.execute(TABLE)
    made.publish("t")
    made.start_streaming()
    return request.param, made


def test_message_and_origin_of_every_version_are_in_the_events(talking: tuple[int, ProducerUnderTest]) -> None:
    major, producer = talking
    producer.database.execute("INSERT INTO t VALUES (1, 'here')")
    emit(producer, "in a transaction", transactional=True)
    emit(producer, "in none", transactional=False)
    replicate(producer.database, producer.name, [2], ORIGIN_LSN)

    with producer.topics() as topics:
        producer.caught_up(topics)
        events = seen(topics)
    sources = {(event.after or {})["id"]: event.source for event, _ in events if event.op == "c"}
    assert [(sources[n]["origin"], sources[n]["origin_lsn"]) for n in (1, 2)] == [
        (None, None),
        (producer.name, ORIGIN_LSN),
    ]
    messages = [envelope["message"]["content"] for event, envelope in events if event.op == "m"]
    assert messages == ([b"in a transaction", b"in none"] if major >= MESSAGES_SINCE else [])
