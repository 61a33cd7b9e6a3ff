"""Reading a plan's records: exact ranges, counted, with waiting and refusing told apart."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.runtime import heap
from walbridge.schemas.control.cut import Cut, PartitionRange
from walbridge.schemas.errors import OperatorError, TableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.kafka import change_reader, plan_reader
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.plan_reader import planned_records
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


@pytest.fixture(params=["one consumer", "spark"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads a very small plan."""
    if request.param == "spark":
        monkeypatch.setattr(plan_reader, "one_consumer_rows", lambda _partitions: 0)


@pytest.mark.usefixtures("reader")
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
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", Volume(rows=3, bytes=1_000))
    few, many, large = (
        writer.relation(name, COLUMNS, relation_id=n) for n, name in enumerate(("few", "many", "large"), 1)
    )
    rows = [{"id": i, "v": "x"} for i in range(4)]
    cut = writer.copy([(few, rows[:1]), (many, rows), (large, [{"id": 1, "v": "x" * 1_000}])])

    with planned_records(log, plan_of(cut)) as records:
        fetched = {of.topic: records.of(of.topic).fetched for of in (few, many, large)}
    assert [topic for topic, found in fetched.items() if found is not None] == [few.topic]


def test_a_very_small_plan_is_no_job_of_sparks(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [writer.relation(f"t{n}", COLUMNS, relation_id=n) for n in range(1, 4)]
    plan = plan_of(writer.copy([(table, [{"id": 1}, {"id": 2}]) for table in tables]))
    monkeypatch.setattr(log, "read", lambda *_: pytest.fail("Spark reads it"))

    with planned_records(log, plan) as records:
        assert [records.of(table.topic).volumes[table.schema_id].rows for table in tables] == [3, 3, 3]


@pytest.mark.usefixtures("reader")
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
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", Volume())
    away = found()
    assert (here[0], away[0]) == (True, False)
    assert here[1:] == away[1:]


def test_the_driver_holds_no_more_than_it_may_of_all_tables(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9."""
    monkeypatch.setattr(change_reader, "FETCHED_MAX", Volume(rows=5, bytes=2**20))
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", Volume(rows=3, bytes=2**20))
    tables = [writer.relation(f"t{n}", COLUMNS, relation_id=n) for n in range(1, 5)]
    cut = writer.copy([(table, [{"id": 1}, {"id": 2}]) for table in tables])

    with planned_records(log, plan_of(cut)) as records:
        fetched = [records.of(table.topic).fetched for table in tables]
    assert sum(found.num_rows for found in fetched if found is not None) <= 5
    assert any(found is not None for found in fetched)


@pytest.mark.parametrize("few", [change_reader.LOCAL_FOLD_MAX, Volume()], ids=["driver", "spark"])
def test_large_values_come_one_at_a_time_and_never_to_spark(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch, few: Volume
) -> None:
    """I9: in any order of partitions and offsets, behind compression, beside small ones of the same batch."""
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", few)
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
        reads_nothing = partial(log.read, {})
        monkeypatch.setattr(log, "read", lambda ranges, _: reads_nothing() if not ranges else pytest.fail("it is read"))

    with planned_records(log, plan) as records, pytest.raises(TableError) as refused:
        records.of(table.topic)
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
    log: KafkaLog, spark: SparkSession, kafka: KafkaBroker, writer: ContractWriter, pipeline_name: str, lake: Path
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
    log.wait_visible(beyond)


@pytest.mark.variant(of="test_records_that_expired_before_they_were_applied_are_told_by_check_as_the_job_tells_them")
def test_records_that_retention_removed_are_the_trouble_of_their_table_alone(
    log: KafkaLog, kafka: KafkaBroker, writer: ContractWriter
) -> None:
    """I7: so is a topic that was deleted."""
    deleted, whole = (writer.relation(name, COLUMNS, relation_id=n) for n, name in enumerate("uv", 2))
    table = writer.relation("t", COLUMNS, relation_id=1)
    cut = writer.copy([(of, [{"id": i} for i in range(5)]) for of in (table, deleted, whole)])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_records([TopicPartition(table.topic, 0, 3)])[TopicPartition(table.topic, 0)].result(30)
    admin.delete_topics([deleted.topic])[deleted.topic].result(30)
    wait_until(lambda: deleted.topic not in admin.list_topics(timeout=30).topics, f"{deleted.topic} to be gone")

    with planned_records(log, plan_of(cut)) as records:
        with pytest.raises(TableError, match="are gone"):
            records.of(table.topic)
        with pytest.raises(TableError, match=r"does not exist|not visible"):
            records.of(deleted.topic)
        assert sum(volume.rows for volume in records.of(whole.topic).volumes.values()) == 6


@pytest.mark.variant(of="test_state_is_refused_with_its_remedy_and_the_lake_is_as_it_was")
def test_a_deleted_topic_is_told_from_a_broker_that_is_away(log: KafkaLog) -> None:
    with pytest.raises(OperatorError, match="does not exist"):
        log.ends([("no-such-topic", 0)])


@pytest.mark.usefixtures("reader")
def test_a_cut_that_promises_more_than_is_there_is_the_trouble_of_its_table(
    log: KafkaLog, writer: ContractWriter
) -> None:
    """I7: a transaction marker takes an offset, so a range over it holds one record less."""
    table = writer.relation("t", COLUMNS, relation_id=1)
    first = writer.copy([(table, [{"id": 1}])])
    writer.send(inserts(table, 0x2000, 1))
    (part,) = first.partitions
    longer = PartitionRange(part.topic, 0, part.start_offset, part.end_offset + 2, part.records + 2)
    plan = plan_of(Cut(**{name: getattr(first, name) for name in first.__slots__} | {"partitions": (longer,)}))

    with planned_records(log, plan) as records, pytest.raises(TableError, match=r"holds 3 records .* its cuts say 4"):
        records.of(table.topic)
