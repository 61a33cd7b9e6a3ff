"""Inserts, updates, deletes: what is committed is what readers get, once, in order."""

from __future__ import annotations

import pytest

from tests.fix_producer import ProducerUnderTest


def test_changes_of_several_tables_arrive_once_and_in_order(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (k text, n int, PRIMARY KEY (n, k))")
    execute("INSERT INTO a SELECT i, 'copied' || i FROM generate_series(1, 50) i")
    producer.publish("a", "b")
    producer.start_streaming()
    execute("INSERT INTO a VALUES (100, 'one'), (101, NULL); INSERT INTO b VALUES ('k', 1)")
    execute("UPDATE a SET v = 'two' WHERE id = 100")
    execute("DELETE FROM a WHERE id < 10; UPDATE b SET n = 2")
    producer.check_equal()


def test_transaction_over_several_tables_lies_in_one_cut(producer: ProducerUnderTest) -> None:
    """I8: never in halves, and its ordinals run over all its tables."""
    producer.database.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    producer.publish("a", "b")
    producer.start_streaming()
    producer.database.execute(
        "INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); DELETE FROM a; INSERT INTO b VALUES (2)"
    )
    with producer.topics() as topics:
        producer.caught_up(topics)
        (cut,) = [cut for cut in topics.cuts() if cut.transactions]
        events = topics.events(cut)
    assert {event.position.commit_lsn for event in events} == {cut.commit_lsn}
    assert [(e.relation.table.name, e.op, e.position.ordinal) for e in events] == [
        ("a", "c", 0), ("b", "c", 1), ("a", "d", 2), ("b", "c", 3),
    ]  # fmt: skip


def test_rows_of_savepoints_rolled_back_never_come(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    producer.publish("t")
    producer.start_streaming()
    with producer.database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO t VALUES (1, 'kept')")
        connection.execute("SAVEPOINT s; INSERT INTO t VALUES (2, 'lost'); ROLLBACK TO s")
        connection.execute("SAVEPOINT s2; INSERT INTO t VALUES (3, 'kept'); RELEASE s2")
        connection.execute("SAVEPOINT s3; DELETE FROM t; ROLLBACK TO s3")
    with producer.database.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute("INSERT INTO t VALUES (4, 'lost')")
    replayed = producer.check_equal()
    assert [row["id"] for row in replayed.rows("public", "t")] == [1, 3]


def test_rows_that_share_an_lsn_survive_restarts(producer: ProducerUnderTest) -> None:
    """Rows of one COPY share an LSN, and a commit's end is the next transaction's LSN: a filter finer
    than transactions loses them (I4)."""
    producer.database.execute("CREATE TABLE t (id serial PRIMARY KEY, v text)")
    producer.publish("t")
    for _ in range(3):
        running = producer.start_streaming()
        with producer.database.connect() as connection:
            with connection.cursor() as cursor, cursor.copy("COPY t (v) FROM STDIN") as copy:
                for i in range(20):
                    copy.write_row((f"copy {i}",))
            connection.execute("INSERT INTO t (v) SELECT 'multi-row' FROM generate_series(1, 20)")
            connection.execute("INSERT INTO t (v) VALUES ('single')")
        with producer.topics() as topics:
            producer.caught_up(topics)
        running.kill()
        producer.database.execute("INSERT INTO t (v) VALUES ('while it was away'), ('and another')")
    producer.start_streaming()
    replayed = producer.check_equal()
    assert len(replayed.rows("public", "t")) == 3 * 43


def test_tables_without_a_key_or_columns_are_followed(producer: ProducerUnderTest) -> None:
    producer.settings["topics"] = {"partitions": 3}
    execute = producer.database.execute
    execute("CREATE TABLE keyless (v text); CREATE TABLE bare (); CREATE TABLE one (id int PRIMARY KEY)")
    execute("INSERT INTO keyless VALUES ('same'), ('same'); INSERT INTO bare DEFAULT VALUES")
    producer.publish("keyless", "bare", "one")
    producer.start_streaming()
    execute("INSERT INTO keyless VALUES ('same'), (NULL); INSERT INTO bare DEFAULT VALUES; INSERT INTO one VALUES (1)")
    replayed = producer.check_equal()
    assert {record.table.name: record.partition_count for record in replayed} == {"keyless": 1, "bare": 1, "one": 3}
    execute("TRUNCATE bare; INSERT INTO bare DEFAULT VALUES")
    assert len(producer.check_equal().rows("public", "bare")) == 1


@pytest.mark.variant(of="test_rows_that_share_an_lsn_survive_restarts")
def test_commit_that_begins_where_the_last_one_ended_is_not_taken_for_done(producer: ProducerUnderTest) -> None:
    """A transaction that began earlier commits right behind: its commit record begins at ``done`` (I4)."""
    producer.database.execute("CREATE TABLE t (id serial PRIMARY KEY, v text)")
    producer.publish("t")
    producer.settings["producer"] = {"idle_cut_interval_ms": 600_000}
    for _ in range(5):
        running = producer.start_streaming()
        with producer.database.connect() as early, producer.topics() as topics:
            with early.transaction():
                early.execute("INSERT INTO t (v) VALUES ('commits second')")
                before = topics.cuts()[-1].cut_id
                producer.database.execute("INSERT INTO t (v) VALUES ('commits first')")
                topics.wait_for_cut(lambda cut, last=before: cut.cut_id > last, "of the first")  # type: ignore[misc]
            running.kill()
            progress = topics.progress()
        second = producer.start_streaming()
        with producer.topics() as topics:
            cut = topics.wait_for_cut(lambda cut, last=before: cut.cut_id > last + 1, "of the second")  # type: ignore[misc]
        second.stop()
        assert progress is not None
        if cut.commit_lsn == progress.done:
            break
    else:
        raise AssertionError("something else was written between the two commits, five times")
    producer.settings["producer"] = {}
    producer.start_streaming()
    producer.check_equal()
