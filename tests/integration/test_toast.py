"""Values stored out of line: what an update leaves alone stays known, and is never sent as null (I6)."""

from __future__ import annotations

import pytest

from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from walbridge.schemas.pg_types import BUILTIN_NAMES, column_type

BIG = "(SELECT string_agg(md5(i::text || %d), '') FROM generate_series(1, 16000) i)"
"""512 kB that do not compress."""


def test_type_that_postgres_stores_out_of_line_is_one_that_an_update_may_leave_out(database: Database) -> None:
    stored = database.rows(
        "SELECT oid::int8 FROM pg_type WHERE typstorage <> 'p' AND oid::int8 = ANY(%s)", (list(BUILTIN_NAMES),)
    )

    assert len(stored) > len(BUILTIN_NAMES) / 2  # every array, and many more
    assert [oid for (oid,) in stored if not column_type(oid, -1, {}).may_be_toasted] == []


def test_unchanged_toast_survives_updates_of_other_columns(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, n int, big text, other text)")
    execute(f"INSERT INTO t VALUES (1, 0, {BIG % 1}, {BIG % 2}), (2, 0, {BIG % 3}, NULL)")
    producer.publish("t")
    running = producer.start_streaming()
    execute(
        f"UPDATE t SET n = 1; INSERT INTO t VALUES (3, 0, {BIG % 4}, {BIG % 5}); UPDATE t SET n = n + 1 WHERE id = 3"
    )
    execute(f"UPDATE t SET other = {BIG % 6} WHERE id = 1; UPDATE t SET big = 'small' WHERE id = 2")
    execute(f"UPDATE t SET big = {BIG % 7} WHERE id = 1")
    execute("UPDATE t SET n = 5, other = NULL WHERE id = 3")
    running.stop()
    execute("UPDATE t SET id = id + 10; UPDATE t SET n = 7 WHERE id = 11")
    producer.start_streaming()
    producer.check_equal()
    with producer.topics() as topics:
        events = [event for cut in topics.cuts() for event in topics.events(cut)]
    assert {event.unchanged for event in events if event.op == "u"} >= {("big",), ("other",), ("big", "other")}
    assert all((event.after or {})[name] is None for event in events for name in event.unchanged)


@pytest.mark.variant(of="test_unchanged_toast_survives_updates_of_other_columns")
def test_toasted_key_is_known_in_every_event(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    key = "(SELECT string_agg(md5((i + %d)::text), '') FROM generate_series(1, 70) i)"  # 2.2 kB fit an index
    execute("CREATE TABLE t (k text PRIMARY KEY, v text, n int)")
    execute("ALTER TABLE t ALTER k SET STORAGE EXTERNAL, ALTER v SET STORAGE EXTERNAL")
    execute(f"INSERT INTO t VALUES ({key % 1}, {BIG % 1}, 0)")
    producer.publish("t")
    producer.start_streaming()
    execute("UPDATE t SET n = 1; UPDATE t SET n = 2")
    execute(
        f"UPDATE t SET k = {key % 2}; UPDATE t SET n = 3; INSERT INTO t VALUES ({key % 9}, 'v', 1);"
        "DELETE FROM t WHERE n = 1"
    )
    producer.check_equal()


@pytest.mark.variant(of="test_unchanged_toast_survives_updates_of_other_columns")
def test_full_identity_leaves_nothing_unknown(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, n int, big text); ALTER TABLE t REPLICA IDENTITY FULL")
    execute("CREATE TABLE k (n int, big text); ALTER TABLE k REPLICA IDENTITY FULL")
    execute(f"INSERT INTO t VALUES (1, 0, {BIG % 1}); INSERT INTO k VALUES (0, {BIG % 2}), (0, {BIG % 2})")
    producer.publish("t", "k")
    producer.start_streaming()
    execute("UPDATE t SET n = 1; UPDATE t SET id = 2; UPDATE k SET n = 1")
    producer.check_equal()
    with producer.topics() as topics:
        assert not any(event.unchanged for cut in topics.cuts() for event in topics.events(cut))
