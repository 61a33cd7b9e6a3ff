"""A plan's records: exactly its ranges, in one read, counted before anything is touched.

In: a plan. Out: a persisted DataFrame (topic, partition, offset, key, value) of all its tables.
One job counts the records of each partition and fills the cache; a count that is not the cuts'
stops the job (I7): something was lost, repeated or written by somebody else.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.cut import PartitionRange
from schemas.errors import OperatorError
from spark_consumer.errors import sorted_error
from spark_consumer.kafka_log import KafkaLog, Place
from spark_consumer.plan import Plan


@contextmanager
def planned_records(log: KafkaLog, plan: Plan) -> Iterator[DataFrame]:
    """The records of a plan, in memory or on local disk until the block ends.

    Raises:
        OperatorError: records are gone, never become visible, or their count is not the cuts'.
        RetryableError: the broker is away.
    """
    ranges = {place: (part.start_offset, part.end_offset) for place, part in plan.ranges.items() if part.records}
    if ranges:
        log.wait_visible(ranges)
    records = log.read(ranges, plan.rows).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        refuse_other_counts(plan.ranges, _counted(records) if ranges else {})
        yield records
    finally:
        records.unpersist()


def refuse_other_counts(planned: Mapping[Place, PartitionRange], counted: Mapping[Place, tuple[int, int, int]]) -> None:
    """``counted``: records, first and last offset by partition.

    Raises:
        OperatorError: a partition whose records are not exactly those that its cuts promise.
    """
    for place, part in planned.items():
        count, first, last = counted.get(place, (0, part.start_offset, part.end_offset - 1))
        if count != part.records or first < part.start_offset or last >= part.end_offset:
            raise OperatorError(
                f"{place[0]}[{place[1]}] holds {count} records in [{part.start_offset}, {part.end_offset}), "
                f"its cuts say {part.records}",
                remedy="the topic was changed from outside: start with an empty lake and a new slot",
            )


def _counted(records: DataFrame) -> dict[Place, tuple[int, int, int]]:
    counts = records.groupBy("topic", "partition").agg(F.count(F.lit(1)), F.min("offset"), F.max("offset"))
    try:
        return {(topic, partition): (n, first, last) for topic, partition, n, first, last in counts.collect()}
    except Exception as error:
        raise sorted_error(error) from error
