"""Reads exact ranges of Kafka's logs, by clients in the JVM.

In: topic partitions and offset ranges whose records are there and decided (``decided_log.py``). Out: exactly those
records, or None where another way of reading them fits better.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import TableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.errors import classifying_errors
from walbridge.spark_consumer.jvm.executors import executor_cores, is_cluster
from walbridge.spark_consumer.kafka.decided_log import DecidedLog
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap, driver_heap
from walbridge.spark_consumer.kafka.few_records import FewRecords, LeftToSpark, PolledRecords
from walbridge.spark_consumer.kafka.kafka_client import API_TIMEOUT_MS, OWN
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
TASK_ROWS = 20_000
"""A read of more rows is split over all cores, also where the topic has one partition."""


class KafkaLog(DecidedLog):
    """One job's access to Kafka; its own consumer also reads small plans."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings)
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


def _offsets_json(values: Mapping[PartitionId, int], list_of: bool = False) -> str:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, {})[str(partition)] = value
    return json.dumps({topic: list(found.values()) if list_of else found for topic, found in topics.items()})
