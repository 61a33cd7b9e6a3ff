"""How long ``walbridge check`` takes of many tables: it asks no more often of them than of few."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from tests.fix_producer import ProducerUnderTest
from tests.walbridge.check.stack import Stack

REQUESTS = ("describe_configs", "describe_topics", "list_topics", "describe_acls", "create_topics")


@pytest.mark.soak
def test_servers_are_asked_as_often_about_many_tables_as_about_two(
    producer: ProducerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is measured by ``make bench``, which takes 600."""
    asked = Counter[str]()
    for owner, names in ((AdminClient, REQUESTS), (psycopg.Connection, ("execute",))):
        for name in names:
            monkeypatch.setattr(owner, name, _counting(asked, getattr(owner, name), name))
    stack = Stack(producer.database, producer.kafka, producer.name, producer.folder)
    counts = []
    for first, end in ((0, 2), (2, 30)):
        tables = [f"t{number}" for number in range(first, end)]
        producer.database.execute(";".join(f"CREATE TABLE {each} (id int PRIMARY KEY)" for each in tables))
        if not first:
            producer.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
        running = producer.start_streaming()
        with producer.topics() as topics:
            producer.caught_up(topics)
        running.stop()
        asked.clear()
        assert stack.says(f"{end} tables: each can be followed")
        counts.append(dict(asked))

    assert counts[0] == counts[1]
    assert "list_topics" not in counts[0], "of a cluster with many others"
    assert counts[0]["describe_configs"] == 3, "of the broker, of all topics but one, and of the topic that none needs"


def _counting(asked: Counter[str], function: Any, name: str) -> Any:
    def counted(*arguments: Any, **named: Any) -> Any:
        asked[name] += 1
        return function(*arguments, **named)

    return counted
