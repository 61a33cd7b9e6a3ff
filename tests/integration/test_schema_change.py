"""ADD and DROP COLUMN while the producer runs, also within one batch."""

from __future__ import annotations

import pytest

from tests.fix_producer import ProducerUnderTest
from walbridge.schemas.position import Position


def test_columns_added_and_dropped_between_changes_are_followed(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, a text); INSERT INTO t VALUES (1, 'a')")
    producer.publish("t")
    running = producer.start_streaming()
    execute("INSERT INTO t VALUES (2, 'a')")
    execute("ALTER TABLE t ADD b int")
    execute("INSERT INTO t VALUES (3, 'a', 3); UPDATE t SET b = 1 WHERE id = 1")
    execute("ALTER TABLE t DROP a")
    execute("INSERT INTO t VALUES (4, 4)")
    producer.check_equal()
    running.stop()
    execute("INSERT INTO t VALUES (5, 5); ALTER TABLE t ADD c timestamptz; INSERT INTO t VALUES (6, 6, '2020-02-02')")
    producer.start_streaming()
    execute("INSERT INTO t VALUES (7, 7, now())")
    producer.check_equal()


def test_column_with_a_value_comes_to_a_partitioned_table_without_a_copy(producer: ProducerUnderTest) -> None:
    """I8: partitions hold the value, the root tells it. A partition that was attached numbers its columns otherwise,
    one that comes later has no older rows."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)")
    execute("CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    execute("CREATE TABLE t_2 (gone int, a text, id int NOT NULL PRIMARY KEY); ALTER TABLE t_2 DROP gone")
    execute("ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (10) TO (20)")
    execute("INSERT INTO t SELECT n, 'a' FROM generate_series(1, 19) n")
    execute("CREATE PUBLICATION walbridge FOR TABLE t WITH (publish_via_partition_root = true)")
    running = producer.start_streaming()
    execute("ALTER TABLE t ADD b int DEFAULT 7")
    execute("CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM (20) TO (30)")
    execute("INSERT INTO t VALUES (20, 'a', 1)")
    replayed = producer.check_equal()
    assert [row["b"] for row in replayed.rows("public", "t")].count(7) == 19
    execute("ALTER TABLE t ADD c timestamptz DEFAULT now(), ALTER b SET DEFAULT 8")
    execute("UPDATE t SET a = 'b' WHERE id = 15; INSERT INTO t VALUES (3 + 18, 'a')")
    producer.check_equal()
    running.stop()
    execute("ALTER TABLE t ADD d text DEFAULT 'd'; UPDATE t SET id = 12 WHERE id = 2 AND false; ANALYZE t")
    execute("UPDATE t SET a = 'c' WHERE id = 1")
    producer.start_streaming()
    producer.check_equal()
    with producer.topics() as topics:
        kinds = [barrier.kind for cut in topics.cuts() for table in cut.tables for barrier in table.barriers]
    assert {*kinds} == {"copy_begin", "copy_end", "shape"}
    assert kinds.count("copy_begin") == 1


def test_shapes_that_follow_each_other_in_one_transaction_keep_all_rows(producer: ProducerUnderTest) -> None:
    """Offsets of rows sent before the new shape count like those after it: one batch, one range."""
    producer.settings["topics"] = {"partitions": 2}
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u")
    producer.start_streaming()
    execute(
        "INSERT INTO t VALUES (1, 'a'), (2, 'a'); INSERT INTO u VALUES (1); ALTER TABLE t ADD b int;"
        "INSERT INTO t VALUES (3, 'a', 3); ALTER TABLE t DROP a; INSERT INTO t VALUES (4, 4);"
        "DELETE FROM t WHERE id = 2"
    )
    producer.check_equal()
    with producer.topics() as topics:
        (cut,) = [cut for cut in topics.cuts() if cut.transactions]
        events = topics.events(cut)
    (changes,) = [table for table in cut.tables if len(table.schema_ids) > 1]
    first_of: dict[str, Position] = {}
    for event in events:
        if event.relation.table.name == "t":
            first_of.setdefault(event.relation.schema_id, event.position)
    assert {b.schema_id: b.position for b in changes.barriers if b.kind == "shape"} == first_of


@pytest.mark.variant(of="test_columns_added_and_dropped_between_changes_are_followed")
def test_repeated_announcement_is_no_new_shape(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TYPE mood AS ENUM ('a', 'b'); CREATE DOMAIN small AS numeric(4, 2) CHECK (value < 9)")
    execute("CREATE TABLE t (id int PRIMARY KEY, a text, m mood, ms mood[], s small, u uuid[], n numeric, r int4range)")
    producer.publish("t")
    running = producer.start_streaming()
    execute("INSERT INTO t VALUES (1, 'a', 'a', '{b}', 1, NULL, 2, '[1,2)')")
    execute("ANALYZE t")
    execute("INSERT INTO t VALUES (2, 'a'); CREATE INDEX ON t (a)")
    execute("INSERT INTO t VALUES (3, 'a')")
    producer.check_equal()
    running.stop()
    producer.start_streaming()
    execute("INSERT INTO t VALUES (4, 'a')")
    producer.check_equal()
    with producer.topics() as topics:
        assert len(topics.relations()) == 1
