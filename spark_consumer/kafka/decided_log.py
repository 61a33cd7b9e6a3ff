"""Whether the records of ranges are in Kafka's logs, and visible.

In: topic partitions and offset ranges that cuts promise. Out: nothing once all are there and decided, or why a topic's
cannot be read. "Not yet visible" and "gone" are told apart before Spark reads: Spark answers both with the same
exception after a time-out, and with ``failOnDataLoss=false`` with no rows and no error, so that option is never set
(I7).
"""

import time
from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import SparkSession

from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import TableError, abort_command
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic
from walbridge.spark_consumer.errors import CutsLost, records_gone
from walbridge.spark_consumer.kafka.kafka_client import KafkaClient, MissingTopics
from walbridge.spark_consumer.kafka.large_records import close_consumer
from walbridge.spark_consumer.kafka.ranges import Range

VISIBLE_POLL_S = 0.02
SHORTER_AFTER_S = 5.0
"""How long a log may be shorter than what was acknowledged: a broker that takes over a partition may need some time."""


class RecordsLost(TableError):
    """Records that cuts promise cannot be read from a table's topic."""


class TopicGone(RecordsLost):
    """The topic does not exist any more, so no reader can have its records from now on."""


class DecidedLog(KafkaClient):
    """The logs that one pipeline's cuts name parts of."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings)
        self._name = settings.name
        self._visible_timeout_s = settings.lake.visible_timeout_s

    def wait_visible(self, ranges: Mapping[PartitionId, Range]) -> None:
        """Wait until the transactions in every range are decided: their markers come at different moments.

        Raises:
            OperatorError: records are gone, or not visible after ``lake.visible_timeout_s``.
            RetryableError: the broker is away.
        """
        for lost in self.lost(ranges).values():
            raise CutsLost(lost.what, instead=lost.first or "")

    def lost(self, ranges: Mapping[PartitionId, Range]) -> dict[str, RecordsLost]:
        """By topic: why its records cannot be read. Those of all other topics are there, and decided.

        Raises:
            RetryableError: the broker is away.
        """
        found: dict[str, RecordsLost] = {}
        shorter_due = time.monotonic() + SHORTER_AFTER_S
        deadline = time.monotonic() + self._visible_timeout_s
        while late := _undecided_partitions(ends := self._ask_existing_topics(self.ends, ranges, found), ranges):
            if time.monotonic() > deadline:
                found |= {each[0]: _undecided_error(*each, ends[each], self._visible_timeout_s) for each in late}
                break
            if time.monotonic() > shorter_due:
                found |= self._truncated_logs({partition_id: ranges[partition_id] for partition_id in late})
                shorter_due = time.monotonic() + SHORTER_AFTER_S
            time.sleep(VISIBLE_POLL_S)
        starts = self._ask_existing_topics(self.starts, ranges, found)
        for partition_id, (start, _) in ranges.items():
            if partition_id[0] not in found and starts[partition_id] > start:
                found[partition_id[0]] = RecordsLost(records_gone(*partition_id, start, starts[partition_id]))
        return found

    def undecided_since(self, partition_id: PartitionId) -> int | None:
        """The offset from which on readers see nothing, since a transaction that began there is open; None: they see
        all that is there.

        Raises:
            RetryableError: the broker is away.
        """
        decided = self.ends([partition_id])[partition_id]
        return decided if self._written_ends([partition_id])[partition_id] > decided else None

    def _written_ends(self, partition_ids: Iterable[PartitionId]) -> dict[PartitionId, int]:
        """Where the logs end, decided or not."""
        consumer = self._connect({"isolation.level": "read_uncommitted"})
        try:
            return self._ask("endOffsets", partition_ids, consumer)
        finally:
            close_consumer(self._spark, consumer)

    def _truncated_logs(self, ranges: Mapping[PartitionId, Range]) -> dict[str, RecordsLost]:
        """By topic: the error of a log that ends below what was acknowledged, since the topic was made anew.

        A log that is only not decided yet has all records.
        """
        found = {}
        ends = self._ask_existing_topics(self._written_ends, ranges, {})
        for partition_id in _undecided_partitions(ends, ranges):
            topic, partition = partition_id
            found[topic] = RecordsLost(
                f"{topic}[{partition}] ends at offset {ends[partition_id]}, though records up to "
                f"{ranges[partition_id][1]} were in it: the topic was deleted and made again"
            )
        return found

    def _ask_existing_topics(
        self,
        asked: Callable[[Iterable[PartitionId]], dict[PartitionId, int]],
        ranges: Mapping[PartitionId, Range],
        found: dict[str, RecordsLost],
    ) -> dict[PartitionId, int]:
        """The answer for all topics without an error in ``found``; adds an error for each topic that does not exist."""
        while partition_ids := [partition_id for partition_id in ranges if partition_id[0] not in found]:
            try:
                return asked(partition_ids)
            except MissingTopics as missing:
                # A broker that knows no topic of this pipeline says nothing of a single table.
                if self.partition_count(cuts_topic(self._name)) == 0:
                    raise
                found |= {topic: TopicGone(missing.missing_topic(topic)) for topic in missing.topics}
        return {}


def _undecided_partitions(ends: Mapping[PartitionId, int], ranges: Mapping[PartitionId, Range]) -> list[PartitionId]:
    """The partitions whose ranges are not decided yet."""
    return [partition_id for partition_id, end in ends.items() if end < ranges[partition_id][1]]


def _undecided_error(topic: str, partition: int, end: int, timeout_s: float) -> RecordsLost:
    """``end``: of what is decided, where the oldest open transaction begins. ``find-hanging`` would not show that one
    before a quarter of an hour is over."""
    return RecordsLost(
        f"records of {topic}[{partition}] are not visible after {timeout_s} s, "
        "though their cut is: a transaction hangs on this partition, or the topic was made anew",
        first=f"{abort_command(topic, partition, end)}; or raise [lake] visible_timeout_s",
    )
