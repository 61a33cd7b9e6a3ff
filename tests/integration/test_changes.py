"""Inserts, updates, deletes, truncates: what is committed is what readers get, once, in order."""

from __future__ import annotations

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
