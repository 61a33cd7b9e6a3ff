"""A table that is called otherwise goes on in its topic: nothing stops, nothing is copied (I3, I4, I7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.faults.one_table import make_table
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak, in_variants
from tests.source_rows import comparable, source_rows
from tests.topic_reader import Topics
from tests.wait import wait_until
from walbridge.schemas.control.cut import Cut

pytestmark = pytest.mark.fault


def check_equal(producer: ProducerUnderTest) -> dict[str, str]:
    """Each published table equals its topic's events under today's name; topics by ``schema.table``."""
    tables = producer.database.rows(
        "SELECT c.oid::int, p.schemaname || '.' || p.tablename FROM pg_publication_tables p, pg_class c "
        "WHERE c.oid = format('%I.%I', p.schemaname, p.tablename)::regclass AND p.pubname = 'walbridge'"
    )
    with producer.topics() as topics:
        producer.caught_up(topics)
        replayed = topics.replay()
        topics.check_nothing_else()
    found = {}
    for relation_id, name in tables:
        relation = replayed.relations[relation_id]
        assert relation.table.qualified_name == name
        there = Counter(map(comparable, replayed.tables[relation_id].rows))
        assert there == Counter(map(comparable, source_rows(producer.database, relation))), f"{name} differs"
        found[str(name)] = relation.topic.removeprefix(f"{producer.name}.")
    return found


def renamed_in(topics: Topics, relation_id: int, name: str) -> Callable[[Cut], bool]:
    """Whether a cut has the barrier of a version of this table under this name."""
    versions = {
        record.schema_id
        for record in topics.relations()
        if (record.table.relation_id, record.table.qualified_name) == (relation_id, name)
    }
    return lambda cut: any(
        str(barrier.schema_id) in versions
        for table in cut.tables
        for barrier in table.barriers
        if table.relation_id == relation_id and barrier.kind == "shape"
    )


def wait_until_named(producer: ProducerUnderTest, name: str) -> None:
    """A cut says that the table which has this name now has it; another may have had it before."""
    relation_id = producer.database.value("SELECT %s::regclass::oid::int", (name,))

    def is_known() -> bool:
        return any(map(renamed_in(topics, relation_id, name), topics.cuts()))

    with producer.topics() as topics:
        wait_until(is_known, f"a cut that knows {name}")


@pytest.mark.parametrize("while_running", [in_soak(True), False])
def test_renamed_table_goes_on_in_its_topic(producer: ProducerUnderTest, while_running: bool) -> None:
    producer.settings["topics"] = {"partitions": 3}
    make_table(producer)
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute("INSERT INTO t SELECT i FROM generate_series(2, 20) i")
    assert check_equal(producer) == {"public.t": "public.t"}
    if not while_running:
        running.stop()
    producer.database.execute("ALTER TABLE t ADD v int; UPDATE t SET v = 1 WHERE id % 2 = 0")
    producer.database.execute(
        "ALTER TABLE t RENAME TO u; UPDATE u SET v = 2 WHERE id % 3 = 0; DELETE FROM u WHERE id = 5"
    )
    if not while_running:
        running = producer.start_streaming()
    assert check_equal(producer) == {"public.u": "public.t"}
    producer.database.execute("ALTER TABLE u RENAME TO t; INSERT INTO t VALUES (30)")
    assert check_equal(producer) == {"public.t": "public.t"}
    running.stop()
    producer.start_streaming()
    producer.database.execute(
        "UPDATE t SET v = 4; CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s; INSERT INTO s.t VALUES (31)"
    )
    assert check_equal(producer) == {"s.t": "public.t"}


@pytest.mark.variant(of="test_tables_that_swap_their_names_keep_their_topics")
def test_rename_without_a_later_change_is_told_by_a_cut(producer: ProducerUnderTest) -> None:
    """Postgres sends nothing for it."""
    producer.database.execute("CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY); INSERT INTO s.t VALUES (1)")
    make_table(producer)
    producer.publish("t", "s.t")
    running = producer.start_streaming()
    producer.database.execute("INSERT INTO s.t VALUES (2)")
    check_equal(producer)
    producer.database.execute("ALTER TABLE t RENAME TO u; ALTER SCHEMA s RENAME TO r")
    wait_until_named(producer, "public.u")
    wait_until_named(producer, "r.t")
    assert check_equal(producer) == {"public.u": "public.t", "r.t": "s.t"}
    producer.database.execute("INSERT INTO r.t VALUES (3); INSERT INTO u VALUES (3)")
    assert check_equal(producer) == {"public.u": "public.t", "r.t": "s.t"}
    running.stop()
    producer.database.execute("ALTER TABLE u RENAME TO v")
    producer.start_streaming()
    wait_until_named(producer, "public.v")
    assert check_equal(producer) == {"public.v": "public.t", "r.t": "s.t"}


@pytest.mark.parametrize(
    "then", [in_variants(""), in_soak("INSERT INTO t VALUES (7)"), "INSERT INTO u VALUES (7); INSERT INTO t VALUES (7)"]
)
def test_tables_that_swap_their_names_keep_their_topics(producer: ProducerUnderTest, then: str) -> None:
    """No cut calls both by one name, also where only one of them is written to."""
    make_table(producer)
    producer.database.execute("CREATE TABLE u (id int PRIMARY KEY, v text)")
    producer.publish("t", "u")
    producer.start_streaming()
    producer.database.execute("INSERT INTO t VALUES (2); INSERT INTO u VALUES (2, 'two')")
    check_equal(producer)
    with producer.database.connect() as connection, connection.transaction():
        for statement in ("ALTER TABLE t RENAME TO x", "ALTER TABLE u RENAME TO t", "ALTER TABLE x RENAME TO u"):
            connection.execute(statement.encode())
        if then:
            connection.execute(then.encode())
    if not then:
        wait_until_named(producer, "public.u")
    assert check_equal(producer) == {"public.t": "public.u", "public.u": "public.t"}
    with producer.topics() as topics:
        names: dict[int, str] = {}
        versions = {(r.schema_id, r.table.relation_id): r.table.qualified_name for r in topics.relations()}
        for cut in topics.cuts():
            for table in cut.tables:
                for barrier in table.barriers:
                    if barrier.schema_id is not None:
                        names[table.relation_id] = versions[barrier.schema_id, table.relation_id]
            assert len({*names.values()}) == len(names), f"cut {cut.cut_id}"


@pytest.mark.variant(of="test_tables_that_swap_their_names_keep_their_topics")
def test_new_table_under_the_name_of_a_renamed_one_gets_a_topic_of_its_own(producer: ProducerUnderTest) -> None:
    make_table(producer)
    producer.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start_streaming()
    producer.database.execute(
        "ALTER TABLE t RENAME TO t_old; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (9)"
    )
    running.wait_for_log("table is copied")
    producer.database.execute("INSERT INTO t VALUES (10); INSERT INTO t_old VALUES (10)")
    assert check_equal(producer) == {"public.t": "public.t_2", "public.t_old": "public.t"}
    assert running.log.count("a table gets another topic") == 1
    running.stop()
    producer.start_streaming()
    producer.database.execute("INSERT INTO t VALUES (11)")
    assert check_equal(producer) == {"public.t": "public.t_2", "public.t_old": "public.t"}


@pytest.mark.variant(of="test_tables_that_swap_their_names_keep_their_topics")
def test_migration_that_fills_a_new_table_swaps_the_names_and_drops_the_old_one(producer: ProducerUnderTest) -> None:
    make_table(producer)
    producer.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start_streaming()
    execute = producer.database.execute
    execute("CREATE TABLE t_new (id bigint PRIMARY KEY, v text); INSERT INTO t_new SELECT id, 'v' FROM t")
    running.wait_for_log("table is copied")
    execute(
        "ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; DROP TABLE t_old; INSERT INTO t VALUES (2, 'w')"
    )
    assert check_equal(producer) == {"public.t": "public.t_new"}
    running.wait_for_log("left the publication")
    execute("INSERT INTO t VALUES (3, 'x')")
    assert check_equal(producer) == {"public.t": "public.t_new"}


@pytest.mark.variant(of="test_renamed_table_goes_on_in_its_topic")
def test_table_renamed_in_a_streamed_transaction_goes_on_in_its_topic(producer: ProducerUnderTest) -> None:
    database = producer.database
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    make_table(producer)
    producer.publish("t")
    producer.start_streaming()
    with database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO t SELECT i FROM generate_series(2, 5000) i")
        connection.execute("ALTER TABLE t RENAME TO u")
        connection.execute("INSERT INTO u SELECT i FROM generate_series(5001, 10000) i")
        connection.execute("ALTER TABLE u RENAME TO v")
    wait_until_named(producer, "public.v")
    assert check_equal(producer) == {"public.v": "public.t"}
    database.execute("DELETE FROM v WHERE id % 2 = 0")
    assert check_equal(producer) == {"public.v": "public.t"}


@pytest.mark.variant(of="test_table_that_is_altered_and_emptied_while_it_is_copied_begins_again")
def test_table_renamed_while_it_is_copied_is_copied_on(producer: ProducerUnderTest) -> None:
    producer.settings["producer"] = {"batch_rows_max": 100}
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY, v text)")
    producer.database.execute("INSERT INTO u SELECT i, 'v' FROM generate_series(1, 5000) i")
    producer.publish("t")
    producer.start_streaming().stop()
    producer.database.execute("ALTER PUBLICATION walbridge ADD TABLE u; INSERT INTO t VALUES (1)")
    producer.run_until_killed("chunk:entered:3")
    producer.database.execute("ALTER TABLE u RENAME TO w; UPDATE w SET v = 'w' WHERE id % 3 = 0")
    producer.run_until_killed("chunk:entered:3")
    producer.database.execute("ALTER TABLE t RENAME TO u; ALTER TABLE w RENAME TO t; INSERT INTO u VALUES (2)")
    running = producer.start_streaming()
    running.wait_for_log("table is copied")
    assert "copy of a table begins" not in running.log
    producer.database.execute("DELETE FROM t WHERE id % 5 = 0")
    assert check_equal(producer) == {"public.t": "public.u", "public.u": "public.t"}
