"""The cuts topic: bounded reads, and a stream that is only a trigger."""

import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from schemas.errors import OperatorError
from schemas.settings import Settings
from schemas.topics import cuts_topic
from spark_consumer.kafka import cuts_source
from spark_consumer.kafka.cuts_source import Cuts, CutsSource
from spark_consumer.kafka.kafka_log import KafkaLog
from tests.contract_writer import ContractWriter
from walbridge.embedded.kafka import KafkaBroker


@pytest.fixture
def writer(kafka: KafkaBroker, pipeline_name: str) -> ContractWriter:
    return ContractWriter(kafka.bootstrap_servers, pipeline_name)


@pytest.fixture
def source(spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path) -> CutsSource:
    settings = Settings(
        name=pipeline_name,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake)},  # type: ignore[arg-type]
    )
    return CutsSource(spark, KafkaLog(spark, settings), settings)


def ids(cuts: Cuts) -> list[int]:
    return [cut.cut_id for _, cut in cuts]


def follow_once(source: CutsSource, start: int = 0) -> list[int]:
    found: list[int] = []
    source.follow(start, lambda cuts: found.extend(ids(cuts)), threading.Event(), once=True)
    return found


def test_cuts_are_read_once_and_in_order_in_slices_of_bounded_size(
    source: CutsSource, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9."""
    for _ in range(7):
        writer.send()
    monkeypatch.setattr(cuts_source, "OFFSETS_PER_READ", 4)
    slices = list(source.read(*source.bounds()))

    assert [cut_id for part in slices for cut_id in ids(part)] == list(range(1, 8))
    assert max(map(len, slices)) == 2


def test_large_cuts_are_read_in_smaller_slices(
    source: CutsSource, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9."""
    for _ in range(5):
        writer.send()
    monkeypatch.setattr(cuts_source, "BYTES_PER_READ", 100)
    monkeypatch.setattr(cuts_source, "LARGE_OFFSETS_PER_READ", 2)

    assert [ids(part) for part in source.read(*source.bounds())] == [[1], [2], [3], [4], [5]]


def test_a_missing_cuts_topic_says_to_start_the_producer(source: CutsSource) -> None:
    with pytest.raises(OperatorError, match=r"does not exist[\s\S]*walbridge produce"):
        source.bounds()


def test_a_record_that_is_no_cut_stops_the_job(
    source: CutsSource, writer: ContractWriter, kafka: KafkaBroker, pipeline_name: str
) -> None:
    """I7."""
    stranger = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    stranger.produce(cuts_topic(pipeline_name), b"not a cut")
    stranger.flush(30)

    with pytest.raises(OperatorError, match="cannot read"):
        list(source.read(*source.bounds()))


def test_the_stream_goes_on_from_its_checkpoint(source: CutsSource, writer: ContractWriter) -> None:
    writer.send()
    writer.send()
    first = follow_once(source)
    writer.send()

    assert (first, follow_once(source)) == ([1, 2], [3])


def test_a_new_checkpoint_starts_at_the_offset_it_is_given(source: CutsSource, writer: ContractWriter) -> None:
    writer.send()
    _, end = source.bounds()
    writer.send()

    assert follow_once(source, end) == [2]


def test_a_failure_in_a_trigger_arrives_as_the_same_object(source: CutsSource, writer: ContractWriter) -> None:
    writer.send()
    failure = OperatorError("what happened", remedy="what to do")

    def fail(_cuts: Cuts) -> None:
        raise failure

    with pytest.raises(OperatorError) as raised:
        source.follow(0, fail, threading.Event(), once=False)
    assert raised.value is failure


def test_stopping_waits_for_the_running_trigger(source: CutsSource, writer: ContractWriter) -> None:
    writer.send()
    stop, finished = threading.Event(), threading.Event()

    def receive(_cuts: Cuts) -> None:
        stop.set()
        finished.wait(0.5)  # longer than the main thread takes to see the stop
        finished.set()

    source.follow(0, receive, stop, once=False)

    assert finished.is_set()
