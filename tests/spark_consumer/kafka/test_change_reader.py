"""Reading a plan's records: exact ranges, counted, with waiting and refusing told apart."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.spark_consumer import events
from walbridge.embedded.kafka import KafkaBroker
from walbridge.runtime import heap
from walbridge.schemas.cut import Cut, PartitionRange
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.kafka import change_reader
from walbridge.spark_consumer.kafka.change_reader import planned_records, refuse_other_counts
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.ranges import Place, Range
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import Plan, make_plan

COLUMNS = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("v")]


@pytest.fixture
def writer(kafka: KafkaBroker, pipeline_name: str) -> ContractWriter:
    return ContractWriter(kafka.bootstrap_servers, pipeline_name)


@pytest.fixture
def log(spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path) -> KafkaLog:
    return KafkaLog(spark, settings(kafka, pipeline_name, lake))


def settings(kafka: KafkaBroker, pipeline_name: str, lake: Path, **of_lake: Any) -> Settings:
    return Settings(
        name=pipeline_name,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake)} | of_lake,  # type: ignore[arg-type]
    )


def plan_of(*cuts: Cut) -> Plan:
    return make_plan(list(enumerate(cuts)), {})


def inserts(relation: Any, lsn: int, *ids: int) -> list[Event]:
    return [Event(relation, "c", lsn, n, after={"id": i, "v": "x"}) for n, i in enumerate(ids)]


def test_a_plan_reads_its_records_and_none_that_were_aborted(log: KafkaLog, writer: ContractWriter) -> None:
    table = writer.relation("t", COLUMNS, relation_id=1, partitions=2)
    first = writer.copy([(table, [{"id": i} for i in range(5)])])
    writer.abort(inserts(table, 0x2000, *range(10)))
    second = writer.send(inserts(table, 0x3000, *range(7)))
    writer.send(inserts(table, 0x4000, *range(9)))

    with planned_records(log, plan_of(first, second)) as records:
        of_table = records.of(table.topic)
        assert of_table.frame().count() == sum(part.records for cut in (first, second) for part in cut.partitions)
        assert {of.rows for of in of_table.volumes.values()} == {of_table.frame().count()}


def test_tables_of_few_records_come_to_the_driver_and_others_do_not(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9."""
    monkeypatch.setattr(change_reader, "FEW", Volume(rows=3, bytes=1_000))
    few, many, large = (
        writer.relation(name, COLUMNS, relation_id=n) for n, name in enumerate(("few", "many", "large"), 1)
    )
    rows = [{"id": i, "v": "x"} for i in range(4)]
    cut = writer.copy([(few, rows[:1]), (many, rows), (large, [{"id": 1, "v": "x" * 1_000}])])

    with planned_records(log, plan_of(cut)) as records:
        fetched = {of.topic: records.of(of.topic).fetched for of in (few, many, large)}
    assert [topic for topic, found in fetched.items() if found is not None] == [few.topic]


def test_records_that_are_here_make_the_frame_that_kafka_would(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = writer.relation("t", COLUMNS, relation_id=1, partitions=2)
    plan = plan_of(writer.copy([(table, [{"id": i, "v": None if i % 2 else "x"} for i in range(5)])]))

    def found() -> tuple[bool, Any, list[Any]]:
        with planned_records(log, plan) as records:
            of_table = records.of(table.topic)
            frame = of_table.frame()
            return of_table.fetched is not None, frame.schema, sorted(frame.collect(), key=str)

    here = found()
    monkeypatch.setattr(change_reader, "FEW", Volume())
    away = found()
    assert (here[0], away[0]) == (True, False)
    assert here[1:] == away[1:]


def test_the_driver_holds_no_more_than_it_may_of_all_tables(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9."""
    monkeypatch.setattr(change_reader, "FETCHED_MAX", Volume(rows=5, bytes=2**20))
    monkeypatch.setattr(change_reader, "FEW", Volume(rows=3, bytes=2**20))
    tables = [writer.relation(f"t{n}", COLUMNS, relation_id=n) for n in range(1, 5)]
    cut = writer.copy([(table, [{"id": 1}, {"id": 2}]) for table in tables])

    with planned_records(log, plan_of(cut)) as records:
        fetched = [records.of(table.topic).fetched for table in tables]
    assert sum(found.num_rows for found in fetched if found is not None) <= 5
    assert any(found is not None for found in fetched)


@pytest.mark.parametrize("few", [change_reader.FEW, Volume()], ids=["driver", "spark"])
def test_large_values_come_one_at_a_time_and_never_to_spark(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch, few: Volume
) -> None:
    """I9: in any order of partitions and offsets, behind compression, beside small ones of the same batch."""
    monkeypatch.setattr(change_reader, "FEW", few)
    monkeypatch.setattr(change_reader, "LARGE_BYTES", 1_000)
    table = writer.relation("t", COLUMNS, relation_id=1, partitions=2)
    rows = [{"id": i, "v": str(i) * (2_000 * i if i % 3 == 0 else 1)} for i in range(1, 20)]
    cut = writer.copy([(table, rows)])

    with planned_records(log, plan_of(cut)) as records:
        found = records.of(table.topic)
        frame = found.frame().toArrow()
        decoded = [(record.size == len(value), len(value) > 6_000) for record, value in found.values(found.large)]
        assert [value for value in frame["value"].to_pylist() if value and len(value) > 1_000] == []
    assert (found.fetched is None) == (few == Volume())
    assert decoded == [(True, True)] * 6
    assert frame["value"].null_count == 6
    assert sum(volume.bytes for volume in found.volumes.values()) < 10_000


@pytest.mark.parametrize("promised", [1, 2**30], ids=["measured by Spark", "looked for before Spark reads"])
def test_a_record_that_the_heap_does_not_take_is_refused_by_its_place(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch, promised: int
) -> None:
    """I9: before any of it is applied; nobody reads it through Spark where the settings allow such records."""
    log.heap = DriverHeap(heap.BASE_BYTES + heap.READ_COPIES * 400_000, 2, promised)
    table = writer.relation("t", COLUMNS, relation_id=1)
    large = {"id": 7, "v": "secret" * 100_000}
    plan = plan_of(
        writer.copy([(table, [{"id": i} for i in range(5)])]), writer.send([Event(table, "c", 0x2000, 0, after=large)])
    )
    if promised > 1:
        monkeypatch.setattr(log, "read", None)

    with pytest.raises(OperatorError) as refused, planned_records(log, plan):
        pass
    said = re.fullmatch(r"the record at (\S+)\[0\] offset (\d+) takes ([\d,]+) bytes: .*", refused.value.what)
    assert said is not None
    assert (said[1], int(said[2])) == (table.topic, plan.ranges[table.topic, 0].end_offset - 1)
    assert 600_000 < int(said[3].replace(",", "")) < 601_000
    assert "takes records of up to 400,000 bytes" in refused.value.what
    wanted = re.search(r'driver_memory = "(\d+)m" or more', refused.value.remedy)
    assert wanted is not None
    assert heap.largest_record(int(wanted[1]) * 2**20) > 600_000
    assert "secret" not in str(refused.value)


def test_a_plan_of_barriers_alone_reads_nothing(log: KafkaLog, writer: ContractWriter) -> None:
    with planned_records(log, plan_of(writer.send())) as records:
        of_table = records.of("p.public.t")
        assert of_table.frame().columns == ["topic", "partition", "offset", "key", "value"]
        assert (of_table.frame().count(), of_table.volumes) == (0, {})


def test_records_of_an_open_transaction_are_waited_for_and_then_the_job_stops(
    spark: SparkSession, kafka: KafkaBroker, writer: ContractWriter, pipeline_name: str, lake: Path
) -> None:
    """I7: never read as nothing."""
    table = writer.relation("t", COLUMNS, relation_id=1)
    cut = writer.copy([(table, [{"id": 1}])])
    (part,) = cut.partitions
    beyond = {(part.topic, part.partition): (part.end_offset + 1, part.end_offset + 2)}
    impatient = KafkaLog(spark, settings(kafka, pipeline_name, lake, visible_timeout_s=1))

    undecided = pytest.raises(OperatorError, match="not visible after 1 s")
    with writer.open_transaction(inserts(table, 0x2000, 7)), undecided:
        impatient.wait_visible(beyond)
    impatient.wait_visible(beyond)


def test_records_that_retention_removed_stop_the_job(log: KafkaLog, kafka: KafkaBroker, writer: ContractWriter) -> None:
    """I7."""
    table = writer.relation("t", COLUMNS, relation_id=1)
    cut = writer.copy([(table, [{"id": i} for i in range(5)])])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_records([TopicPartition(table.topic, 0, 3)])[TopicPartition(table.topic, 0)].result(30)

    with pytest.raises(OperatorError, match="are gone"), planned_records(log, plan_of(cut)):
        pass


def test_a_deleted_topic_is_told_from_a_broker_that_is_away(log: KafkaLog) -> None:
    with pytest.raises(OperatorError, match="does not exist"):
        log.ends([("no-such-topic", 0)])


def test_a_cut_that_promises_more_than_is_there_stops_before_anything_is_touched(
    log: KafkaLog, writer: ContractWriter
) -> None:
    """I7: a transaction marker takes an offset, so a range over it holds one record less."""
    table = writer.relation("t", COLUMNS, relation_id=1)
    first = writer.copy([(table, [{"id": 1}])])
    writer.send(inserts(table, 0x2000, 1))
    (part,) = first.partitions
    longer = PartitionRange(part.topic, 0, part.start_offset, part.end_offset + 2, part.records + 2)
    plan = plan_of(Cut(**{name: getattr(first, name) for name in first.__slots__} | {"partitions": (longer,)}))

    with pytest.raises(OperatorError, match=r"holds 3 records .* its cuts say 4"), planned_records(log, plan):
        pass


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
    with pytest.raises(OperatorError):
        refuse_other_counts({("t", 0): PartitionRange("t", 0, 10, 17, 5)}, counted)


def test_exactly_the_promised_records_are_accepted() -> None:
    refuse_other_counts({("t", 0): PartitionRange("t", 0, 10, 17, 5)}, {("t", 0): (5, 10, 16)})


ITEMS = events.relation([events.column("id", "int4", is_key=True), events.column("v")])
WIDER = events.relation([events.column("id", "int8", is_key=True), events.column("v")], revision=1)


HEAP = DriverHeap(heap_bytes=2**30, cores=2, record_bytes_max=2**20)


@dataclass
class FrameLog:
    """Stands for Kafka: records from memory, as a read_committed reader gets them."""

    spark: SparkSession
    rows: Sequence[Mapping[str, object]]
    waited_for: list[Mapping[Place, Range]] = field(default_factory=list)
    heap: DriverHeap = HEAP

    def refuse_larger(self, _ranges: Mapping[Place, Range]) -> None:
        """None of them is large."""

    def values(self, _records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
        raise AssertionError("none of them is large")

    def wait_visible(self, ranges: Mapping[Place, Range]) -> None:
        self.waited_for.append(ranges)

    def read(self, _ranges: Mapping[Place, Range], _rows: int = 0) -> DataFrame:
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
def test_record_of_another_program_between_two_cuts_stops_the_job(spark: SparkSession, value: bytes | None) -> None:
    """I7: whatever it holds, it is one more than the cuts promise."""
    rows = logged(item(1), item(2), None, item(3))
    strange = {"topic": ITEMS.topic, "partition": 0, "offset": 2, "key": None, "value": value}

    with (
        pytest.raises(OperatorError, match=r"holds 4 records in \[0, 4\), its cuts say 3"),
        planned_records(cast(KafkaLog, FrameLog(spark, [*rows, strange])), promised(rows)),
    ):
        pass


@pytest.mark.usefixtures("engine")
def test_partition_that_holds_other_records_than_its_own_range_stops_the_job(spark: SparkSession) -> None:
    """I7: as many as promised, but others."""
    rows = logged(item(1), item(2, of=WIDER), item(3), item(4, of=WIDER))

    for part in ({"start_offset": 1}, {"end_offset": 3}):
        with (
            pytest.raises(OperatorError, match="was changed from outside"),
            planned_records(cast(KafkaLog, FrameLog(spark, rows)), promised(rows, **part)),
        ):
            pass
