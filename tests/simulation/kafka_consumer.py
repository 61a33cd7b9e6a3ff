"""``confluent_kafka.Consumer`` as the producer sees it, of the simulated broker."""

from collections import deque
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from tests.simulation.broker import COMMITTED, Broker
from tests.simulation.kafka_message import Delivered
from tests.simulation.world import Violation, World


class Consumer:
    """Reads one partition from an offset to its end, as read_committed does."""

    def __init__(self, world: World, broker: Broker, config: dict[str, Any]) -> None:
        if config["isolation.level"] != "read_committed":
            raise Violation("progress is read uncommitted")
        self._world, self._broker = world, broker
        self._messages: deque[Delivered] = deque()

    def assign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            place = each.topic, each.partition
            self._world.step(f"read {each.topic}")
            log = self._broker.log(*place)
            entries = [entry for entry in log.committed() if entry.offset >= each.offset]
            assert all(entry.state == COMMITTED for entry in entries)
            end = KafkaError(KafkaError._PARTITION_EOF, "simulated")
            self._messages = deque(Delivered(place, entry) for entry in entries)
            self._messages.append(Delivered(place, None, end, log.stable_end))

    def list_topics(self, topic: str, timeout: float = -1) -> None:
        """Nobody moves."""

    def unassign(self) -> None:
        """Nothing was fetched ahead."""

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float = -1) -> tuple[int, int]:
        """Nothing is ever removed; what is open hides what comes after it."""
        return 0, self._broker.log(partition.topic, partition.partition).stable_end

    def poll(self, timeout: float = -1) -> Delivered | None:
        return self._messages.popleft() if self._messages else None

    def close(self) -> None:
        """Nothing is held."""
