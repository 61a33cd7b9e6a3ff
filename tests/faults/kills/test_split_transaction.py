"""A Postgres transaction larger than a Kafka transaction may be: cut in parts, resumed inside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Producer

from tests.faults.followed import copy_all_again
from tests.fix_producer import ProducerUnderTest
from walbridge.schemas.control.progress_record import encode_progress
from walbridge.schemas.errors import COPY_ALL
from walbridge.schemas.topics import progress_topic

pytestmark = pytest.mark.fault
SMALL = {"WALBRIDGE_PRODUCER__BATCH_ROWS_MAX": "30"}


def _half_published(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u")
    producer.start_streaming().stop()
    producer.database.execute("INSERT INTO u VALUES (0)")
    producer.database.execute(
        "INSERT INTO u VALUES (1); INSERT INTO t SELECT i, 'v' FROM generate_series(1, 100) i;"
        "UPDATE t SET id = id + 1000 WHERE id < 10; INSERT INTO u VALUES (2)"
    )
    producer.database.execute("INSERT INTO u VALUES (3)")
    running = producer.start("produce:split:3", SMALL)
    assert running.exit_code() == 137


def test_transaction_is_resumed_inside_and_only_its_last_cut_is_complete(producer: ProducerUnderTest) -> None:
    _half_published(producer)
    with producer.topics() as topics:
        progress = topics.progress()
        *_, last = topics.cuts()
    assert progress is not None
    assert progress.split is not None
    assert not last.complete
    assert producer.confirmed_lsn() == last.previous_end_lsn == progress.floor
    producer.start_streaming(environ=SMALL)
    producer.check_equal()
    with producer.topics() as topics:
        cuts = topics.cuts()
        places = [
            (number, event.position.ordinal)
            for number, cut in enumerate(cuts)
            for event in topics.events(cut)
            if event.position.commit_lsn == progress.split.commit_lsn
        ]
    first, last_part = places[0][0], places[-1][0]
    assert [ordinal for _, ordinal in places] == list(range(1 + 100 + 9 * 2 + 1))
    assert [cut.complete for cut in cuts[first:last_part]] == [False] * (last_part - first)
    assert cuts[last_part].complete or cuts[last_part + 1].complete


@pytest.mark.variant(of="test_transaction_is_resumed_inside_and_only_its_last_cut_is_complete")
def test_transaction_that_ends_with_a_full_batch_completes_without_waiting(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    producer.settings["producer"] = {"idle_cut_interval_ms": 600_000}
    producer.start_streaming(environ=SMALL)
    producer.database.execute("INSERT INTO t SELECT generate_series(1, 60)")
    with producer.topics() as topics:
        cut = topics.wait_for_cut(lambda cut: cut.complete and cut.transactions == 1, "that ends the transaction")
        assert cut.commit_lsn is not None
        assert sum(part.records for each in topics.cuts()[1:] for part in each.partitions) == 60


def test_other_publication_is_followed_once_no_transaction_is_half_published(producer: ProducerUnderTest) -> None:
    """I4: what is published of it says how the rest of it must read."""
    _half_published(producer)
    producer.publish("t", name="other")
    producer.settings["postgres"] = {"publication": "other"}
    running = producer.start_streaming(environ=SMALL)
    running.wait_for_log("other publications are named, and followed soon")
    running.wait_for_log("other publications are followed from now on")
    running.wait_for_log("table is copied")
    producer.database.execute("INSERT INTO u VALUES (4); DELETE FROM t WHERE id = 1001")
    with producer.topics() as topics:
        producer.caught_up(topics)
        replayed = topics.replay()
    assert sorted(row["id"] for row in replayed.rows("public", "u")) == [0, 1, 2, 3]
    ids = [each for (each,) in producer.database.rows("SELECT id FROM t ORDER BY 1")]
    assert sorted(row["id"] for row in replayed.rows("public", "t")) == ids


def test_half_published_transaction_that_reads_otherwise_is_refused(producer: ProducerUnderTest) -> None:
    _half_published(producer)
    with producer.topics() as topics:
        progress = topics.progress()
    assert progress is not None
    assert progress.split is not None
    altered = replace(progress, split=replace(progress.split, hash="0" * 32))
    writer = Producer({"bootstrap.servers": producer.kafka.bootstrap_servers})
    writer.produce(progress_topic(producer.name), encode_progress(altered), altered.key)
    assert writer.flush(60) == 0
    words = producer.refusal()
    assert "reads otherwise than when its first" in words
    assert f"if the publication was changed meanwhile, change it back; or {COPY_ALL}" in words
    copy_all_again(producer)
