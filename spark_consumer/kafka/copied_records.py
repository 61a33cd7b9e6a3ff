"""Reads the records of one copy piece by piece: plans may read between two pieces, and wait for one at most.

In: the plan of a copy that is written beside the plans. Out: its table's records, as ``change_reader`` gives those of a
plan: counted before anything is written (I7), and persisted in Spark's blocks. The heap has room for the readers of one
read only (I9), so each piece takes a turn (``READING``). A piece becomes one or two tasks, which hold cores that plans
wait for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from walbridge.schemas.control.cut import PartitionId
from walbridge.spark_consumer.errors import classifying_errors
from walbridge.spark_consumer.kafka.change_reader import LARGE_BYTES, TableRecords, Values, found_large
from walbridge.spark_consumer.kafka.driver_heap import READING
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.measures import (
    Measure,
    counted_by_partition,
    measured,
    sized,
    to_arrow,
    volumes_by_topic,
    without_large,
)
from walbridge.spark_consumer.kafka.plan_reader import other_counts, tasks_of
from walbridge.spark_consumer.kafka.ranges import RECORD, Range
from walbridge.spark_consumer.plan.plan import Plan

PIECE_ROWS, PIECES_MAX = 20_000, 100
"""Records of a piece, which is read in about a second; more if there would be too many pieces."""
VALUES_AT_A_TIME = 16
"""Large values that are fetched before a plan may read."""

Ranges = Mapping[PartitionId, Range]


@contextmanager
def copied_records(
    log: KafkaLog, plan: Plan, on_step: Callable[[], None], piece_rows: int = PIECE_ROWS
) -> Iterator[TableRecords]:
    """All records of a plan of one table, until the block ends.

    Args:
        log: used by no other thread.
        on_step: called after each piece and slice; an exception of it ends the work.

    Raises:
        TableError: they are not what the cuts promise, or cannot be read.
        RetryableError: the broker is away.
    """
    ranges = {
        partition_id: (part.start_offset, part.end_offset) for partition_id, part in plan.ranges.items() if part.records
    }
    _refuse_unreadable(log, ranges)
    read = _Read(log)
    try:
        count = min(PIECES_MAX, max(1, -(-plan.rows // piece_rows)))
        for piece in pieces(ranges, count):
            read.add(piece, plan.rows // count)
            on_step()
        for error in other_counts(plan.ranges, counted_by_partition(read.measures)).values():
            raise error
        yield read.records(plan.tables[0].topic, on_step)
    finally:
        read.close()


def pieces(ranges: Ranges, count: int) -> Iterator[Ranges]:
    """The ranges divided into ``count`` pieces. Offsets are divided evenly; records lie evenly enough among them."""
    for number in range(count):
        bounds = {
            partition_id: (start + (end - start) * number // count, start + (end - start) * (number + 1) // count)
            for partition_id, (start, end) in ranges.items()
        }
        yield {partition_id: (start, end) for partition_id, (start, end) in bounds.items() if start < end}


def _refuse_unreadable(log: KafkaLog, ranges: Ranges) -> None:
    for lost in log.lost(ranges).values():
        raise lost
    with READING.beside_plans():
        for error in log.too_large(ranges).values():
            raise error


class _Read:
    """The pieces that have been read so far."""

    def __init__(self, log: KafkaLog) -> None:
        self._log = log
        self._frames: list[DataFrame] = []
        self.measures: list[Measure] = []
        self._large: list[LargeRecord] = []

    def add(self, ranges: Ranges, rows: int) -> None:
        """Read another piece, of about ``rows`` records."""
        tasks = tasks_of(self._log, rows)
        with READING.beside_plans(), classifying_errors():
            frame = without_large(sized(self._log.read(ranges, rows)), LARGE_BYTES)
            frame = frame if tasks is None else frame.repartition(tasks, "offset")
            self._frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
            found = measured(self._frames[-1])
        self.measures += found
        if any(measure.large for measure in found):
            self._large += found_large(to_arrow(self._frames[-1].where("large is not null")))

    def records(self, topic: str, on_step: Callable[[], None]) -> TableRecords:
        """The records of all pieces.

        Raises:
            TableError: one is larger than the heap takes.
        """
        heap = self._log.heap
        for each in self._large:
            if each.size > heap.largest_record:
                raise heap.too_large(each.topic, each.partition, each.offset, each.size)
        volumes, values = volumes_by_topic(self.measures).get(topic, {}), partial(_in_turns, self._log.values)
        return TableRecords(self._frame, volumes, None, self._large, values, on_step)

    def _frame(self) -> DataFrame:
        frames = self._frames or [without_large(sized(self._log.read({})), LARGE_BYTES)]
        return reduce(DataFrame.unionByName, frames).select(*RECORD.names)

    def close(self) -> None:
        """Unpersist all pieces."""
        for frame in self._frames:
            frame.unpersist()


def _in_turns(values: Values, records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
    for at in range(0, len(records), VALUES_AT_A_TIME):
        with READING.beside_plans():
            yield from values(records[at : at + VALUES_AT_A_TIME])
