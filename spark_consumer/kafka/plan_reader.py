"""Reads a plan: exactly its ranges without their gaps, in the way that suits their number, and counts what came.

In: a plan and Kafka. Out: ``PlannedRecords``. If a count differs from that of the cuts, the table is in trouble (I7):
records were lost, repeated or written by another program.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame

from walbridge.schemas.control.cut import PartitionId, PartitionRange
from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.kafka.change_reader import PlannedRecords, Values, spark_fetches
from walbridge.spark_consumer.kafka.driver_heap import READING
from walbridge.spark_consumer.kafka.kafka_log import TASK_ROWS, KafkaLog
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.many.spooled_records import ignored
from walbridge.spark_consumer.kafka.measures import counted_by_partition
from walbridge.spark_consumer.kafka.ranges import Rounds, rounds
from walbridge.spark_consumer.plan.plan import Plan


def one_consumer_rows(partitions: int) -> int:
    """Up to how many records of so many partitions one consumer is quicker than Spark.

    A thousand take it some ten milliseconds. Spark takes a quarter of a second, and 20 ms for each partition for which
    it has no consumer in its cache (``make bench``: job over many tables).
    """
    return 10_000 + 20 * partitions


@contextmanager
def planned_records(log: KafkaLog, plan: Plan, on_step: Callable[[], None] = ignored) -> Iterator[PlannedRecords]:
    """The records of a plan, until the block ends. A fault of one topic is raised when its records are asked for.

    Args:
        on_step: as in ``PlannedRecords``.

    Raises:
        RetryableError: the broker is away.
    """
    ranges = {
        partition_id: (part.start_offset, part.end_offset) for partition_id, part in plan.ranges.items() if part.records
    }
    troubles: dict[str, TableError] = dict(log.lost(ranges))
    ranges = {partition_id: of for partition_id, of in ranges.items() if partition_id[0] not in troubles}
    with READING.of_plan():
        for some in rounds(ranges, plan.gaps):
            troubles |= log.too_large(some)
    ranges = {partition_id: of for partition_id, of in ranges.items() if partition_id[0] not in troubles}
    planned = {partition_id: part for partition_id, part in plan.ranges.items() if partition_id[0] not in troubles}
    rows: Counter[str] = Counter()
    for part in planned.values():
        rows[part.topic] += part.records
    parts = rounds(ranges, plan.gaps)
    fetch_few = partial(_fetched_few, log, parts) if rows.total() <= one_consumer_rows(len(ranges)) else spark_fetches
    with READING.of_plan():
        records = PlannedRecords(
            partial(_read, log, parts, plan.rows),
            rows,
            partial(_values_in_turn, log.values),
            tasks_of(log, plan.rows),
            fetch_few,
            partial(log.fetch_many, ranges, rows, gaps=plan.gaps),
            on_step,
        )
    try:
        troubles |= other_counts(planned, counted_by_partition(records.measures))
        for each in records.large:
            if each.size > log.heap.largest_record:
                troubles[each.topic] = log.heap.too_large(each.topic, each.partition, each.offset, each.size)
        records.troubles = troubles
        yield records
    finally:
        records.close()


def _read(log: KafkaLog, parts: Rounds, rows: int) -> DataFrame:
    frames = [log.read(some, rows) for some in parts] or [log.read({})]
    return frames[0] if len(frames) == 1 else reduce(DataFrame.unionByName, frames).coalesce(log.readers)


def _fetched_few(log: KafkaLog, parts: Rounds, value_bytes_max: int) -> pa.Table | None:
    found = [log.fetch_few(some, value_bytes_max) for some in parts]
    few = [each for each in found if each is not None]
    return pa.concat_tables(few) if len(few) == len(found) else None


def tasks_of(log: KafkaLog, rows: int) -> int | None:
    """Over how many tasks records are spread before they are folded, if fewer readers than cores may read at a time;
    None: they are not spread."""
    return log.cores if rows > TASK_ROWS and log.readers < log.cores else None


def _values_in_turn(values: Values, records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
    """The same values, fetched while no other read of Kafka is under way."""
    with READING.of_plan():
        yield from values(records)


def other_counts(
    planned: Mapping[PartitionId, PartitionRange], counted: Mapping[PartitionId, tuple[int, int, int]]
) -> dict[str, TableError]:
    """By topic: the error of a partition whose records are not those that its cuts promise.

    Args:
        counted: records, first and last offset by partition.
    """
    found: dict[str, TableError] = {}
    for (topic, partition), part in planned.items():
        count, first, last = counted.get((topic, partition), (0, part.start_offset, part.end_offset - 1))
        if count != part.records or first < part.start_offset or last >= part.end_offset:
            found[topic] = TableError(
                f"{topic}[{partition}] holds {count} records in [{part.start_offset}, {part.end_offset}), "
                f"its cuts say {part.records}: the topic was changed from outside"
            )
    return found
