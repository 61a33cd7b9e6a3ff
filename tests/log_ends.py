"""How far a topic's log reaches, and how far of it readers see.

In: a broker and a topic of one partition. Out: offsets. Between the two lies what is not committed,
and for a moment also what is: the broker answers a commit before it has written its markers.
"""

from __future__ import annotations

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.wait import wait_until

ANSWER_S = 30.0


class LogEnds:
    """Asks one broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})

    def end(self, topic: str) -> int:
        """The offset of the next record."""
        return self._latest(topic, IsolationLevel.READ_UNCOMMITTED)

    def wait_visible(self, topic: str) -> None:
        """Return when all that is in the log now is decided, and readers see what was committed of it."""
        end = self.end(topic)
        wait_until(
            lambda: self._latest(topic, IsolationLevel.READ_COMMITTED) >= end, f"{topic} to be visible", ANSWER_S
        )

    def _latest(self, topic: str, isolation_level: IsolationLevel) -> int:
        place = TopicPartition(topic, 0)
        asked = self._admin.list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=isolation_level, request_timeout=ANSWER_S
        )
        return int(asked[place].result(ANSWER_S).offset)
