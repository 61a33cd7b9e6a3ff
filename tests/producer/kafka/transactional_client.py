"""The client library's transactional producer, as far as a publisher meets it: offsets, callbacks, partitions.

Callbacks are served by ``flush`` and ``poll`` alone. What goes wrong is set before it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from walbridge.producer.kafka import instance


class Broker:
    """What the clients of one test have in common: they come one after another."""

    def __init__(self, **partition_counts: int) -> None:
        self.partition_counts = partition_counts
        self.clients: list[Client] = []
        self.ends: dict[tuple[str, int], int] = {}
        self.records: list[tuple[str, int, bytes | None, bytes, Any]] = []
        """Topic, partition, key, value and headers, in the order in which they were queued."""
        self.foreign_after: bytes | None = None
        """Behind this row lies one of another writer."""
        self.fails: bytes | None = None
        """This row is not acknowledged."""
        self.lost: bytes | None = None
        """This record does not come, and is acknowledged without an offset."""
        self.commit_errors: list[int] = []
        """Of the next commits; those that time out are taken up again."""
        self.on_commit: Callable[[], None] = lambda: None

    def offset_of(self, topic: str, partition: int, value: bytes) -> int | None:
        """The next one."""
        if value == self.lost:
            return None
        offset = self.ends.get((topic, partition), 100)
        self.ends[topic, partition] = offset + 1 + (value == self.foreign_after)
        return offset


class Client:
    """One instance."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._unserved: list[Callable[[], None]] = []
        broker.clients.append(self)
        self.calls: list[str] = []

    def init_transactions(self, timeout_s: float) -> None:
        self.calls.append("init")

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: Callable[..., None] | None = None,
        headers: Any = None,
    ) -> None:
        broker = self._broker
        count = broker.partition_counts.get(topic, 1)
        at = partition if partition >= 0 else (key or b"\0")[0] % count
        broker.records.append((topic, at, key, value, headers))
        offset = broker.offset_of(topic, at, value)
        message = SimpleNamespace(topic=lambda: topic, partition=lambda: at, offset=lambda: offset)
        error = KafkaError(KafkaError._MSG_TIMED_OUT) if value == broker.fails else None
        if on_delivery is not None:
            self._unserved.append(lambda: on_delivery(error, message))

    def poll(self, timeout_s: float) -> int:
        served, self._unserved = self._unserved, []
        for callback in served:
            callback()
        return len(served)

    def flush(self, timeout_s: float) -> int:
        self.poll(timeout_s)
        return 0

    def list_topics(self, topic: str, timeout_s: float) -> SimpleNamespace:
        partitions = dict.fromkeys(range(self._broker.partition_counts.get(topic, 1)))
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def commit_transaction(self, timeout_s: float) -> None:
        self.poll(timeout_s)
        self._broker.on_commit()
        if self._broker.commit_errors:
            raise KafkaException(KafkaError(self._broker.commit_errors.pop(0)))
        self.calls.append("commit")

    def abort_transaction(self, timeout_s: float) -> None:
        self.calls.append("abort")

    def purge(self, **_: object) -> None:
        """Nothing is queued."""


@contextmanager
def broker_of(**partition_counts: int) -> Iterator[Broker]:
    """Topics with so many partitions each; every new producer is one of its clients."""
    broker = Broker(**partition_counts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instance, "Producer", lambda *_, **__: Client(broker))
        yield broker
