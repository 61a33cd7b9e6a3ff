"""A topic of one table that is gone, was made anew, or has other partitions: the table gets another one (I3, I7, I8).

Its next copy goes there, all others flow, and nothing is ever committed to a topic that somebody else made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.log_tail import cut_short
from tests.faults.topic_life import TopicLife
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, Running, refusal_of
from tests.in_soak import in_soak, others_in_variants
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.topics import data_topic

pytestmark = pytest.mark.fault


@pytest.fixture
def following(producer: ProducerUnderTest) -> ProducerUnderTest:
    """A pipeline that follows ``t`` and ``u``, two partitions each."""
    producer.database.execute(
        "CREATE TABLE t (id serial PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v text);"
        "INSERT INTO t (v) VALUES (0); INSERT INTO u SELECT i, 'v' || i FROM generate_series(1, 20) i"
    )
    producer.publish("t", "u")
    producer.settings["topics"] = {"partitions": 2}
    return producer


@pytest.fixture
def life(following: ProducerUnderTest) -> TopicLife:
    return TopicLife(following)


def topic(producer: ProducerUnderTest, name: str = "u") -> str:
    return data_topic(producer.name, "public", name)


def settle(producer: ProducerUnderTest) -> Running:
    """Both tables have streamed."""
    running = producer.start_streaming()
    write(producer, 100)
    producer.check_equal()
    return running


def write(producer: ProducerUnderTest, number: int) -> None:
    producer.database.execute(
        f"INSERT INTO u SELECT i, 'at {number}' FROM generate_series({number}, {number + 9}) i;"
        f"UPDATE u SET v = 'changed at {number}' WHERE id < 5; INSERT INTO t (v) VALUES ({number})"
    )


def table(producer: ProducerUnderTest, name: str) -> TableProgress:
    with producer.topics() as topics:
        producer.caught_up(topics)
        progress = topics.progress()
    assert progress is not None
    return progress.tables[producer.database.value("SELECT %s::regclass::oid::int", (name,))]


def barriers_of(producer: ProducerUnderTest, topic_name: str) -> list[str]:
    with producer.topics() as topics:
        kinds = [b.kind for c in topics.cuts() for t in c.tables for b in t.barriers if t.topic == topic_name]
    return [kind for kind in kinds if kind != "shape"]


def check_moved(producer: ProducerUnderTest, running: Running, *, copies: int = 1) -> None:
    """The table went into another topic and all is equal; the other one never ceased to be current."""
    wait_until(lambda: running.log.count("table is copied") >= copies, "the copy")
    write(producer, 500)
    producer.check_equal()
    moved, other = table(producer, "u"), table(producer, "t")
    assert (moved.state, moved.topic) == ("current", f"{topic(producer)}_2")
    assert barriers_of(producer, f"{topic(producer)}_2") == ["copy_begin", "copy_end"]
    assert barriers_of(producer, topic(producer)) == ["copy_begin", "copy_end", "dropped"]
    assert (other.state, barriers_of(producer, topic(producer, "t"))) == ("current", ["copy_begin", "copy_end"])
    assert running.process.poll() is None


LOSSES: dict[str, tuple[Callable[[TopicLife, str], None], str]] = {
    "deleted": (lambda life, name: life.delete(name), "is gone, and with it the events"),
    "made anew": (lambda life, name: life.remake(name, 2), "was deleted and made again"),
    "made anew with other partitions": (lambda life, name: life.remake(name, 3), "was deleted and made again"),
    "grown": (lambda life, name: life.grow(name, 3), "has 3 partitions, its rows were spread over 2"),
}


def losses(*in_each_run: str) -> pytest.MarkDecorator:
    """The others in ``make variants``."""
    return pytest.mark.parametrize("loss", others_in_variants(LOSSES, in_each_run))


@pytest.mark.variant(of="test_topic_that_is_lost_under_the_producer_is_another_one_and_nothing_is_written_to_it")
@losses("made anew with other partitions")
def test_topic_that_was_lost_while_nobody_wrote_is_another_one_after_the_start(
    following: ProducerUnderTest, life: TopicLife, loss: str
) -> None:
    lose, why = LOSSES[loss]
    settle(following).stop()
    lose(life, topic(following))
    count = life.count(topic(following))
    write(following, 200)
    running = following.start_streaming()
    check_moved(following, running)
    assert why in running.log
    assert life.count(topic(following)) == count, "it is left as it is"


@pytest.fixture
def with_own_broker(database: Database, pipeline_name: str, tmp_path: Path) -> Iterator[ProducerUnderTest]:
    """It follows ``t`` and ``u``, one partition each."""
    database.execute(
        "CREATE TABLE t (id serial PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v text);"
        "INSERT INTO u SELECT i, 'v' || i FROM generate_series(1, 20) i"
    )
    with KafkaBroker() as broker:
        producer = ProducerUnderTest(pipeline_name, database, broker, tmp_path)
        producer.publish("t", "u")
        try:
            yield producer
        finally:
            producer.kill_all()


def test_topic_of_which_a_broker_lost_what_it_had_acknowledged_is_another_one_after_the_start(
    with_own_broker: ProducerUnderTest,
) -> None:
    """What comes next would lie where readers have been, at offsets that cuts name for other records."""
    producer = with_own_broker
    running = settle(producer)
    write(producer, 200)
    producer.check_equal()
    running.stop()

    cut_short(producer.kafka, topic(producer), 2)

    write(producer, 300)
    running = producer.start_streaming()
    wait_until(lambda: running.log.count("table is copied") == 1, "the copy")
    assert "a broker lost what it had acknowledged" in running.log
    producer.deleted_topics.add(topic(producer))  # as far as its readers go
    write(producer, 400)
    with producer.topics() as topics:
        producer.caught_up(topics)
    moved, other = table(producer, "u"), table(producer, "t")
    assert (moved.state, moved.topic) == ("current", f"{topic(producer)}_2")
    assert (other.state, other.topic) == ("current", topic(producer, "t"))


@losses("deleted")
def test_topic_that_is_lost_under_the_producer_is_another_one_and_nothing_is_written_to_it(
    following: ProducerUnderTest, life: TopicLife, loss: str
) -> None:
    """Rows come at once: what they were committed to would be what somebody else made."""
    lose, why = LOSSES[loss]
    running = settle(following)
    lose(life, topic(following))
    for number in (200, 300, 400):
        write(following, number)
    check_moved(following, running)
    assert why in running.log


@pytest.mark.variant(of="test_topic_that_is_lost_under_the_producer_is_another_one_and_nothing_is_written_to_it")
@losses("made anew")
def test_topic_that_is_lost_under_an_idle_producer_is_noticed_without_a_row(
    following: ProducerUnderTest, life: TopicLife, loss: str
) -> None:
    lose, why = LOSSES[loss]
    running = settle(following)
    lose(life, topic(following))
    running.wait_for_log(why)
    check_moved(following, running)


@pytest.mark.variant(of="test_topic_that_is_lost_under_the_producer_is_another_one_and_nothing_is_written_to_it")
def test_topic_is_not_made_anew_by_writing_to_it(following: ProducerUnderTest, life: TopicLife) -> None:
    """A broker makes topics for whoever writes, unless it is told not to."""
    running = settle(following)
    life.delete(topic(following))
    write(following, 200)
    check_moved(following, running)
    assert life.count(topic(following)) == 0


@pytest.mark.variant(of="test_table_that_loses_its_key_over_several_partitions_is_copied_into_a_topic_of_one")
def test_table_made_again_goes_neither_back_into_a_topic_that_was_left_nor_without_a_key_into_several_partitions(
    following: ProducerUnderTest, life: TopicLife
) -> None:
    """Cuts name offsets of a topic for two weeks: under its name there is never another one."""
    running = settle(following)
    life.delete(topic(following))
    check_moved(following, running)
    execute = following.database.execute
    execute("DROP TABLE u; CREATE TABLE u (id int, v text); ALTER TABLE u REPLICA IDENTITY FULL")
    execute("ALTER PUBLICATION walbridge ADD TABLE u; INSERT INTO u VALUES (1, 'again')")
    wait_until(lambda: running.log.count("table is copied") == 2, "the copy")
    with following.topics() as topics:
        following.caught_up(topics)
        replayed = topics.replay()
    made = following.database.value("SELECT 'u'::regclass::oid::int")
    assert [tuple(row.values()) for row in replayed.tables[made].rows] == [(1, "again")]
    assert table(following, "u").topic == f"{topic(following)}_3"
    assert [life.count(topic(following) + each) for each in ("", "_2", "_3")] == [0, 2, 1]


@pytest.mark.variant(of="test_copy_killed_at_every_point_goes_on_and_loses_nothing")
@pytest.mark.parametrize("kill_point", [in_soak("chunk:before-begin"), in_soak("chunk:begun"), "chunk:before-end"])
def test_copy_into_another_topic_that_is_killed_goes_on_in_that_topic(
    following: ProducerUnderTest, life: TopicLife, kill_point: str
) -> None:
    settle(following).stop()
    life.delete(topic(following))
    following.run_until_killed(kill_point)
    write(following, 200)
    check_moved(following, following.start_streaming())


@pytest.mark.variant(of="test_topic_that_is_lost_under_the_producer_is_another_one_and_nothing_is_written_to_it")
def test_table_without_a_topic_is_quarantined_where_settings_say_so_until_it_is_copied(
    following: ProducerUnderTest, life: TopicLife
) -> None:
    following.settings["producer"] = {"on_table_error": "quarantine"}
    settle(following).stop()
    life.delete(topic(following))
    running = following.start_streaming()
    write(following, 200)
    running.wait_for_log("table is quarantined")
    assert table(following, "u").state == "quarantined"
    assert life.count(topic(following)) == 0


def test_producer_stops_for_the_topic_of_one_table_where_settings_say_so(
    following: ProducerUnderTest, life: TopicLife
) -> None:
    """The remedy is followed to the letter."""
    following.settings["producer"] = {"on_table_error": "stop"}
    running = settle(following)
    life.delete(topic(following))
    write(following, 200)
    refusal = refusal_of(running)
    assert f"topic {topic(following)} of table public.u is gone" in refusal
    assert 'where [producer] on_table_error is "stop", set it to "copy" instead' in refusal
    assert following.refusal() == refusal
    following.settings["producer"] = {"on_table_error": "copy"}
    check_moved(following, following.start_streaming())


@pytest.mark.variant(of="test_topic_that_is_lost_under_the_producer_is_another_one_and_nothing_is_written_to_it")
def test_partitions_that_settings_name_afterwards_are_those_of_another_topic(
    following: ProducerUnderTest, life: TopicLife
) -> None:
    """I3: keys stay where they are, so every table with a key gets another topic, and one without keeps its own."""
    following.database.execute("CREATE TABLE k (n int); ALTER TABLE k REPLICA IDENTITY FULL; INSERT INTO k VALUES (1)")
    following.database.execute("ALTER PUBLICATION walbridge ADD TABLE k")
    settle(following).stop()
    following.settings["topics"] = {"partitions": 3}
    running = following.start_streaming()
    wait_until(lambda: running.log.count("table is copied") == 2, "the copies")
    write(following, 200)
    following.database.execute("INSERT INTO k VALUES (2)")
    following.check_equal()
    for name, now, count in (("t", "_2", 3), ("u", "_2", 3), ("k", "", 1)):
        assert table(following, name).topic == topic(following, name) + now
        assert life.count(topic(following, name) + now) == count
    running.stop()
    assert "table is stale" not in following.start_streaming().log
