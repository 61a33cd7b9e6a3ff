"""What verbs that only read ask Kafka for: their pipeline's topics, never all that a cluster has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from walbridge.control_records import topics_there
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.status.pipeline_status import Published
from walbridge.status.read_status import published_of
from walbridge.tables.read_tables import read_tables
from walbridge.tail import Beginning, tail
from walbridge.verify.followed import others_followed

SETTINGS = Settings(name="p")


@pytest.fixture(autouse=True)
def _many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other pipelines."""

    def all_topics(self: TopicAdmin) -> dict[str, int]:
        raise AssertionError("megabytes of topics for each look")

    monkeypatch.setattr(TopicAdmin, "partition_counts", all_topics)
    monkeypatch.setattr(TopicAdmin, "partition_counts_of", lambda self, names: {})


def test_state_of_a_pipeline_is_read_without_a_list_of_all_topics() -> None:
    assert list(topics_there(SETTINGS)) == []
    assert published_of(SETTINGS) == Published(None, None)
    assert others_followed(SETTINGS) == ()


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (lambda: read_tables(SETTINGS, needs_postgres=False), "has no progress in Kafka"),
        (lambda: tail(SETTINGS, "t", Beginning(), follow=False, say=print), "has no table t"),
    ],
)
def test_tables_are_looked_for_without_a_list_of_all_topics(look: Callable[[], object], said: str) -> None:
    with pytest.raises(OperatorError, match=said):
        look()
