"""Every replica identity: the key that readers get, and what they are told of old rows."""

from __future__ import annotations

import pytest

from tests.fix_producer import ProducerUnderTest


def test_every_identity_replays_to_the_source(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE by_pk (id int PRIMARY KEY, v text)")
    execute("CREATE TABLE by_index (id int PRIMARY KEY, code text NOT NULL UNIQUE, v text)")
    execute("ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_code_key")
    execute("CREATE TABLE full_pk (id int PRIMARY KEY, v text); ALTER TABLE full_pk REPLICA IDENTITY FULL")
    execute("CREATE TABLE full_keyless (v text, n int); ALTER TABLE full_keyless REPLICA IDENTITY FULL")
    execute("CREATE TABLE nothing_pk (id int PRIMARY KEY, v text); ALTER TABLE nothing_pk REPLICA IDENTITY NOTHING")
    insert = """INSERT INTO by_pk VALUES (%(a)s, 'v'), (%(b)s, 'v');
        INSERT INTO by_index VALUES (%(a)s, 'c%(a)s', 'v'), (%(b)s, 'c%(b)s', 'v');
        INSERT INTO full_pk VALUES (%(a)s, 'v'), (%(b)s, NULL);
        INSERT INTO full_keyless VALUES ('same', NULL), ('same', NULL), ('other', %(a)s);
        INSERT INTO nothing_pk VALUES (%(a)s, 'v'), (%(b)s, 'v')""".replace("%(", "{").replace(")s", "}")
    execute(insert.format(a=1, b=2))
    producer.publish("by_pk", "by_index", "full_pk", "full_keyless", "nothing_pk")
    producer.start_streaming()
    execute(insert.format(a=3, b=4))
    execute("UPDATE by_pk SET v = 'w' WHERE id = 1; DELETE FROM by_pk WHERE id = 2")
    # The primary key beside the identity index: an ordinary column to the stream.
    execute(
        "UPDATE by_index SET id = 11 WHERE id = 1; UPDATE by_index SET code = 'new' WHERE id = 2;"
        "DELETE FROM by_index WHERE id = 3"
    )
    execute(
        "UPDATE full_pk SET v = 'w' WHERE id = 1; UPDATE full_pk SET id = 5 WHERE id = 2;"
        "DELETE FROM full_pk WHERE id = 3"
    )
    execute("DELETE FROM full_keyless WHERE ctid = (SELECT min(ctid) FROM full_keyless WHERE v = 'same')")
    execute("UPDATE full_keyless SET n = 9 WHERE ctid = (SELECT min(ctid) FROM full_keyless WHERE v = 'same')")
    replayed = producer.check_equal()
    keys = {r.table.name: [column.name for column in r.table.key_columns] for r in replayed}
    assert keys == {
        "by_pk": ["id"],
        "by_index": ["code"],
        "full_pk": ["id"],
        "full_keyless": [],
        "nothing_pk": ["id"],
    }
    with producer.topics() as topics:
        events = [event for cut in topics.cuts() for event in topics.events(cut)]
    images = {(event.relation.table.name, event.op, event.before_image) for event in events if event.before}
    assert images == {
        ("by_pk", "d", "key"),
        ("by_index", "d", "key"),
        ("by_index", "c", "key"),
        ("full_pk", "u", "full"),
        ("full_pk", "d", "full"),
        ("full_pk", "c", "full"),
        ("full_keyless", "u", "full"),
        ("full_keyless", "d", "full"),
    }


def test_identity_that_changes_while_running_is_followed(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    producer.publish("t")
    producer.start_streaming()
    execute("UPDATE t SET v = 'c' WHERE id = 1; ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET v = 'd' WHERE id = 2")
    execute("ALTER TABLE t REPLICA IDENTITY DEFAULT; DELETE FROM t WHERE id = 1")
    producer.check_equal()


def test_delete_of_one_of_equal_rows_before_a_key_was_added_takes_one(producer: ProducerUnderTest) -> None:
    """I8. Under FULL the stream tells no key, and that of the catalogue is younger than the delete."""
    execute = producer.database.execute
    execute("CREATE TABLE t (a int, b text); ALTER TABLE t REPLICA IDENTITY FULL")
    execute("INSERT INTO t VALUES (1, 'x'), (1, 'x')")
    producer.publish("t")
    producer.start_streaming().stop()
    execute("DELETE FROM t WHERE ctid = (SELECT min(ctid) FROM t)")
    execute("ALTER TABLE t ALTER a SET NOT NULL, ADD PRIMARY KEY (a); INSERT INTO t VALUES (2, 'y')")
    producer.start_streaming()
    execute("UPDATE t SET b = 'z' WHERE a = 1; DELETE FROM t WHERE a = 2")
    producer.check_equal()


@pytest.mark.variant(of="test_delete_of_one_of_equal_rows_before_a_key_was_added_takes_one")
def test_rows_that_were_equal_while_a_key_was_away_are_told_apart(producer: ProducerUnderTest) -> None:
    """I8. Under FULL the stream tells no key, and that of the catalogue is there again when the changes are read."""
    execute = producer.database.execute
    execute("CREATE TABLE t (a int PRIMARY KEY, b text); ALTER TABLE t REPLICA IDENTITY FULL")
    execute("INSERT INTO t VALUES (1, 'x')")
    producer.publish("t")
    producer.start_streaming().stop()
    execute(
        "ALTER TABLE t DROP CONSTRAINT t_pkey; INSERT INTO t VALUES (1, 'y'), (2, 'z'); DELETE FROM t WHERE b = 'x'"
    )
    execute("ALTER TABLE t ADD PRIMARY KEY (a)")
    running = producer.start_streaming()
    running.wait_for_log("table is copied")
    execute("UPDATE t SET b = 'w' WHERE a = 2")
    producer.check_equal()
    assert "the primary key of table public.t was dropped and made again" in running.log


@pytest.mark.variant(of="test_identity_that_changes_while_running_is_followed")
def test_table_dropped_before_its_changes_were_read_keeps_the_key_it_had(producer: ProducerUnderTest) -> None:
    """I3, I7: several partitions have no order without a key, which nobody can give back to a table that is gone."""
    producer.settings["topics"] = {"partitions": 2}
    execute = producer.database.execute
    execute(
        "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY FULL; CREATE TABLE u (id int PRIMARY KEY)"
    )
    producer.publish("t", "u")
    producer.start_streaming().stop()
    execute("INSERT INTO t VALUES (1), (2)")
    execute("DROP TABLE t; INSERT INTO u VALUES (1)")
    producer.start_streaming()
    with producer.topics() as topics:
        producer.caught_up(topics)
        rows = topics.replay().rows("public", "t")
    assert sorted(row["id"] for row in rows) == [1, 2]
