"""Many records, read by one consumer to a file: the same that Spark reads."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.contract_writer import ContractWriter
from tests.in_soak import in_variants
from tests.spark_consumer.kafka.test_few_records import (
    ANY_SIZE,
    KEYED,
    drawn_ranges,
    in_order,
    log,
    read_by_spark,
    within,
    writer,
    written,
)
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.avro.framing import FRAMINGS, Framing, prefix_of
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.kafka import change_reader, kafka_client
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.many import many_records, spooled_records
from walbridge.spark_consumer.kafka.many.spooled_records import Chunk, SpooledRecords
from walbridge.spark_consumer.kafka.measures import Measure, measured_here
from walbridge.spark_consumer.kafka.plan_reader import planned_records
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import make_plan

__all__ = ["log", "writer"]


def records_of(found: SpooledRecords) -> list[dict[str, Any]]:
    topics = {part.partition_id[0] for part in found.parts}
    return in_order(found.records(topics))


def by_place(measures: Any) -> dict[tuple[str, int, str | None], tuple[Any, ...]]:
    """What several measures of one partition and frame say together."""
    found: dict[tuple[str, int, str | None], Measure] = {}
    for each in measures:
        place = each.topic, each.partition, each.frame_id
        before = found.get(place, each)
        volume = each.volume if before is each else before.volume + each.volume
        found[place] = Measure(*place, volume, before.first_offset, each.last_offset)
    return {place: (each.volume, each.first_offset, each.last_offset) for place, each in found.items()}


def test_records_that_go_while_they_are_read_are_never_passed_over(log: KafkaLog, writer: ContractWriter) -> None:
    """I7: no client's own choice of another offset; the next attempt finds what is gone."""
    place = written(writer)[1].topic, 0
    end = log.ends([place])[place]
    admin = AdminClient({"bootstrap.servers": writer.bootstrap_servers})
    admin.delete_records([TopicPartition(*place, 3)])[TopicPartition(*place)].result(30)

    with pytest.raises(RetryableError, match="records went while they were read"):
        log.fetch_many({place: (0, end)}, {}, ANY_SIZE)


def test_a_broker_that_sends_nothing_is_not_waited_for_for_ever(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = written(writer)[1].topic, 0
    monkeypatch.setattr(many_records, "PATIENCE_S", 0.0)
    monkeypatch.setattr(many_records, "POLL_MS", 1)

    with pytest.raises(RetryableError, match="Kafka does not send"):
        log.fetch_many({place: (log.ends([place])[place], 10**6)}, {}, ANY_SIZE)


@pytest.mark.parametrize("buffer_bytes", [1, many_records.BUFFER_BYTES], ids=["in the loop", "at its end"])
def test_a_full_disk_is_the_operators_and_the_next_fetch_finds_room(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, buffer_bytes: int
) -> None:
    monkeypatch.setattr(many_records, "BUFFER_BYTES", buffer_bytes)
    ranges = {(table.topic, 0): (0, 5) for table in written(writer)}

    def on_full_disk(**_: object) -> tuple[int, str]:
        name = tmp_path / "full"
        name.symlink_to("/dev/full")
        return os.open(name, os.O_RDONLY), str(name)

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkstemp", on_full_disk)
        with pytest.raises(OperatorError, match="No space left on device"):
            log.fetch_many(ranges, {}, ANY_SIZE)
    found = log.fetch_many(ranges, {}, ANY_SIZE)
    assert found is not None
    with closing(found):
        assert len(records_of(found)) > 0


def test_what_is_fetched_has_no_name_on_the_disk(
    log: KafkaLog, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """I9: it is gone with a job that is killed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = log.fetch_many({(table.topic, 0): (0, 5) for table in written(writer)}, {}, ANY_SIZE)
    assert found is not None
    with closing(found):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spoils", ["a large value", "a foreign record"])
def test_what_only_spark_can_tell_is_left_to_spark(log: KafkaLog, writer: ContractWriter, spoils: str) -> None:
    """I7; the next plans with this topic are not fetched for nothing."""
    keyed, _ = written(writer)
    end = log.ends([(keyed.topic, 0)])[keyed.topic, 0]
    value_bytes_max = 800 if spoils == "a large value" else ANY_SIZE
    if spoils == "a foreign record":
        stranger = Producer({"bootstrap.servers": writer.bootstrap_servers})
        stranger.produce(keyed.topic, b"strange", partition=0)
        stranger.flush()
        end += 1
    ranges, rows = {(keyed.topic, 0): (0, end)}, {keyed.topic: end, "other": 99 * end}
    assert [log.fetch_many(ranges, rows, limit) for limit in (value_bytes_max, ANY_SIZE)] == [None, None]


@pytest.mark.variant(of="test_any_ranges_are_read_as_spark_reads_them")
@pytest.mark.parametrize("fetch_bytes", [1, in_variants(2**17)], ids=["batch by batch", "all at once"])
def test_any_ranges_are_read_as_spark_reads_them(
    log: KafkaLog, writer: ContractWriter, fetch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7: the end excluded; markers and aborted records are passed, also where a range ends with them."""
    sizes = dict.fromkeys(kafka_client._SIZES, str(fetch_bytes))
    monkeypatch.setattr(kafka_client, "OWN", kafka_client.OWN | sizes)
    monkeypatch.setattr(spooled_records, "CHUNK_ROWS", 5)
    monkeypatch.setattr(many_records, "POLL_ROWS", 3)
    places = [(table.topic, partition) for table in written(writer) for partition in range(table.partition_count)]
    ends = log.ends(places)
    of_spark = in_order(read_by_spark(log, {place: (0, ends[place]) for place in places}))
    draw = random.Random(fetch_bytes)

    for _ in range(15):
        ranges = drawn_ranges(draw, ends)
        found = log.fetch_many(ranges, {}, ANY_SIZE)

        assert found is not None
        with closing(found):
            assert records_of(found) == within(ranges, of_spark)
            few = log.fetch_few(ranges, ANY_SIZE)
            assert few is not None
            assert by_place(found.measures) == by_place(measured_here(few))


@pytest.mark.parametrize("framing", FRAMINGS, ids=["single object", "Confluent", "JSON"])
def test_a_record_is_of_the_schema_whose_whole_id_it_begins_with(framing: Framing) -> None:
    """I7: ids differ in any of their digits, and a value may be shorter than an id."""
    of = "5" * framing.id_digits
    others = [of[:at] + "6" + of[at + 1 :] for at in range(len(of))]
    values = [prefix_of(frame_id) + b"5" for frame_id in (*others, of)] + [prefix_of(of), prefix_of(of)[:-1]]
    sizes = np.array([len(value) for value in values])
    data = np.frombuffer(b"".join(values) + bytes(spooled_records.PADDING), np.uint8)
    keys = np.full(len(values), -1)
    chunk = Chunk("t", 0, 0, data, np.arange(len(values)), np.cumsum(sizes) - sizes, keys, sizes)

    assert np.flatnonzero(chunk.in_frame(of)).tolist() == [len(others)]


def test_what_has_come_is_progress(log: KafkaLog, writer: ContractWriter) -> None:
    """A supervisor that starts a job again because of one long fetch would never see that plan done."""
    keyed, _ = written(writer)
    places, beats = [(keyed.topic, partition) for partition in range(keyed.partition_count)], []
    ends = log.ends(places)
    found = log.fetch_many({place: (0, ends[place]) for place in places}, {}, ANY_SIZE, lambda: beats.append(1))
    assert found is not None
    with closing(found):
        assert len(beats) >= 2 * len(found.parts) >= 2 * len(places)  # fetched and measured


@pytest.mark.parametrize("applier", ["auto", in_variants("spark")])
def test_a_large_plan_is_read_by_spark_only_where_it_must_be(
    spark: SparkSession, kafka: KafkaBroker, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch, applier: str
) -> None:
    """I7, I9: what is not plain after all is read again; the next plans with it are not fetched for nothing."""
    settings = Settings(
        name=writer.pipeline,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"applier": applier},  # type: ignore[arg-type]
    )
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", Volume())
    keyed = writer.relation("k", KEYED, relation_id=1, partitions=3)
    plan = make_plan([(0, writer.copy([(keyed, [{"id": number} for number in range(9)])]))], {})
    log = KafkaLog(spark, settings)
    read = MagicMock(side_effect=log.read)
    monkeypatch.setattr(log, "read", read)

    with planned_records(log, plan) as records:
        found = records.of(keyed.topic)
        assert (found.spooled is None, read.call_count) == ((True, 1) if applier == "spark" else (False, 0))
        assert sum(volume.rows for volume in found.volumes.values()) == plan.rows
        assert found.frame().count() == plan.rows
    assert read.call_count == 1
    with planned_records(log, plan) as records:
        assert records.of(keyed.topic).spooled is None
