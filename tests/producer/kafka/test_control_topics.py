"""Progress is read back from the end of its topic, however long the topic is and whatever is in between."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.log_ends import LogEnds
from tests.producer.streaming_progress import STREAMING, current, whole
from walbridge.control_records import newest_progress
from walbridge.embedded.kafka import KafkaBroker
from walbridge.producer.kafka import control_topics, partition_log
from walbridge.producer.kafka.control_topics import read_progress, refuse_overtaken
from walbridge.producer.kafka.kafka_transaction import BatchAborted
from walbridge.schemas.control.progress_record import Progress, encode_progress
from walbridge.schemas.control.table_progress import STALE, TableProgress
from walbridge.schemas.errors import COPY_ALL_FIRST, KafkaAway, OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import progress_topic

WAIT_S = 60
OURS = Progress("streaming", "7", 1, "walbridge", "shop")


@pytest.fixture
def settings(kafka: KafkaBroker, pipeline_name: str) -> Settings:
    """Of a pipeline that has a progress topic, and nothing in it."""
    made = Settings.model_validate({"name": pipeline_name, "kafka": {"bootstrap_servers": kafka.bootstrap_servers}})
    topic = NewTopic(progress_topic(pipeline_name), 1, 1, config={"cleanup.policy": "compact"})
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    client.create_topics([topic])[topic.topic].result(WAIT_S)
    return made


class Writer:
    """A producer of progress: each ``write`` is one Kafka transaction, and decided when it returns."""

    def __init__(self, settings: Settings) -> None:
        self._topic = progress_topic(settings.name)
        servers = settings.kafka.bootstrap_servers
        self._producer = Producer(
            {"bootstrap.servers": servers, "transactional.id": settings.name, "linger.ms": 0, "log_level": 0}
        )
        self._producer.init_transactions(WAIT_S)
        self._log_ends = LogEnds(servers)

    def write(self, records: Sequence[Progress], *, commit: bool = True) -> None:
        self._producer.begin_transaction()
        for record in records:
            self.produce(whole(record))
        assert self._producer.flush(WAIT_S) == 0
        if commit:
            self._producer.commit_transaction(WAIT_S)
        else:
            self._producer.abort_transaction(WAIT_S)
        self._log_ends.wait_visible(self._topic)

    def write_slot(self, progress: Progress) -> None:
        """The slot's record alone, as where no table changed."""
        self._producer.begin_transaction()
        self.produce(whole(progress)[-1:])
        assert self._producer.flush(WAIT_S) == 0
        self._producer.commit_transaction(WAIT_S)
        self._log_ends.wait_visible(self._topic)

    def produce(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in records:
            self._producer.produce(self._topic, value, key)

    @contextlib.contextmanager
    def open(self, record: Progress) -> Iterator[None]:
        """A transaction that is committed after the block."""
        self._producer.begin_transaction()
        self._producer.produce(self._topic, encode_progress(record), record.key)
        assert self._producer.flush(WAIT_S) == 0
        yield
        self._producer.commit_transaction(WAIT_S)
        self._log_ends.wait_visible(self._topic)


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of everything that was read."""
    offsets: list[int] = []

    class Counting(Consumer):
        def poll(self, timeout: float = -1) -> object:  # type: ignore[override]
            message = super().poll(timeout)
            if message is not None and message.error() is None:
                offsets.append(message.offset() or 0)
            return message

    monkeypatch.setattr(partition_log, "Consumer", Counting)
    return offsets


def at(cut_id: int) -> Progress:
    return replace(OURS, cut_id=cut_id)


def test_nothing_was_ever_written(settings: Settings) -> None:
    assert read_progress(settings) is None


def test_of_a_long_topic_only_the_end_is_read(settings: Settings, polled: list[int]) -> None:
    writer = Writer(settings)
    writer.write([at(cut_id) for cut_id in range(3000)])
    writer.write([at(3000)])

    assert read_progress(settings) == at(3000)
    assert len(polled) < 50
    assert min(polled) > 2900


def test_newest_record_is_found_behind_hundreds_of_aborted_ones(settings: Settings, polled: list[int]) -> None:
    """They take offsets and are never delivered: an end offset says nothing of what there is before it."""
    writer = Writer(settings)
    writer.write([at(cut_id) for cut_id in range(2000)])
    for cut_id in range(3):
        writer.write([at(1000 + cut_id)] * 200, commit=False)

    assert read_progress(settings) == at(1999)
    assert len(polled) < 1000


def test_record_of_every_table_is_found_behind_the_cuts_since_it_changed(settings: Settings, polled: list[int]) -> None:
    writer = Writer(settings)
    many = replace(at(3000), tables=current(*range(1, 2001)))
    writer.write([at(cut_id) for cut_id in range(3000)])
    writer.write([many])
    for cut_id in range(3001, 3010):
        writer.write([replace(many, cut_id=cut_id, tables={2000: TableProgress(2000, STALE, why=str(cut_id))})])
        writer.write_slot(replace(many, cut_id=cut_id))

    found = read_progress(settings)

    stale = TableProgress(2000, STALE, why="3009")
    assert found == replace(many, cut_id=3009, tables={**many.tables, 2000: stale})
    assert len(polled) < 12_000


def test_record_of_a_table_whose_cut_was_aborted_is_not_believed(settings: Settings) -> None:
    """A table's record and the cut it goes with are one Kafka transaction: a restart reads both or none."""
    writer, before = Writer(settings), replace(at(1), tables=current(7, 8))
    writer.write([before])
    writer.write([replace(at(2), tables={7: TableProgress(7, STALE)})], commit=False)

    assert read_progress(settings) == before


def test_record_of_a_table_that_is_gone_is_told(settings: Settings) -> None:
    """I7: the topic was cut, which a compacted one never is."""
    writer = Writer(settings)
    writer.write_slot(replace(at(1), tables=current(7, 8)))

    with pytest.raises(OperatorError, match="2 of the 2 records of tables are gone") as refused:
        read_progress(settings)

    assert COPY_ALL_FIRST in refused.value.remedy
    topic = progress_topic(settings.name)
    assert newest_progress(settings, {topic}, all_tables=False) == at(1), "walbridge drop removes the pipeline"


def test_record_of_an_open_transaction_is_not_believed(settings: Settings) -> None:
    writer = Writer(settings)
    writer.write([at(1)])
    with writer.open(at(2)):
        assert read_progress(settings) == at(1)

    assert read_progress(settings) == at(2)


def test_everything_was_aborted(settings: Settings) -> None:
    Writer(settings).write([at(1)] * 300, commit=False)

    assert read_progress(settings) is None


@pytest.mark.parametrize("order", [["other", "ours"], ["ours", "other"], ["other"]])
def test_record_of_another_slot_near_the_end_is_refused(settings: Settings, order: list[str]) -> None:
    slots = {"ours": OURS, "other": replace(OURS, slot="rival", database="theirs")}
    writer = Writer(settings)
    for slot in order:
        writer.write([slots[slot]])

    with pytest.raises(OperatorError, match="is of slot rival in database theirs") as refused:
        read_progress(settings)

    assert '[postgres] slot = "rival"' in refused.value.remedy


def test_without_a_broker_it_says_so_at_once() -> None:
    away = Settings.model_validate({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})

    with pytest.raises(KafkaAway, match="cannot be read"):
        read_progress(away)


def test_between_two_reads_the_broker_is_asked_for_nothing(settings: Settings) -> None:
    """A client fetches on behind the end, a hundred times a second: nine in a hundred of a core of the broker."""
    with partition_log.PartitionLog(settings, progress_topic(settings.name), 0) as log:
        assert not list(log.read(0))
        assert not log._consumer.assignment()

        Writer(settings).write([OURS])

        assert [message.key() for message in log.read(0)] == [OURS.key]
        assert not log._consumer.assignment()


@pytest.mark.parametrize(
    ("newest", "goes_on"),
    [
        pytest.param({}, True, id="its own"),
        pytest.param({"options": {"another": "option"}}, True, id="its own, before a fact that the next one tells"),
        pytest.param({"cut_id": 5}, False, id="of one more cut"),
        pytest.param({"cut_id": 3}, False, id="of one cut less: the broker has lost some"),
        pytest.param({"consistent_point": Lsn(900)}, False, id="of another copy"),
        pytest.param(None, False, id="none"),
    ],
)
def test_replaced_instance_goes_on_where_the_newest_progress_is_its_own(
    monkeypatch: pytest.MonkeyPatch, newest: dict[str, Any] | None, *, goes_on: bool
) -> None:
    """I4: another producer, which the new instance has fenced, may have published the same changes."""
    found = None if newest is None else replace(STREAMING, **newest)
    monkeypatch.setattr(control_topics, "read_progress", lambda settings: found)

    with contextlib.nullcontext() if goes_on else pytest.raises(BatchAborted, match="another producer published"):
        refuse_overtaken(Settings(), STREAMING)
