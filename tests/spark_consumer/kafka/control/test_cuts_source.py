"""The cuts topic: bounded reads, and a stream that is only a trigger."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.contract_writer import ContractWriter
from tests.in_soak import others_in_variants
from tests.spark_consumer.memory_topics import MemoryTopics
from tests.spark_consumer.world import KEYED, cut
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.cut import encode_cut
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic
from walbridge.spark_consumer.kafka.control import cuts_source
from walbridge.spark_consumer.kafka.control.cuts_source import Cuts, CutsFrom, CutsSource, _Batches, polling_delay_ms
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog


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
    """Ids of the cuts from ``start`` on, as triggers bring them."""
    found: list[int] = []

    def take(cuts_from: CutsFrom) -> None:
        found.extend(cut_id for part in cuts_from(start) for cut_id in ids(part))

    source.follow(start, take, threading.Event(), once=True)
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


@pytest.mark.variant(of="test_cuts_are_fetched_without_spark_unless_one_is_large")
def test_large_cuts_are_read_in_smaller_slices(
    source: CutsSource, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9."""
    for _ in range(5):
        writer.send()
    monkeypatch.setattr(cuts_source, "BYTES_PER_READ", 100)
    monkeypatch.setattr(cuts_source, "LARGE_OFFSETS_PER_READ", 2)

    assert [ids(part) for part in source.read(*source.bounds())] == [[1], [2], [3], [4], [5]]


def test_cuts_are_fetched_without_spark_unless_one_is_large(
    source: CutsSource, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of a backlog, which would wait for the first query of the job."""
    cuts = [*range(1, 2 + cuts_source.LARGE_OFFSETS_PER_READ // 2)]
    for _ in cuts:
        writer.send()
    bounds, by_spark = source.bounds(), MagicMock(side_effect=source._log.read)
    monkeypatch.setattr(source._log, "read", by_spark)

    assert [ids(part) for part in source.read(*bounds)] == [cuts]
    by_spark.assert_not_called()
    monkeypatch.setattr(cuts_source, "FEW_BYTES", 10)
    assert [ids(part) for part in source.read(*bounds)] == [cuts]
    by_spark.assert_called()


def test_a_missing_cuts_topic_says_to_start_the_producer(source: CutsSource) -> None:
    with pytest.raises(OperatorError, match=r"does not exist[\s\S]*walbridge produce"):
        source.bounds()


def write(kafka: KafkaBroker, pipeline_name: str, *values: bytes | None) -> None:
    """As another program does."""
    stranger = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value in values:
        stranger.produce(cuts_topic(pipeline_name), value)
    stranger.flush(30)


def test_a_cut_of_newer_code_stops_the_job(
    source: CutsSource, writer: ContractWriter, kafka: KafkaBroker, pipeline_name: str
) -> None:
    """I7."""
    write(kafka, pipeline_name, b"\xc3\x01" + bytes(20))

    with pytest.raises(OperatorError, match="cannot read"):
        list(source.read(*source.bounds()))


def test_what_another_program_wrote_is_left_out_however_it_is_read(
    source: CutsSource, writer: ContractWriter, kafka: KafkaBroker, pipeline_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can take it away again; the chain of cuts tells if one of ours is missing."""
    writer.send()
    write(kafka, pipeline_name, b"not a cut", b"", None)
    writer.send()
    bounds = source.bounds()

    assert [ids(part) for part in source.read(*bounds)] == [[1, 2]]
    monkeypatch.setattr(cuts_source, "FEW_BYTES", 1)
    assert [ids(part) for part in source.read(*bounds)] == [[1, 2]]


def test_the_stream_goes_on_from_its_checkpoint(source: CutsSource, writer: ContractWriter) -> None:
    writer.send()
    writer.send()
    first = follow_once(source)
    writer.send()

    assert (first, follow_once(source), follow_once(source)) == ([1, 2], [1, 2, 3], [])


def test_a_job_that_keeps_up_takes_the_cuts_of_a_trigger_without_reading_them_again(
    source: CutsSource, writer: ContractWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first trigger begins where a checkpoint says that may be ahead of the lake: its cuts are read (I5)."""
    writer.send()
    stop = threading.Event()
    found: list[list[int]] = []
    reads: list[int] = []
    read = source.read

    def counted(start: int, end: int) -> Iterator[Cuts]:
        reads.append(start)
        return read(start, end)

    def take(cuts_from: CutsFrom) -> None:
        if stop.is_set():
            return
        found.append([cut_id for part in cuts_from(2 * sum(map(len, found))) for cut_id in ids(part)])
        writer.send()
        if len(found) == 3:
            stop.set()

    monkeypatch.setattr(source, "read", counted)
    source.follow(0, take, stop, once=False)

    assert [cut_id for part in found for cut_id in part] == [1, 2, 3]
    assert reads == [0]


def test_a_new_checkpoint_starts_at_the_offset_it_is_given(
    source: CutsSource, writer: ContractWriter, lake: Path
) -> None:
    writer.send()
    _, end = source.bounds()
    writer.send()

    assert follow_once(source, end) == [2]
    assert (lake / "_checkpoint" / "sources" / "0" / "0").read_text().endswith('{"0":2}}')


def lose_offsets(checkpoint: Path) -> None:
    for file in (checkpoint / "offsets").glob("*1*"):
        file.unlink()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a batch that ended has no offsets": lose_offsets,
    "the stream's id is empty": lambda checkpoint: (checkpoint / "metadata").write_bytes(b""),
    "offsets of the source are empty": lambda checkpoint: [
        file.write_bytes(b"") for file in files_of_source(checkpoint)
    ],
    "offsets are zeroes": lambda checkpoint: (checkpoint / "offsets" / "1").write_bytes(bytes(700)),
}
"""What a power cut leaves, or a stream that was still writing when its folder was deleted."""


def files_of_source(checkpoint: Path) -> list[Path]:
    return [checkpoint / "sources" / "0" / name for name in ("0", ".0.crc")]


@pytest.mark.parametrize("damage", others_in_variants(DAMAGE, ["offsets are zeroes"]))
def test_damaged_checkpoint_is_made_anew(source: CutsSource, writer: ContractWriter, lake: Path, damage: str) -> None:
    """I5: nothing depends on it, so no job ends for it."""
    for _ in range(2):
        writer.send()
        follow_once(source)
    DAMAGE[damage](lake / "_checkpoint")
    writer.send()

    assert {*follow_once(source)} == {1, 2, 3}
    writer.send()
    assert follow_once(source) == [1, 2, 3, 4]
    assert follow_once(source) == []


@pytest.mark.parametrize(("given", "expected"), [("", "150ms"), ("30ms", "30ms")], ids=["not set", "set"])
def test_stream_at_rest_asks_as_rarely_as_the_publication_allows_unless_spark_is_told_otherwise(
    source: CutsSource, writer: ContractWriter, spark: SparkSession, given: str, expected: str
) -> None:
    """By default a lake is published every three seconds."""
    writer.send()
    before = spark.conf.get(cuts_source.POLLING_DELAY)
    spark.conf.unset(cuts_source.POLLING_DELAY)
    if given:
        spark.conf.set(cuts_source.POLLING_DELAY, given)
    try:
        follow_once(source)
        assert spark.conf.get(cuts_source.POLLING_DELAY) == expected
    finally:
        spark.conf.set(cuts_source.POLLING_DELAY, str(before))


@pytest.mark.parametrize(("publish_ms", "expected"), [(0, 10), (1_000, 50), (3_000, 150), (3_600_000, 200)])
def test_wait_at_the_end_of_the_topic_is_short_beside_the_publication_interval(publish_ms: int, expected: int) -> None:
    assert polling_delay_ms(publish_ms) == expected


def test_a_failure_in_a_trigger_arrives_as_the_same_object(source: CutsSource, writer: ContractWriter) -> None:
    writer.send()
    failure = OperatorError("what happened", remedy="what to do")

    def fail(_cuts_from: CutsFrom) -> None:
        raise failure

    with pytest.raises(OperatorError) as raised:
        source.follow(0, fail, threading.Event(), once=False)
    assert raised.value is failure


def test_stopping_waits_for_the_running_trigger(source: CutsSource, writer: ContractWriter) -> None:
    writer.send()
    stop, finished = threading.Event(), threading.Event()

    def receive(_cuts_from: CutsFrom) -> None:
        stop.set()
        finished.wait(0.5)  # longer than the main thread takes to see the stop
        finished.set()

    source.follow(0, receive, stop, once=False)

    assert finished.is_set()


def test_cuts_that_gather_before_they_are_due_are_taken_together(source: CutsSource, writer: ContractWriter) -> None:
    """Also those that came after the trigger which waits for its time."""
    writer.send()
    stop = threading.Event()
    found: list[list[int]] = []

    def wait_s() -> float:
        if found:
            writer.send()
        return 0.01 if found else 0

    def take(cuts_from: CutsFrom) -> None:
        found.append([cut_id for part in cuts_from(2 * sum(map(len, found))) for cut_id in ids(part)])
        writer.send()
        if len(found) == 3:
            stop.set()

    source.follow(0, take, stop, once=False, wait_s=wait_s)

    assert found[:3] == [[1], [2, 3], [4, 5]]  # another trigger may have begun before it heard of the stop


def test_trigger_that_waits_for_its_time_ends_when_the_job_is_stopped() -> None:
    taken: list[object] = []
    batches = _Batches(taken.append, lambda: 3_600)
    trigger = threading.Thread(target=batches.receive, args=(MagicMock(), 1))
    trigger.start()
    batches.close()
    trigger.join(60)

    assert not trigger.is_alive()
    assert taken == []


def test_nothing_is_done_at_rest_while_a_trigger_runs_nor_a_trigger_begun_meanwhile() -> None:
    """Both append to the manifest."""
    told: list[str] = []

    def act(_records: object) -> None:
        told.append("trigger")
        batches.while_idle(lambda: told.append("rest beside it"))

    batches = _Batches(act, lambda: 0)
    trigger = threading.Thread(target=batches.receive, args=(MagicMock(), 1))

    def rest() -> None:
        trigger.start()
        trigger.join(0.05)
        told.append("rest")

    batches.while_idle(rest)
    trigger.join(60)

    assert told == ["rest", "trigger"]


PLACE = cuts_topic("p"), 0


def in_memory(cuts: int) -> tuple[CutsSource, MemoryTopics]:
    topics = MemoryTopics()
    for n in range(1, cuts + 1):
        topics.add(PLACE[0], encode_cut(cut(n, KEYED, 0, [], 100 + n)))
    settings = Settings(name="p")
    return CutsSource(MagicMock(), cast(KafkaLog, topics), settings), topics


@pytest.mark.parametrize("offsets", [1, 2, 3, 4, 64])
def test_every_cut_is_read_once_and_in_order_whatever_the_slices(offsets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """I7: a record that a slice leaves out would be a break in the chain, or be lost at its end."""
    source, topics = in_memory(cuts=7)
    monkeypatch.setattr(cuts_source, "OFFSETS_PER_READ", offsets)

    slices = list(source.read(2, 14))

    assert [cut_id for part in slices for cut_id in ids(part)] == list(range(2, 8))
    assert [offset for part in slices for offset, _ in part] == list(range(2, 14, 2))
    assert topics.visible == [{PLACE: (2, 14)}]


def test_large_cuts_are_taken_fewer_at_a_time_and_never_beyond_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """I9; and nothing is read that is not yet decided."""
    source, topics = in_memory(cuts=7)
    monkeypatch.setattr(cuts_source, "LARGE_OFFSETS_PER_READ", 5)
    monkeypatch.setattr(source, "_bytes", lambda start, end: cuts_source.BYTES_PER_READ + 1)

    assert [cut_id for part in source.read(0, 12) for cut_id in ids(part)] == list(range(1, 7))
    assert topics.reads[-1] == {PLACE: (10, 12)}


def test_log_that_begins_later_is_read_from_there() -> None:
    """The chain of cuts tells whether more than a marker expired."""
    source, topics = in_memory(cuts=3)
    topics.begins[PLACE] = 3

    assert [ids(part) for part in source.read(1, 6)] == [[3]]


class Trigger:
    """Stands for the stream's query: it has called ``receive`` already, and ends soon, or has died."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.is_stopped, self._failure = False, failure
        self._looks_left = 3 if failure is None else 0

    @property
    def isActive(self) -> bool:
        self._looks_left -= 1
        return self._looks_left >= 0

    def stop(self) -> None:
        self.is_stopped = True

    def exception(self) -> Exception | None:
        return self._failure


def followed(
    monkeypatch: pytest.MonkeyPatch, receive: Any, *, triggers: int = 1, died: Exception | None = None
) -> Trigger:
    source, topics = in_memory(cuts=1)
    query = Trigger(died)

    def start(_offset: int, batches: Any, _once: bool) -> Trigger:
        for number in range(triggers):
            batches.receive(None, number)
        return query

    monkeypatch.setattr(source, "_start", start)
    source.follow(0, receive or (lambda _cuts_from: None), threading.Event(), once=True)
    assert topics.reads == []
    return query


def test_nothing_is_done_after_a_failure_and_it_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """I5: cuts behind one that failed would be applied without it."""
    received: list[CutsFrom] = []

    def fail(cuts_from: CutsFrom) -> None:
        received.append(cuts_from)
        raise OperatorError("what happened", remedy="what to do")

    with pytest.raises(OperatorError, match="what happened"):
        followed(monkeypatch, fail, triggers=2)
    assert len(received) == 1


def test_stream_that_died_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """I7: else a job that reads once would say that it read all."""
    died = RetryableError("the broker is away")

    with pytest.raises(RetryableError):
        followed(monkeypatch, None, died=died)
    assert followed(monkeypatch, None).is_stopped


def test_stream_that_cannot_begin_without_a_checkpoint_either_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    died = RuntimeError("not known")

    with pytest.raises(RuntimeError, match="not known"):
        followed(monkeypatch, None, triggers=0, died=died)
