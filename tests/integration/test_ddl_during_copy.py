"""DDL that falls into the first copy: no snapshot hides it, so it is held off or noticed."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.table_reads.snapshot import Snapshot
from walbridge.schemas.errors import RetryableError


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE t",
        "TRUNCATE p1",
        "ALTER TABLE t ADD c int",
        "ALTER TABLE t ALTER v TYPE bigint",
        "ALTER TABLE t RENAME v TO w",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "ALTER TABLE p ADD PRIMARY KEY (id)",
        "VACUUM FULL t",
    ],
)
def test_table_changed_between_snapshot_and_lock_is_noticed(database: Database, statement: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)")
    database.execute("CREATE TABLE p (id int) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10); INSERT INTO p VALUES (1)")
    ids = [row[0] for row in database.rows("SELECT oid FROM pg_class WHERE relname IN ('t', 'p')")]
    with database.connect() as exporter, exporter.transaction():
        exporter.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        (name,) = exporter.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        with Snapshot(database.dsn, name) as snapshot, connect_sql(database.dsn) as now:
            assert catalog.storage_of(snapshot.connection, ids) == catalog.storage_of(now, ids)
            database.execute(statement)
            assert catalog.storage_of(snapshot.connection, ids) != catalog.storage_of(now, ids)


def test_table_dropped_since_the_snapshot_begins_the_copy_again(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION walbridge FOR TABLE t")
    with database.connect() as exporter, exporter.transaction():
        exporter.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        (name,) = exporter.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        with Snapshot(database.dsn, name) as snapshot:
            tables = catalog.published_tables(snapshot.connection, ("walbridge",))
            database.execute("DROP TABLE t")
            with pytest.raises(RetryableError, match=r"public\.t is gone"):
                snapshot.lock(tables)


def test_publication_changed_while_the_slot_is_made_begins_the_copy_again(producer: ProducerUnderTest) -> None:
    """The catalogue says now, the stream goes by then: a table added between would lack changes."""
    producer.database.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    producer.publish("a")
    with producer.database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO a VALUES (1)")
        running = producer.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE_REPLICATION_SLOT%%' AND datname = %s"
        wait_until(lambda: producer.database.value(waits, (producer.database.name,)) == 1, "the slot to be made")
        producer.database.execute("ALTER PUBLICATION walbridge ADD TABLE b; INSERT INTO b VALUES (1)")
    running.wait_for_log("the publication was changed")
    running.wait_for_log("streaming")
    assert sorted(relation.table.name for relation in producer.check_equal()) == ["a", "b"]


@pytest.mark.variant(of="test_table_that_is_altered_and_emptied_while_it_is_copied_begins_again")
def test_truncate_during_the_copy_waits_and_then_comes_with_the_stream(producer: ProducerUnderTest) -> None:
    """I8: the copy's published cut shows the table as of its LSN, still full."""
    execute = producer.database.execute
    execute("CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY)")
    execute("INSERT INTO a SELECT i, repeat('x', 200) FROM generate_series(1, 8000) i; INSERT INTO b VALUES (1), (2)")
    producer.publish("a", "b")
    producer.settings["producer"] = {"batch_rows_max": 100}
    running = producer.start()
    running.wait_for_log("copy begins")
    running.process.send_signal(signal.SIGSTOP)  # its locks stay, however late the truncate comes
    truncate = threading.Thread(target=execute, args=("TRUNCATE b; INSERT INTO b VALUES (3)",))
    truncate.start()
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'b'::regclass"
    wait_until(lambda: producer.database.value(waiting) == 1 or not truncate.is_alive(), "the truncate to wait")
    assert truncate.is_alive()
    running.process.send_signal(signal.SIGCONT)
    running.wait_for_log("streaming")
    truncate.join()
    replayed = producer.check_equal()
    assert replayed.rows("public", "b") == [{"id": 3}]
    with producer.topics() as topics:
        copied = [
            e for cut in topics.cuts() for e in topics.events(cut) if e.op == "r" and e.relation.table.name == "b"
        ]
    assert [event.after for event in copied] == [{"id": 1}, {"id": 2}]
