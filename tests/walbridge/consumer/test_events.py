"""``walbridge.consumer`` on real topics: what it returns, where it goes on, and when it stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance import expected, scenario
from tests.conformance.applied import Tables
from tests.faults.followed import settings_of
from tests.faults.topic_life import TopicLife
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak, in_variants
from tests.wait import wait_until
from walbridge.consumer import Event, Operation, OperatorError, cut_reader, events, merged_ranges, topic_stream
from walbridge.consumer.client import TopicIds
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.topics import data_topic
from walbridge.tables.copy import copy
from walbridge.tables.read_tables import read_tables

WAIT_S = 30.0
LITTLE = {"max.partition.fetch.bytes": 1024, "queued.min.messages": 1, "fetch.queue.backoff.ms": 10}
"""For what is unread not to be here yet either; without the last the client fetches once in a second."""


def kafka(producer: ProducerUnderTest, group: str = "reader") -> dict[str, str]:
    return {"bootstrap.servers": producer.kafka.bootstrap_servers, "group.id": f"{producer.name}-{group}"}


def place(event: Event) -> PartitionId:
    return event.topic, event.partition


@contextmanager
def following(producer: ProducerUnderTest) -> Iterator[None]:
    """Two tables, of which one has rows that were copied."""
    producer.database.execute(
        "CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1, 1)"
    )
    producer.publish("a", "b")
    producer.settings["producer"] = {"batch_rows_max": 10}
    running = producer.start_streaming()
    yield
    running.stop()


def caught_up(producer: ProducerUnderTest) -> None:
    with producer.topics() as topics:
        producer.caught_up(topics)


def test_whole_transactions_of_everything_that_can_happen_end_in_the_tables_of_the_source(
    producer: ProducerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8, in both ways to read; and in a buffer of one byte, in which partitions wait for each other (I9)."""
    scenario.play(producer)
    wanted = expected.tables(producer.database, scenario.NAMES)

    lines = []
    for ahead_bytes in (merged_ranges.AHEAD_BYTES, 1):
        monkeypatch.setattr(merged_ranges, "AHEAD_BYTES", ahead_bytes)
        tables, read = Tables(), []
        with events(producer.name, scenario.NAMES, kafka(producer), transactions=True, follow=False) as stream:
            for transactions in stream:
                read.append([expected.event_line(event) for event in _applied(tables, transactions)])
        assert tables.texts() == wanted
        lines.append([line for group in read for line in group])
    assert lines[0] == lines[1]

    with events(producer.name, scenario.NAMES, kafka(producer), follow=False) as by_partition:
        single = list(by_partition)
    of_rows = {Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.COPY}
    of_tables = [line for line in lines[0] if line["operation"] in of_rows]
    left = {line["topic"] for line in of_tables} - {event.topic for event in single}
    assert left == {data_topic(producer.name, "public", "stays")}  # the copy in its next topic has it all
    assert _by_place(line for line in of_tables if line["topic"] not in left) == _by_place(
        expected.event_line(event) for event in single if event.operation in of_rows
    )
    assert by_partition.offsets.keys() >= {place(event) for event in single}


def _applied(tables: Tables, found: Any) -> Iterator[Event]:
    for event in found:
        tables.apply([event])
        yield event


def _by_place(lines: Any) -> dict[Any, Any]:
    return {(line["topic"], line["partition"], line["offset"]): line for line in lines}


def test_reader_goes_on_behind_what_it_committed(producer: ProducerUnderTest) -> None:
    with following(producer):
        producer.database.execute("INSERT INTO a VALUES (2, 2)")
        caught_up(producer)
        with events(producer.name, ["a"], kafka(producer), follow=False) as stream:
            seen = [(event.operation, event.key) for event in stream]
            stream.commit()
            offsets = stream.offsets
        producer.database.execute("INSERT INTO a VALUES (3, 3)")
        caught_up(producer)
        with events(producer.name, ["a"], kafka(producer), follow=False) as stream:
            later = [(event.operation, event.key) for event in stream]
        with events(producer.name, ["public.a"], kafka(producer, "other"), start=offsets, follow=False) as stream:
            started = [(event.operation, event.key) for event in stream]

    assert seen == [("truncate", None), ("copy", {"id": 1}), ("insert", {"id": 2})]
    assert later == started == [("insert", {"id": 3})]


def test_transaction_that_was_not_taken_to_its_end_is_not_committed(producer: ProducerUnderTest) -> None:
    with following(producer):
        producer.database.execute("INSERT INTO a SELECT i, i FROM generate_series(2, 40) i")
        caught_up(producer)
        with events(producer.name, ["a"], kafka(producer), transactions=True, follow=False) as stream:
            first = next(iter(stream))
            next(iter(first))
            stream.commit()
            before = stream.offsets
        with events(producer.name, ["a"], kafka(producer), transactions=True, follow=False) as stream:
            rows = [event.key for transactions in stream for event in transactions]
            stream.commit()
        with events(producer.name, ["a"], kafka(producer), transactions=True, follow=False) as stream:
            assert list(stream) == []
            assert stream.offsets != before

    assert rows == [None, *({"id": number} for number in range(1, 41))]


def test_events_of_the_past_are_refused_once_later_ones_were_asked_for(producer: ProducerUnderTest) -> None:
    """They would be read from where the later ones are."""
    with following(producer):
        producer.database.execute("ALTER PUBLICATION walbridge DROP TABLE b")
        caught_up(producer)
        with events(producer.name, ["a"], kafka(producer), transactions=True) as stream:
            first = stream.poll(WAIT_S)
            assert first is not None
            taken = iter(first)
            next(taken)
            producer.database.execute("INSERT INTO a VALUES (2, 2)")
            assert stream.poll(WAIT_S) is not None
            with pytest.raises(RuntimeError, match="of the past"):
                next(taken)


def test_reader_waits_for_what_comes_and_follows_a_table_that_is_renamed(producer: ProducerUnderTest) -> None:
    with following(producer), events(producer.name, ["b"], kafka(producer)) as stream:
        assert stream.poll(WAIT_S) is not None
        assert stream.poll(0) is None
        producer.database.execute("ALTER TABLE b RENAME TO c; INSERT INTO c VALUES (5)")
        event = stream.poll(WAIT_S)

    assert event is not None
    assert (event.table, event.after) == ("public.c", {"id": 5})


@pytest.mark.variant(of="test_topic_that_is_gone_is_told_and_a_reader_that_begins_anew_has_the_copy_in_the_new_one")
def test_table_that_gets_another_topic_is_followed_there_behind_its_last_event_in_the_one_before(
    producer: ProducerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3: an older event behind a newer one would undo it."""
    monkeypatch.setattr(topic_stream, "REFRESH_S", 0.2)
    with following(producer):
        producer.database.execute("INSERT INTO a SELECT i, i FROM generate_series(10, 400) i")
        caught_up(producer)
    producer.settings["topics"] = {"partitions": 2}
    with events(producer.name, ["a"], kafka(producer, "begun")) as begun:
        early = [begun.poll(WAIT_S) for _ in range(5)]
        begun.commit()
    with events(producer.name, ["a"], kafka(producer) | LITTLE) as stream:
        running = producer.start_streaming()
        running.wait_for_log("table is copied")
        producer.database.execute("INSERT INTO a VALUES (7, 7)")
        found: list[Event] = []
        # Up to the last one, before or behind the end of the copy in the other partition.
        while len(found) < 1 + 1 + 391 + 2 * 2 + 392 + 1:
            event = stream.poll(WAIT_S)
            assert event is not None, len(found)
            found.append(event)
    caught_up(producer)
    running.stop()

    topics = [topic for topic, _ in groupby(event.topic for event in found)]
    assert topics == [f"{producer.name}.public.a", f"{producer.name}.public.a_2"]
    assert [event.operation for event in found if event.key == {"id": 7}] == [Operation.INSERT]
    with events(producer.name, ["a"], kafka(producer, "begun"), follow=False) as again:
        rest = list(again)
    assert [topic for topic, _ in groupby(event.topic for event in rest)] == topics
    places = [(*place(event), event.offset) for event in [*early, *rest] if event is not None]
    assert sorted(places) == sorted((*place(event), event.offset) for event in found)
    with events(producer.name, ["a"], kafka(producer), transactions=True, follow=False) as whole:
        read = [(event.operation, event.topic[-2:]) for transactions in whole for event in transactions]
    assert [each for each, _ in groupby(read)] == [
        (Operation.TRUNCATE, ".a"),
        (Operation.COPY, ".a"),
        (Operation.INSERT, ".a"),
        (Operation.COPY_BEGIN, "_2"),
        (Operation.COPY, "_2"),
        (Operation.COPY_END, "_2"),
        (Operation.INSERT, "_2"),
    ]


@pytest.mark.parametrize("transactions", [False, in_soak(True)])
def test_records_that_are_gone_before_they_were_read_stop_the_reader(
    producer: ProducerUnderTest, transactions: bool
) -> None:
    """I7"""
    with following(producer):
        _read_and_commit(producer, transactions=transactions)
        producer.database.execute("INSERT INTO a VALUES (2, 2); INSERT INTO a VALUES (3, 3)")
        caught_up(producer)
        _delete_records(producer, f"{producer.name}.public.a")
        with pytest.raises(OperatorError, match="are gone") as told:
            _read_and_commit(producer, transactions=transactions)
        assert told.value.remedy == (
            "begin anew, with an empty target and another group.id; walbridge copy TABLE brings its rows again"
        )
        assert copy(settings_of(producer), ["a"], wait=True, say=print) == 0
        anew = kafka(producer) | {"group.id": f"{producer.name}-anew"}
        of = {"transactions": True} if transactions else {}
        with events(producer.name, ["a"], anew, follow=False, **of) as stream:  # type: ignore[call-overload]
            found = [event for each in stream for event in (each if transactions else [each])]
        assert {event.key["id"] for event in found if event.key is not None} == {1, 2, 3}


@pytest.mark.parametrize("transactions", [in_variants(False), True])
def test_reader_that_has_read_all_goes_on_after_a_time_in_which_nothing_came_and_all_went(
    producer: ProducerUnderTest, transactions: bool
) -> None:
    """Behind the last record is the marker of its Kafka transaction, which goes with it."""
    with following(producer):
        caught_up(producer)
    _read_and_commit(producer, transactions=transactions)
    for topic in ("public.a", "cuts"):
        _delete_records(producer, f"{producer.name}.{topic}")
    of = {"transactions": True} if transactions else {}
    with events(producer.name, ["a"], kafka(producer), follow=False, **of) as stream:  # type: ignore[call-overload]
        assert list(stream) == []


def test_topic_that_is_deleted_stops_who_has_not_read_it_to_its_end_and_nobody_else(
    producer: ProducerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7; and who begins with whole transactions passes what cuts name of it, though one of its name is there."""
    monkeypatch.setattr(topic_stream, "REFRESH_S", 0.2)
    topic = f"{producer.name}.public.a"
    with following(producer):
        producer.database.execute("INSERT INTO a SELECT i, i FROM generate_series(10, 400) i")
        caught_up(producer)
    with (
        events(producer.name, ["a", "b"], kafka(producer, "all")) as whole,
        events(producer.name, ["a"], kafka(producer) | LITTLE, follow=False) as lagging,
        events(producer.name, ["a"], kafka(producer) | LITTLE, follow=False) as reading_on,
    ):
        assert sum(whole.poll(WAIT_S) is not None for _ in range(1 + 1 + 391 + 1)) == 394
        assert whole.poll(1) is None
        assert lagging.poll(WAIT_S) is not None
        assert reading_on.poll(WAIT_S) is not None
        TopicLife(producer).remake(topic)
        wait_until(lambda: whole.poll(0.1) is None and topic not in whole.topic_ids, "the topic to be left")
        assert {name for name, _ in whole.offsets} == {f"{producer.name}.public.b"}
        whole.commit()
        with pytest.raises(OperatorError, match=f"{topic} was deleted before it was read to its end"):
            list(lagging)
        monkeypatch.setattr(topic_stream, "REFRESH_S", 1000)  # the offset is not there, before anything else tells
        with pytest.raises(OperatorError, match=f"{topic} was deleted before it was read to its end"):
            list(reading_on)

    running = producer.start_streaming()
    running.wait_for_log("table is copied")
    caught_up(producer)
    running.stop()
    with events(producer.name, ["a"], kafka(producer), transactions=True, follow=False) as stream:
        rows = [event.topic for transactions in stream for event in transactions]
    assert rows == [f"{topic}_2"] * (1 + 392 + 1)


@pytest.mark.parametrize("transactions", [False, in_soak(True)])
def test_kept_offsets_of_a_topic_that_was_made_again_are_refused(
    producer: ProducerUnderTest, transactions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7: they are somewhere in the middle of other records."""
    with following(producer):
        caught_up(producer)
    of = {"transactions": True} if transactions else {}
    topic = f"{producer.name}.cuts" if transactions else f"{producer.name}.public.a"
    with events(producer.name, ["a"], kafka(producer), **of) as stream:  # type: ignore[call-overload]
        assert stream.poll(WAIT_S) is not None
        kept: dict[str, Any] = {"start": stream.offsets, "topic_ids": stream.topic_ids}
        assert kept["topic_ids"].keys() == {topic}
        with events(producer.name, ["a"], kafka(producer), follow=False, **of, **kept):  # type: ignore[call-overload]
            pass
        with pytest.raises(OperatorError, match="neither start nor the group"):
            events(producer.name, ["a"], kafka(producer), topic_ids=kept["topic_ids"], **of)  # type: ignore[call-overload]

        admin = AdminClient({"bootstrap.servers": producer.kafka.bootstrap_servers})
        (gone,) = admin.delete_topics([topic]).values()
        gone.result()
        wait_until(lambda: _is_made(admin, topic), "the topic to be made again")
        known = (None, kept["topic_ids"][topic])  # the broker may tell of the one before for a moment, or of none
        wait_until(lambda: TopicIds(kafka(producer)).of([topic]).get(topic) not in known, "the broker to know of it")
        assert stream.topic_ids == kept["topic_ids"], "they are of the topic that was read, not of that which is there"
        if transactions:
            monkeypatch.setattr(cut_reader, "REFRESH_S", 0.0)
            with pytest.raises(OperatorError, match=f"topic {topic} was deleted|{topic}.* are gone"):
                stream.poll(WAIT_S)
    with pytest.raises(OperatorError, match=f"topic {topic} was deleted and made again since"):
        events(producer.name, ["a"], kafka(producer), **of, **kept)  # type: ignore[call-overload]
    with events(producer.name, ["a"], kafka(producer), follow=False, **of) as anew:  # type: ignore[call-overload]
        assert list(anew) == []
    producer.deleted_topics.add(topic)


def _is_made(admin: AdminClient, topic: str) -> bool:
    """Also while the one before it is being deleted."""
    (made,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    return made.exception() is None


def _read_and_commit(producer: ProducerUnderTest, *, transactions: bool) -> None:
    if not transactions:
        with events(producer.name, ["a"], kafka(producer), follow=False) as single:
            assert list(single)
            single.commit()
        return
    with events(producer.name, ["a"], kafka(producer), transactions=True, follow=False) as whole:
        assert [event for found in whole for event in found]
        whole.commit()


def test_topic_that_is_gone_is_told_and_a_reader_that_begins_anew_has_the_copy_in_the_new_one(
    producer: ProducerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7"""
    monkeypatch.setattr(merged_ranges, "SILENCE_S", 2.0)
    with following(producer):
        _read_and_commit(producer, transactions=True)
        producer.database.execute("INSERT INTO a VALUES (2, 2)")
        caught_up(producer)
        topic = f"{producer.name}.public.a"
        TopicLife(producer).delete(topic)
        settings = settings_of(producer)
        tables = lambda: {each.name: each.progress for each in read_tables(settings, needs_postgres=True).tables}  # noqa: E731
        wait_until(lambda: (now := tables()["public.a"]) is not None and now.topic == f"{topic}_2", "another topic")
        wait_until(lambda: (now := tables()["public.a"]) is not None and now.state == "current", "the copy")
        with pytest.raises(OperatorError, match=f"topic {topic} is gone, and with it records that cuts name") as told:
            _read_and_commit(producer, transactions=True)
        assert told.value.remedy.endswith("begin anew with an empty target and another group.id")
        with events(producer.name, ["a"], kafka(producer, "anew"), transactions=True, follow=False) as stream:
            found = [event.key for whole in stream for event in whole if event.key is not None]

    assert found == [{"id": 1}, {"id": 2}]


def test_new_reader_begins_with_what_is_kept(producer: ProducerUnderTest) -> None:
    """Cuts are kept longer than the records that they name."""
    with following(producer):
        caught_up(producer)
        _delete_records(producer, f"{producer.name}.public.a")
        producer.database.execute("INSERT INTO a VALUES (2, 2)")
        caught_up(producer)
        with events(producer.name, ["a"], kafka(producer), transactions=True, follow=False) as stream:
            rows = [event.key for transactions in stream for event in transactions]

    assert rows == [{"id": 2}]


def _delete_records(producer: ProducerUnderTest, topic: str) -> None:
    """As retention does: all that is there now."""
    admin = AdminClient({"bootstrap.servers": producer.kafka.bootstrap_servers})
    (done,) = admin.delete_records([TopicPartition(topic, 0, -1)]).values()
    done.result()


def test_what_cannot_be_read_is_refused_in_words(producer: ProducerUnderTest) -> None:
    with following(producer):
        with pytest.raises(OperatorError, match=r"no table public\.none") as unknown:
            events(producer.name, ["none"], kafka(producer))
        assert "public.a, public.b" in unknown.value.remedy
        with events(producer.name, unknown.value.remedy.partition(": ")[2].split(", "), kafka(producer), follow=False):
            pass
        with pytest.raises(OperatorError, match="no pipeline nobody") as nobody:
            events("nobody", ["a"], kafka(producer))
        assert nobody.value.remedy == "name the pipeline as walbridge.toml does, and its brokers"
        with pytest.raises(OperatorError, match=r"isolation\.level"):
            events(producer.name, ["a"], kafka(producer) | {"isolation.level": "read_uncommitted"})
        with pytest.raises(OperatorError, match="not accepted") as refused:
            events(producer.name, ["a"], kafka(producer) | {"security.protocol": "a secret"})
        assert "a secret" not in str(refused.value)
