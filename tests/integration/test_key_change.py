"""A changed key: the old one's delete and the new one's create, which knows where it came from."""

from __future__ import annotations

from tests.fix_producer import ProducerUnderTest


def test_key_change_is_a_delete_and_a_create_that_name_each_other(producer: ProducerUnderTest) -> None:
    producer.settings["topics"] = {"partitions": 3}
    execute = producer.database.execute
    execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 9) i"
    )
    producer.publish("t")
    producer.start_streaming()
    execute("UPDATE t SET id = id + 100; UPDATE t SET v = 'after' WHERE id = 101; DELETE FROM t WHERE id = 102")
    producer.check_equal()
    with producer.topics() as topics:
        (cut,) = [cut for cut in topics.cuts() if cut.transactions]
        gone, came = topics.events(cut)[:2]
    assert (gone.op, came.op) == ("d", "c")
    assert gone.position.ordinal + 1 == came.position.ordinal
    assert gone.headers == {"__debezium.newkey": came.key}
    assert came.headers == {"__debezium.oldkey": gone.key}
    assert (came.before_image, came.before) == ("key", gone.before)


def test_swapped_keys_end_as_in_the_source(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE INITIALLY IMMEDIATE, v text)")
    execute("CREATE UNIQUE INDEX t_v ON t (v)")
    execute("ALTER TABLE t ALTER v SET NOT NULL")
    execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_v")
    execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    producer.publish("t")
    producer.start_streaming()
    execute(
        "UPDATE t SET v = 'x' WHERE v = 'a'; UPDATE t SET v = 'a' WHERE v = 'b'; UPDATE t SET v = 'b' WHERE v = 'x'"
    )
    producer.check_equal()
