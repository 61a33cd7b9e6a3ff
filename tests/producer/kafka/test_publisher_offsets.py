"""Rows, offsets and commits of the publisher, between it and the client library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from tests.producer.avro_reader import record_of
from tests.producer.kafka.transactional_client import Broker, broker_of
from tests.producer.written_record import KEYED
from walbridge.producer.encoding.kafka_record import Headers
from walbridge.producer.kafka import kafka_transaction
from walbridge.producer.kafka import publisher as publishers
from walbridge.producer.kafka.kafka_transaction import BatchAborted
from walbridge.producer.kafka.publisher import ControlRecord, Publisher
from walbridge.schemas.control.cut import PartitionRange
from walbridge.schemas.settings import Settings

CONTROL = [ControlRecord("progress", b"slot", b"progress"), ControlRecord("cuts", None, b"cut")]
HEADERS: Headers = [("name", b"value")]


@contextmanager
def publishing(**partition_counts: int) -> Iterator[tuple[Publisher, Broker]]:
    """A publisher inside its first transaction, to topics with so many partitions each."""
    with broker_of(**partition_counts) as broker:
        publisher = Publisher(Settings(), "id", lambda: None)
        for topic, count in partition_counts.items():
            publisher.expect(replace(record_of(of=KEYED), topic=topic, partition_count=count))
        publisher.begin()
        yield publisher, broker


def rows(count: int) -> list[bytes]:
    return [b"row %d" % n for n in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_rows_of_a_topic_with_one_partition_lie_in_one_range_and_in_their_order(count: int) -> None:
    """I3, I7: also those that no callback answers for."""
    with publishing(t=1) as (publisher, broker):
        for n, row in enumerate(rows(count)):
            publisher.send("t", b"%d" % n, row, HEADERS if n % 2 else None)

        assert publisher.delivered_ranges() == [PartitionRange("t", 0, 100, 100 + count, count)]

    assert [record[2:] for record in broker.records] == [
        (b"%d" % n, row, HEADERS if n % 2 else None) for n, row in enumerate(rows(count))
    ]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("before", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_rows_that_are_sent_together_lie_as_if_each_were_sent_by_itself(
    count: int, before: int, partitions: int
) -> None:
    """I3, I7: whatever went before and follows."""

    def sent(*, together: bool) -> list[object]:
        with publishing(t=partitions) as (publisher, broker):
            for n in range(before):
                publisher.send("t", b"%d" % n, b"before", HEADERS)
            pairs: list[tuple[bytes | None, bytes]] = [(b"%d" % n, row) for n, row in enumerate(rows(count))]
            if together:
                publisher.send_rows("t", pairs, b" end")
            else:
                for key, value in pairs:
                    publisher.send("t", key, value + b" end")
            publisher.send("t", b"1", b"after")
            return [publisher.delivered_ranges(), *broker.records]

    assert sent(together=True) == sent(together=False)


def test_row_that_the_queue_has_no_room_for_waits_among_others_too() -> None:
    """I3: in its place."""
    with publishing(t=1) as (publisher, broker):
        assert publisher._instance is not None
        send, calls = publisher._instance.produce, 0

        def produce(*row: object, **more: object) -> None:
            nonlocal calls
            calls += 1
            if calls % 2:
                raise BufferError
            send(*row, **more)

        publisher._instance.produce = produce
        publisher.send_rows("t", [(b"key", row) for row in rows(5)], b"")
        assert publisher.delivered_ranges() == [PartitionRange("t", 0, 100, 105, 5)]

    assert [record[3] for record in broker.records] == rows(5)


def test_rows_of_several_partitions_have_a_range_for_each() -> None:
    with publishing(t=3, u=1) as (publisher, _):
        for n, row in enumerate(rows(5)):
            publisher.send("t", bytes([n]), row)
        publisher.send("u", b"0", b"row")
        publisher.send("t", None, b"truncate", partition=2)

        assert publisher.delivered_ranges() == [
            *(PartitionRange("t", partition, 100, 102, 2) for partition in range(3)),
            PartitionRange("u", 0, 100, 101, 1),
        ]


@pytest.mark.parametrize("partitions", [1, 3])
def test_row_of_another_writer_between_ours_makes_the_batch_void(partitions: int) -> None:
    """I7: a cut would name its offset as one of ours."""
    with publishing(t=partitions) as (publisher, broker):
        broker.foreign_after = b"row 1"
        for row in rows(4):
            publisher.send("t", b"\0", row)
        with pytest.raises(BatchAborted):
            publisher.delivered_ranges()


@pytest.mark.parametrize(("partitions", "row"), [(1, b"row 0"), (1, b"row 3"), (3, b"row 2")])
def test_row_that_is_not_acknowledged_makes_the_batch_void(partitions: int, row: bytes) -> None:
    """I1"""
    with publishing(t=partitions) as (publisher, broker):
        broker.fails = row
        for each in rows(4):
            publisher.send("t", b"\0", each)
        with pytest.raises(BatchAborted):
            publisher.delivered_ranges()

    assert "commit" not in broker.clients[0].calls


@pytest.mark.parametrize(("partitions", "row"), [(1, b"row 0"), (1, b"row 3"), (3, b"row 2")])
def test_row_that_is_acknowledged_without_an_offset_makes_the_batch_void(partitions: int, row: bytes) -> None:
    """I1, confluent-kafka-go#921: the broker may not have it."""
    with publishing(t=partitions) as (publisher, broker):
        broker.lost = row
        for each in rows(4):
            publisher.send("t", b"\0", each)
        with pytest.raises(BatchAborted, match="acknowledged without an offset"):
            publisher.delivered_ranges()


@pytest.mark.parametrize("record", [b"progress", b"cut"])
def test_control_record_that_is_acknowledged_without_an_offset_is_not_committed(record: bytes) -> None:
    """I1, confluent-kafka-go#921: rows would be there without their progress."""
    with publishing(t=1) as (publisher, broker):
        broker.lost = record
        with pytest.raises(BatchAborted, match="acknowledged without an offset"):
            publisher.commit(CONTROL)

    assert "commit" not in broker.clients[0].calls


@pytest.mark.parametrize("record", [b"progress", b"cut"])
def test_control_record_that_is_not_acknowledged_makes_the_batch_void(record: bytes) -> None:
    """I1: nothing may be confirmed without them."""
    with publishing(t=1) as (publisher, broker):
        broker.fails = record
        with pytest.raises(BatchAborted):
            publisher.commit(CONTROL)


def test_control_records_come_last_in_their_order_to_the_first_partition_of_their_topics() -> None:
    """Readers look nowhere else."""
    with publishing(t=1, progress=3, cuts=3) as (publisher, broker):
        for row in rows(3):
            publisher.send("t", b"key", row)
        publisher.delivered_ranges()
        publisher.commit(CONTROL)

    assert [(record[0], record[1]) for record in broker.records] == [("t", 0)] * 3 + [("progress", 0), ("cuts", 0)]


def test_transaction_counts_its_own_rows_and_no_earlier_ones() -> None:
    with publishing(t=1) as (publisher, _):
        for first, count in ((100, 2), (102, 3)):
            for row in rows(count):
                publisher.send("t", b"key", row)
            assert publisher.delivered_ranges() == [PartitionRange("t", 0, first, first + count, count)]
            publisher.commit(CONTROL)
            publisher.begin()


@pytest.mark.parametrize("partitions", [1, 3])
def test_topic_that_was_given_more_partitions_is_noticed_before_the_commit(partitions: int) -> None:
    """I3: the client spreads keys over a new one as soon as it hears of it."""
    with publishing(t=partitions) as (publisher, broker):
        broker.partition_counts["t"] = partitions + 1
        for n in range(4):
            publisher.send("t", b"%d" % n, b"row")
        with pytest.raises(BatchAborted, match=f"rows were spread over {partitions}"):
            publisher.delivered_ranges()

    assert "commit" not in broker.clients[0].calls


def test_new_partition_that_got_no_row_yet_is_noticed_too() -> None:
    """I3: keys may have moved between the old ones."""
    with publishing(t=3) as (publisher, broker):
        publisher.send("t", b"\0", b"row")
        broker.partition_counts["t"] = 4
        with pytest.raises(BatchAborted, match="rows were spread over 3"):
            publisher.delivered_ranges()


def test_instance_is_not_used_again_after_an_abort() -> None:
    """A late EndTxn of the old one could end the next transaction."""
    with publishing(t=1) as (publisher, broker):
        publisher.abort()
        publisher.begin()

    assert [client.calls for client in broker.clients] == [["init", "begin", "abort"], ["init", "begin"]]


def test_commit_whose_outcome_nobody_knows_makes_the_batch_void() -> None:
    """I1, I4: progress is read again."""
    with publishing(t=1) as (publisher, broker):
        broker.commit_errors = [KafkaError._STATE]
        with pytest.raises(BatchAborted):
            publisher.commit(CONTROL)
        publisher.begin()

    assert len(broker.clients) == 2


def test_commit_that_takes_longer_than_a_slice_is_the_same_commit() -> None:
    with publishing(t=1) as (publisher, broker):
        broker.commit_errors = [KafkaError._TIMED_OUT] * 3
        publisher.commit(CONTROL)

    assert broker.clients[0].calls == ["init", "begin", "commit"]
    assert [record[3] for record in broker.records] == [b"progress", b"cut"]


@pytest.mark.parametrize(("commit_s", "instances"), [(4.9, 1), (5.1, 2)])
def test_instance_that_committed_suspiciously_slowly_is_replaced(
    commit_s: float, instances: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client may have sent an EndTxn twice."""
    now_s = [100.0]
    for module in (kafka_transaction, publishers):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    with publishing(t=1) as (publisher, broker):
        broker.on_commit = lambda: now_s.__setitem__(0, now_s[0] + commit_s)
        publisher.commit(CONTROL)
        publisher.begin()

    assert len(broker.clients) == instances


def test_rows_that_begin_below_those_before_them_are_not_committed() -> None:
    """I7: offsets of a topic that was made anew begin at 0 again, and its readers would lack what was in it."""
    with publishing(t=1) as (publisher, broker):
        publisher.send("t", b"0", b"before")
        publisher.delivered_ranges()
        publisher.commit(CONTROL)
        publisher.begin()
        broker.ends["t", 0] = 0
        publisher.send("t", b"0", b"after")
        with pytest.raises(BatchAborted, match="made anew"):
            publisher.delivered_ranges()


def test_topics_are_told_before_the_first_commit_of_rows_in_each_partition() -> None:
    """I7: where nothing was written yet, offsets tell nothing."""
    told: list[set[str]] = []
    with publishing(t=2, u=1) as (publisher, _):
        publisher.on_first_rows = told.append
        for key in (b"\0", b"\0", b"\1"):
            publisher.send("t", key, b"row")
            publisher.delivered_ranges()
            publisher.commit(CONTROL)
            publisher.begin()
        publisher.send("u", b"0", b"row")
        publisher.delivered_ranges()

    assert told == [{"t"}, {"t"}, {"u"}]
