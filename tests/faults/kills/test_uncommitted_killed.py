"""Killed while transactions wait that are not committed: nothing lost, nothing twice, nothing too early."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.faults.kill_points import SPOOL, SPOOL_PREPARED
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak
from tests.memory import Watched
from walbridge.schemas.control.cut import Cut

pytestmark = pytest.mark.fault
ROWS, RSS_MB_MAX = 1_000_000, 200
ROWS_IN_EACH_RUN, RSS_MB_MAX_IN_EACH_RUN = 250_000, 120


def many(first: int, count: int = 150) -> str:
    """More than the server keeps to itself before the commit."""
    return f"INSERT INTO t SELECT n, repeat('v', 600) FROM generate_series({first}, {first + count - 1}) n"


@pytest.fixture
def streaming(producer: ProducerUnderTest) -> Iterator[ProducerUnderTest]:
    """A pipeline whose server streams whatever exceeds 64 kB."""
    database = producer.database
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    producer.publish("t")
    producer.settings["producer"] = {"batch_rows_max": 50, "spool_dir": str(producer.folder)}
    yield producer
    producer.kill_all()
    left = list(producer.folder.glob("walbridge-spool-*"))
    assert len(left) <= 2, "what killed producers leave behind is removed by the next one"


def test_streams_open_or_half_replayed_at_death_lose_and_repeat_nothing(streaming: ProducerUnderTest) -> None:
    """I1, I4: in a block, before the replay, inside the split transaction that the replay makes."""
    database = streaming.database
    streaming.start_streaming().stop()
    with database.connect() as first, database.connect() as second:
        first.execute("BEGIN")
        second.execute("BEGIN")
        first.execute(many(1000).encode())
        second.execute(many(5000).encode())
        first.execute("SAVEPOINT s")
        first.execute(many(2000).encode())
        first.execute("ROLLBACK TO s")
        database.execute("INSERT INTO t VALUES (1, 'between')")
        streaming.run_until_killed(SPOOL[0])
        first.execute(many(3000).encode())
        first.execute("COMMIT")
        for point in SPOOL[1:]:
            streaming.run_until_killed(point)
        with streaming.topics() as topics:
            progress = topics.progress()
            assert progress is not None
            assert progress.split is not None
        second.execute("ROLLBACK")
    streaming.start_streaming()
    streaming.check_equal()


def test_deaths_between_prepare_and_its_end_lose_and_repeat_nothing(streaming: ProducerUnderTest) -> None:
    """I1: after a prepare, after a Stream Prepare, with later commits confirmed in between, in the replay."""
    database = streaming.database
    streaming.settings["postgres"] = {"two_phase": True}
    streaming.start_streaming().stop()
    for gid, statement in (
        ("small", "INSERT INTO t VALUES (1, 'small'), (2, 'small')"),
        ("large", many(1000)),
        ("void", many(2000)),
    ):
        with database.connect() as connection:
            for each in ("BEGIN", statement, f"PREPARE TRANSACTION '{gid}'"):
                connection.execute(each.encode())
    for point in SPOOL_PREPARED:
        streaming.run_until_killed(point)
    running = streaming.start_streaming()
    database.execute("INSERT INTO t VALUES (3, 'later')")
    with streaming.topics() as topics:
        cut = streaming.caught_up(topics)
        assert streaming.confirmed_lsn() < cut.end_lsn
        assert published_ids(topics.cuts()) == 1
    running.kill()
    database.execute("COMMIT PREPARED 'large'")
    streaming.run_until_killed("produce:split:2")
    database.execute("ROLLBACK PREPARED 'void'")
    streaming.start_streaming()
    streaming.check_equal()
    database.execute("COMMIT PREPARED 'small'")
    streaming.check_equal()


def published_ids(cuts: list[Cut]) -> int:
    """Rows that came from the stream."""
    return sum(table.row_count for cut in cuts if cut.commit_lsn is not None for table in cut.tables)


@pytest.mark.variant(of="test_stop_inside_a_huge_transaction_leaves_it_half_published")
def test_stop_inside_a_replay_comes_at_a_batch_boundary_and_the_rest_later(streaming: ProducerUnderTest) -> None:
    """I4: a replay reaches one every few rows, as any huge transaction does."""
    streaming.start_streaming().stop()
    streaming.database.execute(many(1000, 5000))
    streaming.settings["producer"] |= {"batch_rows_max": 5}  # a thousand boundaries: it is not through before the stop
    running = streaming.start()
    running.wait_for_log("complete=false")
    running.stop()
    with streaming.topics() as topics:
        progress = topics.progress()
        assert progress is not None
        assert progress.split is not None
        assert 0 < progress.split.messages_done < 5000
    streaming.settings["producer"] |= {"batch_rows_max": 50}
    streaming.start_streaming()
    streaming.check_equal()


def test_spool_that_is_full_stops_the_producer_and_a_larger_one_loses_nothing(streaming: ProducerUnderTest) -> None:
    """I7, I9"""
    streaming.settings["producer"] |= {"spool_bytes_max": 2**20}
    streaming.start_streaming().stop()
    streaming.database.execute(many(1000, 5000))
    words = streaming.refusal()
    assert "[producer] spool_bytes_max is 1,048,576" in words
    assert "raise [producer] spool_bytes_max" in words
    streaming.settings["producer"] |= {"spool_bytes_max": 2**24, "batch_rows_max": 20_000}
    streaming.start_streaming()
    streaming.check_equal()


@pytest.mark.parametrize(
    ("setting", "rows", "rss_mb_max"),
    [
        ("on", ROWS_IN_EACH_RUN, RSS_MB_MAX_IN_EACH_RUN),
        in_soak("on", ROWS, RSS_MB_MAX),
        in_soak("off", ROWS, RSS_MB_MAX),
    ],
)
def test_many_rows_in_one_transaction_pass_in_bounded_memory(
    producer: ProducerUnderTest, setting: str, rows: int, rss_mb_max: int
) -> None:
    """I9; killed in the middle, I4."""
    producer.database.execute("CREATE TABLE m (id int PRIMARY KEY)")
    producer.publish("m")
    producer.settings["postgres"] = {"streaming": setting}
    producer.settings["producer"] = {"spool_dir": str(producer.folder), "idle_cut_interval_ms": 50}
    producer.as_command = True  # its memory is measured
    producer.log_level = "info"
    producer.start_streaming().stop()
    producer.database.execute(f"INSERT INTO m SELECT generate_series(1, {rows})")
    if setting == "on":
        running = producer.start(f"produce:split:{rows // 50_000}")  # two fifths of its batches
        assert running.exit_code(300) == 137
    running = producer.start_streaming()
    watched = Watched(running.process.pid)
    with producer.topics() as topics:
        producer.caught_up(topics, 300)
        cuts = topics.cuts()
        assert [cut.complete for cut in cuts if cut.transactions] == [True]
        *_, (part,) = (cut.partitions for cut in cuts if cut.partitions)
        keys = keys_of(producer, part.topic, part.end_offset)
    print(f"{(peak_mb := watched.stop()):.0f} MB")
    assert peak_mb < rss_mb_max
    assert len(keys) == len(set(keys)) == rows


def keys_of(producer: ProducerUnderTest, topic: str, end_offset: int) -> list[bytes]:
    """Of every record but the copy's, unparsed: a million of them."""
    consumer = Consumer(
        {
            "bootstrap.servers": producer.kafka.bootstrap_servers,
            "group.id": "tests",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        keys: list[bytes] = []
        offset, deadline_s = -1, time.monotonic() + 60
        while offset < end_offset - 1:
            messages = consumer.consume(10_000, 0.2)
            assert messages or time.monotonic() < deadline_s, f"{topic} ends at {offset} before {end_offset}"
            if messages:
                keys += [key for each in messages if (key := each.key()) is not None]
                offset, deadline_s = messages[-1].offset() or 0, time.monotonic() + 60
        return keys
    finally:
        consumer.close()
