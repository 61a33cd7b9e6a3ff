"""A table that leaves the publication: said, marked in the cuts, and no reason to stop the others (I7, I8)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

from tests.fix_kafka import unused_name
from tests.fix_postgres import Database, new_database
from tests.fix_producer import ProducerUnderTest, Running, refusal_of
from tests.in_soak import in_soak, in_variants
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.topics import data_topic

pytestmark = pytest.mark.fault


@pytest.mark.parametrize("while_running", [True, in_soak(False)])
def test_table_that_left_is_said_to_be_stale_and_the_others_go_on(
    producer: ProducerUnderTest, while_running: bool
) -> None:
    """Back in the publication it lacks what happened meanwhile: it is copied again."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u")
    running = producer.start_streaming()
    execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
    producer.check_equal()
    if not while_running:
        running.stop()
    execute("INSERT INTO u VALUES (2); ALTER PUBLICATION walbridge DROP TABLE u; INSERT INTO t VALUES (2)")
    if not while_running:
        running = producer.start_streaming()
    running.wait_for_log("left the publication")
    execute("INSERT INTO t VALUES (3)")
    producer.check_equal()

    with producer.topics() as topics:
        left = [(t.topic, b.kind, c.complete) for c in topics.cuts() for t in c.tables for b in t.barriers]
        progress = topics.progress()
    assert (data_topic(producer.name, "public", "u"), "dropped", True) in left
    assert progress is not None
    assert progress.relation_ids == (producer.database.value("SELECT 't'::regclass::oid::int"),)
    running.stop()
    running = producer.start_streaming()
    execute("ALTER PUBLICATION walbridge ADD TABLE u; INSERT INTO u VALUES (4); INSERT INTO t VALUES (4)")
    running.wait_for_log("table is copied")
    replayed = producer.check_equal()
    assert sorted(row["id"] for row in replayed.rows("public", "u")) == [1, 2, 4]
    with producer.topics() as topics:
        progress = topics.progress()
    assert progress is not None
    assert {table.state for table in progress.tables.values()} == {"current"}


@pytest.mark.variant(of="test_table_that_left_is_said_to_be_stale_and_the_others_go_on")
def test_table_that_left_is_said_to_be_stale_while_the_stream_is_never_idle(producer: ProducerUnderTest) -> None:
    """I8: readers must not take it for current for as long as others are written to."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id serial PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u")
    producer.settings["producer"] = {"idle_cut_interval_ms": 600_000}
    producer.start_streaming().stop()
    execute("INSERT INTO u VALUES (1); ALTER PUBLICATION walbridge DROP TABLE u")
    running = producer.start_streaming()

    def said() -> bool:
        execute("INSERT INTO t DEFAULT VALUES")
        return "left the publication" in running.log

    wait_until(said, "the word of it", poll_s=0.1)

    with producer.topics() as topics:
        cut = topics.wait_for_cut(
            lambda cut: any(b.kind == "dropped" for t in cut.tables for b in t.barriers), "that says it"
        )
        assert cut.complete
        assert cut.transactions > 0
        assert [row["id"] for row in topics.replay().rows("public", "u")] == [1]


def test_table_is_followed_until_every_transaction_that_wrote_to_it_before_it_left_has_ended(
    producer: ProducerUnderTest,
) -> None:
    """I8: Postgres sends a change as of when it was made, however late its transaction commits."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u")
    running = producer.start_streaming()
    with producer.database.connect() as session:
        session.execute("BEGIN")
        session.execute("INSERT INTO u VALUES (5)")
        execute("ALTER PUBLICATION walbridge DROP TABLE u; INSERT INTO t VALUES (2)")
        with producer.topics() as topics:
            before = producer.caught_up(topics)
            execute("SELECT txid_current()")  # an idle cut comes only of WAL that nobody has seen
            topics.wait_for_cut(lambda cut: cut.cut_id > before.cut_id and not cut.partitions, "an idle cut")
        assert "left the publication" not in running.log
        session.execute("COMMIT")
    running.wait_for_log("left the publication")

    with producer.topics() as topics:
        producer.caught_up(topics)
        assert [row["id"] for row in topics.replay().rows("public", "u")] == [5]
    assert running.process.poll() is None


def test_dropped_table_is_noticed_and_the_others_go_on(producer: ProducerUnderTest) -> None:
    """Looked for in the catalogue, since the stream says nothing of it."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start_streaming()
    execute("DROP TABLE u")
    wait_until(lambda: "left the publication" in running.log, "the word of it")
    execute("INSERT INTO t VALUES (1)")
    with producer.topics() as topics:
        producer.caught_up(topics)
    assert running.process.poll() is None


ALL_OPERATIONS = "SET (publish = 'insert, update, delete, truncate')"


@pytest.mark.parametrize("while_running", [in_soak(True), False])
def test_publication_that_was_altered_and_altered_back_has_its_tables_copied_again(
    producer: ProducerUnderTest, while_running: bool
) -> None:
    """I7, I8: what it left out meanwhile is in no topic, and no look finds it otherwise than before."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY)")
    execute("INSERT INTO t VALUES (1, 1), (2, 1); INSERT INTO u VALUES (1)")
    producer.publish("t", name="a")
    producer.publish("u", name="b")
    producer.settings["postgres"] = {"publications": ["a", "b"]}
    running = producer.start_streaming()
    producer.check_equal()
    if not while_running:
        running.stop()
    # One transaction, so no look comes between.
    execute(
        "ALTER PUBLICATION a SET (publish = 'insert'); UPDATE t SET v = 2 WHERE id = 1; DELETE FROM t WHERE id = 2;"
        f"ALTER PUBLICATION a {ALL_OPERATIONS}; INSERT INTO u VALUES (2)"
    )
    if not while_running:
        producer.settings["producer"] = {"on_table_error": "stop"}
        assert 'where [producer] on_table_error is "stop", set it to "copy" instead' in producer.refusal()
        producer.settings["producer"] = {"on_table_error": "copy"}
        running = producer.start_streaming()
    running.wait_for_log("publication a was altered since table public.t was last looked at")
    running.wait_for_log("table is copied")
    replayed = producer.check_equal()
    assert [(row["id"], row["v"]) for row in replayed.rows("public", "t")] == [(1, 2)]
    assert "table public.u" not in running.log
    running.stop()
    running = producer.start_streaming()
    execute("INSERT INTO t VALUES (3, 3)")
    producer.check_equal()
    assert "table is stale" not in running.log


CHANGES = {
    "ALTER PUBLICATION walbridge SET (publish = 'insert')": "does not publish update, delete, truncate",
    "DROP PUBLICATION walbridge; CREATE PUBLICATION walbridge FOR TABLE t": "was dropped and made again",
    "ALTER PUBLICATION walbridge SET TABLE t WHERE (id > 5)": "its row filter or column list was changed",
    "ALTER PUBLICATION walbridge SET TABLE t (id)": "its row filter or column list was changed",
    "ALTER PUBLICATION walbridge SET (publish_generated_columns = stored)": "publish_generated_columns of",
}


@pytest.fixture(scope="module")
def changed(
    postgres: PostgresServer, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[ProducerUnderTest, Running]]]:
    """By change: a producer under which it was made. All run at once, since each looks every ten seconds only."""
    with contextlib.ExitStack() as stack:
        running: dict[str, tuple[ProducerUnderTest, Running]] = {}
        databases: dict[str, Database] = {}
        for change in CHANGES:
            databases[change] = database = stack.enter_context(new_database(postgres))
            producer = ProducerUnderTest(unused_name(), database, kafka, tmp_path_factory.mktemp("producer"))
            producer.settings["producer"] = {"on_table_error": "stop"}
            stack.callback(producer.kill_all)
            database.execute("CREATE TABLE t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id) STORED)")
            producer.publish("t")
            running[change] = producer, producer.start()
        for change, (_, each) in running.items():
            each.wait_for_log("streaming")
            databases[change].execute(f"{change}; INSERT INTO t VALUES (9)")
        yield running


@pytest.mark.parametrize(
    ("change", "words"), [each if at < 2 else in_variants(*each) for at, each in enumerate(CHANGES.items())]
)
def test_change_of_the_publication_under_a_running_producer_stops_it_where_settings_say_so(
    changed: dict[str, tuple[ProducerUnderTest, Running]], change: str, words: str
) -> None:
    """I7: noticed at the next idle cut, which would else confirm what was left out. Where another setting lets it go
    on, as the remedy says, it does."""
    producer, running = changed[change]
    said = refusal_of(running)
    assert words in said
    if found := re.search(r'where \[producer\] (\w+) is "stop", set it to "(\w+)" instead', said):
        producer.database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        producer.settings["producer"] = {found[1]: found[2]}
        producer.start_streaming().wait_for_log("table is copied")


def test_partition_whose_identity_is_not_its_roots_is_refused_before_there_is_a_slot(
    producer: ProducerUnderTest,
) -> None:
    """I6: FULL of a root is not that of its partitions, so old rows would come with nulls for what was not logged."""
    producer.database.execute(
        "CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p DEFAULT;"
        "ALTER TABLE p REPLICA IDENTITY FULL"
    )
    producer.publish("p", options="WITH (publish_via_partition_root = true)")
    words = producer.refusal()
    assert "partition public.p1 has another replica identity than public.p" in words
    assert "ALTER TABLE public.p1 REPLICA IDENTITY FULL" in words
    assert (
        producer.database.rows("SELECT slot_name FROM pg_replication_slots WHERE slot_name = %s", [producer.slot]) == []
    )
    producer.database.execute("ALTER TABLE p1 REPLICA IDENTITY FULL; INSERT INTO p VALUES (1, 'a')")
    producer.start_streaming()
    producer.database.execute("UPDATE p SET v = 'b'; INSERT INTO p VALUES (2, 'c'); DELETE FROM p WHERE id = 1")
    producer.check_equal()


@pytest.mark.variant(of="test_partition_whose_identity_is_not_its_roots_is_refused_before_there_is_a_slot")
def test_partition_whose_identity_becomes_another_than_its_roots_makes_the_root_stale_until_it_fits(
    producer: ProducerUnderTest,
) -> None:
    """I5, I6: also at the next start."""
    execute = producer.database.execute
    execute("CREATE TABLE p (id int, k int NOT NULL, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
    producer.publish("p", options="WITH (publish_via_partition_root = true)")
    running = producer.start_streaming()
    execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20); INSERT INTO p VALUES (1, 1), (11, 1)")
    producer.check_equal()
    execute("CREATE UNIQUE INDEX p2_k ON p2 (k); ALTER TABLE p2 REPLICA IDENTITY USING INDEX p2_k")
    running.wait_for_log("partition public.p2 has another replica identity than public.p")
    running.wait_for_log("ALTER TABLE public.p2 REPLICA IDENTITY DEFAULT")
    running.stop()
    running = producer.start_streaming()
    execute("UPDATE p SET k = 2; ALTER TABLE public.p2 REPLICA IDENTITY DEFAULT")
    running.wait_for_log("table is copied")
    execute("INSERT INTO p VALUES (12, 5); UPDATE p SET k = 3 WHERE id = 11")
    producer.check_equal()
