"""The records of a plan are those that its cuts promise, in Spark's frames and on the driver."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.contract_writer import Event
from tests.spark_consumer import events
from walbridge.schemas.control.cut import PartitionId, PartitionRange
from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.kafka import change_reader
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.plan_reader import other_counts, planned_records
from walbridge.spark_consumer.kafka.ranges import Range
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import Plan


@pytest.mark.parametrize(
    "counted",
    [
        {},
        {("t", 0): (4, 10, 13)},
        {("t", 0): (4, 10, 16)},
        {("t", 0): (6, 10, 15)},
        {("t", 0): (6, 10, 16)},
        {("t", 0): (5, 9, 13)},
        {("t", 0): (5, 11, 17)},
        {("t", 1): (5, 10, 16)},
    ],
    ids=[
        "none",
        "one less",
        "one less in the middle",
        "one more",
        "one more between two cuts",
        "one before",
        "one after",
        "another partition's",
    ],
)
def test_other_records_than_the_cuts_promise_are_refused(counted: dict[tuple[str, int], tuple[int, int, int]]) -> None:
    """I7: of two cuts, with two offsets between them that hold a marker, or records of an aborted transaction."""
    assert [*other_counts({("t", 0): PartitionRange("t", 0, 10, 17, 5)}, counted)] == ["t"]


def test_exactly_the_promised_records_are_accepted() -> None:
    assert other_counts({("t", 0): PartitionRange("t", 0, 10, 17, 5)}, {("t", 0): (5, 10, 16)}) == {}


ITEMS = events.relation([events.column("id", "int4", is_key=True), events.column("v")])
WIDER = events.relation([events.column("id", "int8", is_key=True), events.column("v")], revision=1)
HEAP = DriverHeap(heap_bytes=2**30, cores=2, record_bytes_max=2**20)


@dataclass
class FrameLog:
    """Stands for Kafka: records from memory, as a read_committed reader gets them."""

    spark: SparkSession
    rows: Sequence[Mapping[str, object]]
    waited_for: list[Mapping[PartitionId, Range]] = field(default_factory=list)
    heap: DriverHeap = HEAP

    def too_large(self, _ranges: Mapping[PartitionId, Range]) -> dict[str, TableError]:
        """None of them is large."""
        return {}

    def values(self, _records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
        raise AssertionError("none of them is large")

    def lost(self, ranges: Mapping[PartitionId, Range]) -> dict[str, TableError]:
        self.waited_for.append(ranges)
        return {}

    def fetch_few(self, _ranges: Mapping[PartitionId, Range], _value_bytes_max: int) -> None:
        """Spark reads them."""

    def fetch_many(self, *_: object, **__: object) -> None:
        """Spark reads them."""

    def read(self, _ranges: Mapping[PartitionId, Range], _rows: int = 0) -> DataFrame:
        return events.records_frame(self.spark, self.rows)


def logged(*written: Event | None) -> list[dict[str, object]]:
    """Records of partition 0; None is a marker."""
    log = events.Log()
    for event in written:
        log.add_bytes("", None) if event is None else log.add(event)
    return [row for row in log.rows if row["topic"]]


def promised(rows: Sequence[Mapping[str, object]], **differing: Any) -> Plan:
    """A plan whose cuts promise these records."""
    of = events.plan_of(1, [])
    offsets = [cast(int, row["offset"]) for row in rows]
    part = PartitionRange(ITEMS.topic, 0, offsets[0], offsets[-1] + 1, len(rows))
    return replace(of, ranges={(ITEMS.topic, 0): replace(part, **differing)})


def item(key: int, v: str = "x", of: Any = ITEMS) -> Event:
    return Event(of, "u", 0x1100, key, after={"id": key, "v": v})


def test_value_that_is_left_out_on_the_driver_is_in_the_frame(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7: a large value in a small table is dropped by nobody."""
    monkeypatch.setattr(change_reader, "FETCHED_MAX", Volume(rows=10, bytes=1_000))
    rows = logged(item(1), item(2, "y" * 600))

    with planned_records(cast(KafkaLog, FrameLog(spark, rows)), promised(rows)) as records:
        found = records.of(ITEMS.topic)
        assert found.fetched is None
        assert sorted(row.value for row in found.frame().collect()) == sorted(cast(Any, row["value"]) for row in rows)
        assert sum(volume.rows for volume in found.volumes.values()) == 2


def test_what_is_applied_of_a_table_is_progress_of_its_plan(spark: SparkSession) -> None:
    """A supervisor that starts a job again because of one large table would never see that table done."""
    rows, beats = logged(item(1)), list[int]()

    with planned_records(cast(KafkaLog, FrameLog(spark, rows)), promised(rows), lambda: beats.append(1)) as records:
        fetched = len(beats)
        records.of(ITEMS.topic).on_step()
    assert len(beats) == fetched + 1


@pytest.mark.usefixtures("engine")
def test_records_of_several_schemas_in_one_partition_are_counted_together(spark: SparkSession) -> None:
    rows = logged(item(1), item(2, of=WIDER), None, item(3), item(4, of=WIDER))
    log = FrameLog(spark, rows)

    with planned_records(cast(KafkaLog, log), promised(rows)) as records:
        volumes = records.of(ITEMS.topic).volumes
    assert {schema: volume.rows for schema, volume in volumes.items()} == {ITEMS.schema_id: 2, WIDER.schema_id: 2}
    assert log.waited_for == [{(ITEMS.topic, 0): (0, 5)}]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("value", [b"not ours", None], ids=["a value", "no value"])
def test_record_of_another_program_between_two_cuts_is_the_trouble_of_its_table(
    spark: SparkSession, value: bytes | None
) -> None:
    """I7: whatever it holds, it is one more than the cuts promise."""
    rows = logged(item(1), item(2), None, item(3))
    strange = {"topic": ITEMS.topic, "partition": 0, "offset": 2, "key": None, "value": value}

    with (
        planned_records(cast(KafkaLog, FrameLog(spark, [*rows, strange])), promised(rows)) as records,
        pytest.raises(TableError, match=r"holds 4 records in \[0, 4\), its cuts say 3"),
    ):
        records.of(ITEMS.topic)


@pytest.mark.usefixtures("engine")
def test_partition_that_holds_other_records_than_its_own_range_is_the_trouble_of_its_table(spark: SparkSession) -> None:
    """I7: as many as promised, but others."""
    rows = logged(item(1), item(2, of=WIDER), item(3), item(4, of=WIDER))

    for part in ({"start_offset": 1}, {"end_offset": 3}):
        with (
            planned_records(cast(KafkaLog, FrameLog(spark, rows)), promised(rows, **part)) as records,
            pytest.raises(TableError, match="was changed from outside"),
        ):
            records.of(ITEMS.topic)
