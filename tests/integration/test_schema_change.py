"""ADD and DROP COLUMN while the producer runs, also within one batch."""

from __future__ import annotations

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
