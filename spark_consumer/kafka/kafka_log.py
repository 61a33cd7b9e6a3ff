"""Reads exact ranges of Kafka's logs, by clients in the JVM.

In: topic partitions and offset ranges. Out: exactly those records, or why they cannot be read. "Not yet visible" and
"gone" are told apart before Spark reads: Spark answers both with the same exception after a
time-out, and with ``failOnDataLoss=false`` with no rows and no error, so that option
is never set (I7).
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import TableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic
from walbridge.spark_consumer.errors import CutsLost, classifying_errors, records_gone
from walbridge.spark_consumer.jvm.executors import executor_cores, is_cluster
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap, driver_heap
from walbridge.spark_consumer.kafka.few_records import FewRecords, LeftToSpark, PolledRecords
from walbridge.spark_consumer.kafka.kafka_client import API_TIMEOUT_MS, OWN, KafkaClient, MissingTopics
from walbridge.spark_consumer.kafka.large_records import (
    ONE_BY_ONE,
    PROPERTIES,
    LargeRecord,
    RecordReader,
    close_consumer,
    reading,
)
from walbridge.spark_consumer.kafka.many.many_records import CONSUMER, ManyRecords
from walbridge.spark_consumer.kafka.many.plans_on_driver import PlansOnDriver
from walbridge.spark_consumer.kafka.many.spooled_records import SpooledRecords, ignored
from walbridge.spark_consumer.kafka.ranges import NO_GAPS, RECORD, Gaps, Range

_PATIENCE = {"default.api.timeout.ms": "10000", "request.timeout.ms": "10000"}
VISIBLE_POLL_S = 0.02
SHORTER_AFTER_S = 5.0
"""How long a log may be shorter than what was acknowledged: a broker that takes over a partition may need some time."""
TASK_ROWS = 20_000
"""A read of more rows is split over all cores, also where the topic has one partition."""


class RecordsLost(TableError):
    """Records that cuts promise cannot be read from a table's topic."""


class TopicGone(RecordsLost):
    """The topic does not exist any more, so no reader can have its records from now on."""


class KafkaLog(KafkaClient):
    """One job's access to Kafka; its own consumer also reads small plans."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings)
        self._name = settings.name
        self._visible_timeout_s = settings.lake.visible_timeout_s
        self._settings = settings
        self._polled: PolledRecords | None = None
        self._plans = PlansOnDriver(settings)

    @cached_property
    def heap(self) -> DriverHeap:
        """The heap that reads Kafka."""
        return driver_heap(self._spark, self._settings)

    @property
    def cores(self) -> int:
        """The cores of all executors that are there now; without executors, of the driver."""
        return sum(executor_cores(self._spark)) or self.heap.cores

    @property
    def readers(self) -> int:
        """How many tasks may read at a time, with the executors that are there now."""
        return self.heap.readers_of(executor_cores(self._spark))

    def read(self, ranges: Mapping[PartitionId, Range], rows: int = 0) -> DataFrame:
        """Exactly these records: topic, partition, offset, key, value. ``rows``: how many, if known."""
        wanted = {partition_id: bounds for partition_id, bounds in ranges.items() if bounds[0] < bounds[1]}
        if not wanted:
            return self._spark.createDataFrame(RECORD.empty_table())
        # Each of them may hold the largest record there is.
        readers = self.readers
        reader = self._spark.read.format("kafka").options(**self.options())
        if rows > TASK_ROWS:
            reader = reader.option("minPartitions", str(readers))
        found = (
            reader.option(
                "assign", _offsets_json({partition_id: partition_id[1] for partition_id in wanted}, list_of=True)
            )
            .option(
                "startingOffsets", _offsets_json({partition_id: bounds[0] for partition_id, bounds in wanted.items()})
            )
            .option(
                "endingOffsets", _offsets_json({partition_id: bounds[1] for partition_id, bounds in wanted.items()})
            )
            .load()
        )
        # A task for each of many small partitions costs more than reading them one after another. Columns are
        # selected after the coalesce: before it, each row would be copied once more.
        return found.coalesce(readers).select(*RECORD.names)

    def fetch_few(self, ranges: Mapping[PartitionId, Range], value_bytes_max: int) -> pa.Table | None:
        """Exactly these records as ``SIZED_RECORD``, by one consumer; None where a value is larger.

        Raises:
            RetryableError: the broker is away, or sends none.
        """
        partitions = {partition_id: self._partition(partition_id) for partition_id in ranges}

        def fetch(own: Any) -> pa.Table | None:
            self._polled = self._polled or PolledRecords(self._jvm, own)
            few = FewRecords(self._jvm, own, partitions, self._list(ranges), self._polled)
            return few.fetch(ranges, value_bytes_max)

        found: pa.Table | None = self._call(fetch)
        return found

    def fetch_many(
        self,
        ranges: Mapping[PartitionId, Range],
        rows: Mapping[str, int],
        value_bytes_max: int,
        on_step: Callable[[], None] = ignored,
        gaps: Gaps = NO_GAPS,
    ) -> SpooledRecords | None:
        """Exactly these records on the driver's disk, by one consumer; None where Spark is to read them.

        Args:
            rows: how many records each topic has.
            on_step: as in ``SpooledRecords``; also called whenever some records have come.
            gaps: what is left out of the ranges.

        Raises:
            RetryableError: the broker is away, or sends none.
        """
        if is_cluster(self._spark) or not self._plans.suits(rows):
            return None

        def fetch(_kept: Any) -> SpooledRecords | None:
            # Its polls are larger than those of the consumer that is kept.
            own = self._connect(self.fetch_sizes | OWN | CONSUMER)
            try:
                return ManyRecords(self._jvm, own).fetch(ranges, value_bytes_max, self._plans, on_step, gaps)
            except LeftToSpark as left:
                self._plans.add_refused(left.topic)
                return None
            finally:
                close_consumer(self._spark, own)

        found: SpooledRecords | None = self._call(fetch)
        return found

    def options(self) -> dict[str, str]:
        """Source options, the same for every read: cached consumers are reused only then."""
        fixed = {
            "bootstrap.servers": self._bootstrap_servers,
            "isolation.level": "read_committed",
            # By default each partition that is read to its end waits 500 ms for a record that never comes.
            "fetch.max.wait.ms": "10",
            "group.id": f"walbridge-{self._name}",
        }
        client = {"max.partition.fetch.bytes": self._fetch_bytes} | self._client
        client = {f"kafka.{name}": value for name, value in (_PATIENCE | client | fixed).items()}
        # Failing soon is cheap: the job begins another attempt and logs that it does.
        return client | {"fetchOffset.numRetries": "1", "kafkaConsumer.pollTimeoutMs": str(API_TIMEOUT_MS)}

    def stream_options(self) -> dict[str, str]:
        """Source options of a stream, which makes its own group."""
        return {name: value for name, value in self.options().items() if name != "kafka.group.id"}

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
        while late := _undecided_partitions(self._ask_existing_topics(self.ends, ranges, found), ranges):
            if time.monotonic() > deadline:
                found |= {
                    topic: _undecided_error(topic, partition, self._visible_timeout_s) for topic, partition in late
                }
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

    def _truncated_logs(self, ranges: Mapping[PartitionId, Range]) -> dict[str, RecordsLost]:
        """By topic: the error of a log that ends below what was acknowledged, since the topic was made anew.

        A log that is only not decided yet has all records.
        """
        found = {}
        consumer = self._connect({"isolation.level": "read_uncommitted"})
        try:
            ends = self._ask_existing_topics(
                lambda partition_ids: self._ask("endOffsets", partition_ids, consumer), ranges, {}
            )
        finally:
            close_consumer(self._spark, consumer)
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

    def too_large(self, ranges: Mapping[PartitionId, Range]) -> dict[str, TableError]:
        """By topic: the error of a record that the heap does not take (I9). It is searched for, before Spark reads,
        only if the settings allow such records.

        Raises:
            RetryableError: the broker is away.
        """
        found: dict[str, TableError] = {}
        if self.heap.record_bytes_max > self.heap.largest_record:
            with self._reading(PROPERTIES) as reader:
                for partition_id, bounds in ranges.items():
                    try:
                        reader.refuse_larger(partition_id, bounds, self.heap)
                    except TableError as error:
                        found[partition_id[0]] = error
        return found

    def values(self, records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
        """The values of single records, one at a time.

        Raises:
            RetryableError: the broker is away.
        """
        with self._reading(PROPERTIES | ONE_BY_ONE) as reader:
            yield from reader.values(records)

    @contextmanager
    def _reading(self, properties: Mapping[str, str]) -> Iterator[RecordReader]:
        # Some calls of the client raise when no broker answers, where a poll only returns nothing.
        with classifying_errors(), reading(self._spark, self._connect(properties)) as reader:
            yield reader


def _undecided_partitions(ends: Mapping[PartitionId, int], ranges: Mapping[PartitionId, Range]) -> list[PartitionId]:
    """The partitions whose ranges are not decided yet."""
    return [partition_id for partition_id, end in ends.items() if end < ranges[partition_id][1]]


def _undecided_error(topic: str, partition: int, timeout_s: float) -> RecordsLost:
    return RecordsLost(
        f"records of {topic}[{partition}] are not visible after {timeout_s} s, "
        "though their cut is: a transaction hangs on this partition, or the topic was made anew",
        first="abort what kafka-transactions.sh find-hanging shows; or raise [lake] visible_timeout_s",
    )


def _offsets_json(values: Mapping[PartitionId, int], list_of: bool = False) -> str:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, {})[str(partition)] = value
    return json.dumps({topic: list(found.values()) if list_of else found for topic, found in topics.items()})
