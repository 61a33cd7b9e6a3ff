"""A table that comes while the stream runs is copied beside it, under load and through kills (I1, I4, I7, I8)."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import psycopg
import pytest

from tests.faults.followed import settings_of
from tests.faults.kill_points import BESIDE
from tests.faults.left_over import check_nothing_is_left
from tests.faults.seed import fault_seed
from tests.faults.writer import Writer
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_variants
from tests.topic_reader import Topics
from tests.wait import wait_until
from walbridge.check.verb import all_findings
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.tables.copy import copy

pytestmark = pytest.mark.fault

MADE = """
    CREATE TABLE u (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, v text);
    ALTER TABLE u ALTER v SET STORAGE EXTERNAL;
    INSERT INTO u SELECT i, 0, repeat('v', 2500) FROM generate_series(1, {rows}) i
"""


class Habits(Writer):
    """Writes to ``t`` and ``u`` until left: rows come, go, change and move to other keys with values left alone."""

    pause_s = 0.005

    def __init__(self, producer: ProducerUnderTest, rows: int) -> None:
        super().__init__(producer)
        self._rows, self._random = rows, random.Random(fault_seed())

    def write(self, connection: psycopg.Connection[Any]) -> None:
        dice, rows = self._random, self._rows
        id_, other = dice.randint(1, rows), dice.randint(rows + 1, 3 * rows)
        with connection.transaction():
            connection.execute("INSERT INTO t (v) VALUES (%s)", (self.count,))
            connection.execute("UPDATE u SET n = n + 1 WHERE id = %s", (id_,))
            if dice.random() < 0.3:
                connection.execute("DELETE FROM u WHERE id = %s", (dice.randint(1, rows),))
            if dice.random() < 0.3:
                moved = "UPDATE u SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM u WHERE id = %s)"
                there, here = dice.choice([(id_, other), (other, id_)])
                connection.execute(moved, (there, here, there))
            if dice.random() < 0.3:
                new = "INSERT INTO u VALUES (%s, -1, repeat('n', 2500)) ON CONFLICT (id) DO NOTHING"
                connection.execute(new, (dice.randint(1, rows),))


def progress_of(topics: Topics) -> Progress:
    progress = topics.progress()
    assert progress is not None
    return progress


def table(producer: ProducerUnderTest, name: str) -> TableProgress | None:
    """Where the table stands once everything committed until now is in the topics."""
    relation_id = producer.database.value("SELECT %s::regclass::oid::int", (name,))
    with producer.topics() as topics:
        producer.caught_up(topics)
        return progress_of(topics).tables.get(relation_id)


def state_of(producer: ProducerUnderTest, name: str) -> str | None:
    found = table(producer, name)
    return found.state if found else None


@pytest.mark.variant(of="test_copy_killed_at_every_point_goes_on_and_loses_nothing")
def test_table_that_is_created_and_filled_is_copied_while_all_are_written(following: ProducerUnderTest) -> None:
    following.settings["producer"] = {"batch_rows_max": 200}
    running = following.start_streaming()
    following.database.execute(MADE.format(rows=2000))
    with Habits(following, 2000) as habits:
        habits.wait_for(20)
        running.wait_for_log("table is copied")
        habits.wait_for(20)
    following.check_equal()
    assert state_of(following, "u") == "current"
    with following.topics() as topics:
        kinds = [b.kind for cut in topics.cuts() for t in cut.tables for b in t.barriers if t.topic.endswith(".u")]
        snapshots = Counter(
            event.source["snapshot"]
            for cut in topics.cuts()
            for event in topics.events(cut)
            if event.relation.table.name == "u" and event.position.ordinal < 0
        )
    assert [kind for kind in kinds if kind != "shape"] == ["copy_begin", "copy_end"]
    assert snapshots.keys() == {"first_in_data_collection", "incremental", "last_in_data_collection"}


def run_until_killed_at_every_point(producer: ProducerUnderTest, habits: Habits) -> None:
    """At those of a copy beside the stream, one start after another; Kafka holds all that was confirmed (I1)."""
    for point in BESIDE:
        habits.wait_for(5)
        producer.run_until_killed(point)
        with producer.topics() as topics:
            topics.check_held(producer.confirmed_lsn())


def test_copy_killed_at_every_point_goes_on_and_loses_nothing(following: ProducerUnderTest) -> None:
    """I1, I4: behind the last chunk that Kafka holds."""
    following.settings["producer"] = {"batch_rows_max": 150}
    following.start_streaming().stop()
    following.database.execute(MADE.format(rows=1500))
    with Habits(following, 1500) as habits:
        run_until_killed_at_every_point(following, habits)
    running = following.start_streaming()
    following.check_equal()
    assert state_of(following, "u") == "current"
    with following.topics() as topics:
        kinds = Counter(b.kind for cut in topics.cuts() for t in cut.tables for b in t.barriers)
    assert (kinds["copy_begin"], kinds["copy_end"]) == (2, 2), "one of them is that of the first copy"
    check_nothing_is_left(following, running)


@pytest.mark.parametrize("published", ["ALL TABLES", in_variants("TABLES IN SCHEMA public")])
def test_table_that_nobody_writes_to_is_copied(producer: ProducerUnderTest, published: str) -> None:
    """A look at the publication finds it, also where it is empty."""
    execute = producer.database.execute
    execute(f"CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION walbridge FOR {published}")
    running = producer.start_streaming()
    execute("CREATE TABLE quiet (id int PRIMARY KEY)")
    running.wait_for_log("table is copied")
    producer.check_equal()
    assert state_of(producer, "quiet") == "current"


@pytest.mark.variant(of="test_tables_that_come_and_go_are_whole_after_kills")
def test_table_that_comes_and_goes_inside_a_migration_leaves_no_topic_and_no_copy(
    following: ProducerUnderTest,
) -> None:
    """Its changes are in the stream, by relations that the catalogue does not know any more."""
    with following.database.connect() as connection:
        following.start_streaming()
        made, filled, gone = "CREATE TABLE {} (id int PRIMARY KEY)", "INSERT INTO {} VALUES (1)", "DROP TABLE {}"
        connection.execute("; ".join(each.format("at_once") for each in (made, filled, gone)))
        for each in (made, filled, gone):
            connection.execute(each.format("by_steps"))
        connection.execute("INSERT INTO t (v) VALUES (1)")
    following.check_equal()
    wait_until(lambda: not following.awaits_copies(), "what was noticed to be looked up")
    with following.topics() as topics:
        following.caught_up(topics)
        others = [known for known in progress_of(topics).tables.values() if known.state != "current"]
        assert {(known.state, known.topic) for known in others} <= {("dropped", None)}, others
        assert {relation.table.name for relation in topics.replay()} == {"t"}
    counts = TopicAdmin(settings_of(following)).partition_counts()
    assert [each for each in counts if each.startswith(f"{following.name}.public.")] == [f"{following.name}.public.t"]


@pytest.mark.variant(of="test_copy_killed_at_every_point_goes_on_and_loses_nothing")
def test_table_that_is_added_is_copied_with_the_rows_that_it_had(producer: ProducerUnderTest) -> None:
    """One transaction wrote to it before it was added, and commits when it is: its rows are in no stream."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
    producer.publish("t")
    running = producer.start_streaming()
    with producer.database.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO u VALUES (2)")
        execute("ALTER PUBLICATION walbridge ADD TABLE u")
        execute("INSERT INTO u VALUES (3); INSERT INTO t VALUES (1)")
        running.wait_for_log("copy of a table waits")
        connection.execute("COMMIT")
    running.wait_for_log("table is copied")
    execute("INSERT INTO u VALUES (4); DELETE FROM u WHERE id = 1")
    producer.check_equal()
    assert state_of(producer, "u") == "current"


@pytest.mark.variant(of="test_tables_that_come_and_go_are_whole_after_kills")
def test_table_made_again_under_its_name_is_copied(following: ProducerUnderTest) -> None:
    execute = following.database.execute
    execute("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
    running = following.start_streaming()
    execute("DROP TABLE u; CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (2)")
    running.wait_for_log("left the publication")
    running.wait_for_log("table is copied")
    execute("INSERT INTO u VALUES (3)")
    assert state_of(following, "u") == "current"
    with following.topics() as topics:
        following.caught_up(topics)
        replayed = topics.replay()
    new = following.database.value("SELECT 'u'::regclass::oid::int")
    assert sorted(row["id"] for row in replayed.tables[new].rows) == [2, 3]


def test_table_that_is_altered_and_emptied_while_it_is_copied_begins_again(following: ProducerUnderTest) -> None:
    following.settings["producer"] = {"batch_rows_max": 100}
    following.database.execute(MADE.format(rows=2000))
    following.database.execute("DROP PUBLICATION walbridge; CREATE PUBLICATION walbridge FOR TABLE t")
    following.start_streaming().stop()
    following.database.execute("ALTER PUBLICATION walbridge ADD TABLE u; INSERT INTO u VALUES (-1)")
    following.run_until_killed("chunk:entered:3")
    following.database.execute("ALTER TABLE u ADD w int DEFAULT 5; INSERT INTO u VALUES (-2)")
    following.run_until_killed("chunk:entered:3")
    following.database.execute("TRUNCATE u; INSERT INTO u VALUES (1, 2, 'three', 4)")
    running = following.start_streaming()
    running.wait_for_log("table is copied")
    following.check_equal()


@pytest.mark.variant(of="test_table_in_any_trouble_is_current_again_once_it_is_copied_as_the_producer_says")
def test_table_that_the_role_may_not_read_is_stale_until_it_may(following: ProducerUnderTest) -> None:
    execute, name = following.database.execute, following.database.name
    role = f"reader_{name}"
    execute(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON t TO {role}")
    try:
        following.settings["postgres"] = {"dsn": following.database.dsn.replace("user=postgres", f"user={role}")}
        running = following.start_streaming()
        execute("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
        running.wait_for_log("may not read public.u")
        execute("INSERT INTO u VALUES (2); INSERT INTO t (v) VALUES (1)")
        stale = table(following, "u")
        assert stale is not None
        assert (stale.state, stale.name, stale.why) == ("stale", "public.u", "the role may not read public.u")
        (found,) = (each for each in all_findings(settings_of(following)) if "public.u is stale" in each.text)
        grant, _, then = str(found.remedy).partition(" then ")
        assert then == "walbridge copy public.u"
        execute(grant)
        assert copy(settings_of(following), ["public.u"], wait=True, say=print) == 0
        following.check_equal()
    finally:
        following.kill_all()
        following.slot_at_rest()
        execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.variant(of="test_copy_killed_at_every_point_goes_on_and_loses_nothing")
def test_copy_beside_streamed_prepared_and_split_transactions(following: ProducerUnderTest) -> None:
    """I1, I4: a commit that comes in blocks, or long after its prepare, is laid over the rows as any other."""
    database = following.database
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    following.settings["producer"] = {"batch_rows_max": 100}
    following.settings["postgres"] = {"two_phase": True}
    running = following.start_streaming()
    database.execute(MADE.format(rows=3000))
    with Habits(following, 3000) as habits, database.connect() as long, database.connect() as prepared:
        running.wait_for_log("copy of a table begins")
        long.execute("BEGIN")
        prepared.execute("BEGIN")
        prepared.execute("INSERT INTO u SELECT i, 7, repeat('p', 2500) FROM generate_series(20001, 20300) i")
        prepared.execute("PREPARE TRANSACTION 'beside'")
        long.execute("INSERT INTO u SELECT i, 8, repeat('l', 2500) FROM generate_series(30001, 30300) i")
        long.execute("UPDATE u SET id = id + 10000 WHERE id BETWEEN 30001 AND 30100")
        habits.wait_for(20)
        long.execute("COMMIT")
        prepared.execute("COMMIT PREPARED 'beside'")
        running.wait_for_log("table is copied")
        habits.wait_for(20)
    following.check_equal()
    assert state_of(following, "u") == "current"
