"""Few records, read by one consumer: the same that Spark reads."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.in_soak import in_soak, in_variants
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.kafka import few_records, kafka_client
from walbridge.spark_consumer.kafka.change_reader import LARGE_BYTES, _fetch
from walbridge.spark_consumer.kafka.few_records import FewRecords, Polled, PolledRecords
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.measures import sized, without_large
from walbridge.spark_consumer.kafka.ranges import SIZED_RECORD, Range

KEYED = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("v")]
KEYLESS = [ColumnSpec("v")]
ANY_SIZE = 2**20


@pytest.fixture
def writer(kafka: KafkaBroker, pipeline_name: str) -> ContractWriter:
    return ContractWriter(kafka.bootstrap_servers, pipeline_name)


@pytest.fixture
def log(spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path) -> KafkaLog:
    return KafkaLog(
        spark,
        Settings(
            name=pipeline_name,
            kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
            lake={"path": str(lake)},  # type: ignore[arg-type]
        ),
    )


def read_by_spark(log: KafkaLog, ranges: dict[PartitionId, Range]) -> pa.Table:
    return _fetch(without_large(sized(log.read(ranges)), LARGE_BYTES), ANY_SIZE)


def in_order(records: pa.Table) -> list[dict[str, Any]]:
    order = [(name, "ascending") for name in ("topic", "partition", "offset")]
    found: list[dict[str, Any]] = records.select(SIZED_RECORD.names).sort_by(order).to_pylist()
    return found


def written(writer: ContractWriter) -> tuple[RelationRecord, RelationRecord]:
    """Two tables: transactions of some records each, every third of them aborted."""
    keyed = writer.relation("k", KEYED, relation_id=1, partitions=3)
    keyless = writer.relation("n", KEYLESS, relation_id=2)
    for number in range(12):
        lsn = 0x2000 + number
        texts = ["ü\n\\" * 40, None, "x" * 900, "\x7f"]
        events = [Event(keyed, "c", lsn, n, after={"id": 100 * number + n, "v": texts[n % 4]}) for n in range(7)]
        events += [Event(keyless, "c", lsn, 9, after={"v": texts[number % 4]})]
        if number % 3 == 2:
            writer.abort(events)
        else:
            writer.send(events)
    return keyed, keyless


def drawn_ranges(draw: random.Random, ends: Mapping[PartitionId, int]) -> dict[PartitionId, Range]:
    """Ranges of some of the partitions."""
    places = draw.sample(list(ends), draw.randint(1, len(ends)))
    return {place: _two(sorted(draw.sample(range(ends[place] + 1), 2))) for place in places}


def _two(offsets: list[int]) -> Range:
    start, end = offsets
    return start, end


def within(ranges: Mapping[PartitionId, Range], records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the records that are in the ranges."""
    return [
        record
        for record in records
        for start, end in [ranges.get((record["topic"], record["partition"]), (0, 0))]
        if start <= record["offset"] < end
    ]


def test_a_full_disk_is_the_operators(log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no fault of [kafka.spark]."""
    ranges = {(table.topic, 0): (0, 5) for table in written(writer)}
    full = Path("/dev/full").open
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", lambda **_: full("rb"))
    with pytest.raises(OperatorError, match="No space left on device"):
        log.fetch_few(ranges, ANY_SIZE)


@pytest.mark.parametrize(
    "fetch_bytes", [1, in_soak(2_000), in_variants(2**17)], ids=["batch by batch", "some batches", "all at once"]
)
def test_any_ranges_are_read_as_spark_reads_them(
    log: KafkaLog, writer: ContractWriter, fetch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7: the end excluded; markers and aborted records are passed, also where a range ends with them."""
    sizes = dict.fromkeys(kafka_client._SIZES, str(fetch_bytes))
    monkeypatch.setattr(kafka_client, "OWN", kafka_client.OWN | sizes)
    places = [(table.topic, partition) for table in written(writer) for partition in range(table.partition_count)]
    ends = log.ends(places)
    of_spark = in_order(read_by_spark(log, {place: (0, ends[place]) for place in places}))
    draw = random.Random(fetch_bytes)

    for _ in range(15):
        ranges = drawn_ranges(draw, ends)
        found = log.fetch_few(ranges, ANY_SIZE)

        assert found is not None
        assert found.schema == SIZED_RECORD
        assert in_order(found) == within(ranges, of_spark)


def test_one_larger_value_leaves_all_to_spark_and_the_next_plan_is_read(log: KafkaLog, writer: ContractWriter) -> None:
    """I9"""
    place = written(writer)[1].topic, 0
    ranges = {place: (0, log.ends([place])[place])}

    assert log.fetch_few(ranges, 100) is None
    found = log.fetch_few(ranges, ANY_SIZE)
    assert found is not None
    assert found.num_rows == 8


@pytest.mark.parametrize("attribute", ["POLL_BYTES_MAX", "_HEADER"])
def test_poll_that_is_larger_or_told_in_other_words_is_left_to_spark(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch, attribute: str
) -> None:
    """I7, I9"""
    place = written(writer)[1].topic, 0
    monkeypatch.setattr(few_records, attribute, 100 if attribute == "POLL_BYTES_MAX" else re.compile(b"no such text"))

    assert log.fetch_few({place: (0, log.ends([place])[place])}, ANY_SIZE) is None


def test_records_that_go_while_they_are_read_are_never_passed_over(
    log: KafkaLog, writer: ContractWriter, kafka: KafkaBroker
) -> None:
    """I7: no client's own choice of another offset; the next attempt finds what is gone."""
    place = written(writer)[1].topic, 0
    end = log.ends([place])[place]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_records([TopicPartition(*place, 3)])[TopicPartition(*place)].result(30)

    with pytest.raises(RetryableError, match="records went while they were read"):
        log.fetch_few({place: (0, end)}, ANY_SIZE)


def test_no_poll_waits_for_a_marker_behind_the_last_record() -> None:
    """Such a poll would bring nothing, and a plan would wait for it."""
    consumer, polled = MagicMock(), MagicMock()
    polled.read.side_effect = [[Polled(("t", 0), 5, b"k", b"v")], []]
    consumer.position.side_effect = lambda _: 5 + 2 * polled.read.call_count
    few = FewRecords(MagicMock(), consumer, {("t", 0): MagicMock()}, MagicMock(), polled)

    found = few.fetch({("t", 0): (5, 7)}, ANY_SIZE)

    assert found is not None
    assert found["offset"].to_pylist() == [5]
    assert consumer.poll.call_count == 1


def test_broker_that_sends_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_records, "PATIENCE_S", 0.0)
    consumer = MagicMock()
    consumer.poll.return_value.isEmpty.return_value = True
    consumer.position.return_value = 5
    polled = PolledRecords(MagicMock(), consumer)
    few = FewRecords(MagicMock(), consumer, {("t", 0): MagicMock()}, MagicMock(), polled)

    with pytest.raises(RetryableError, match=r"Kafka does not send t\[0\] from offset 5 on"):
        few.fetch({("t", 0): (5, 9)}, ANY_SIZE)
    consumer.unsubscribe.assert_called_once()
