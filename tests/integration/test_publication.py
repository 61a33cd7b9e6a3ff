"""Row filters, column lists, partitioned tables: the copy takes what the stream takes."""

from __future__ import annotations

import pytest

from tests.fix_producer import KILLED, ProducerUnderTest
from tests.in_soak import in_soak
from tests.integration.test_toast import BIG


def test_row_filters_and_column_lists_hold_in_copy_and_stream(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute(
        "CREATE TABLE f (id int PRIMARY KEY, n int, v text);"
        "CREATE TABLE l (a text, id int PRIMARY KEY, secret text, b int)"
    )
    execute("INSERT INTO f SELECT i, i, 'v' FROM generate_series(1, 20) i; INSERT INTO l VALUES ('a', 1, 'secret', 2)")
    producer.publish("f WHERE (id > 10 AND n <> 15)", "l (b, id, a)")
    execute("ALTER TABLE f REPLICA IDENTITY FULL")
    producer.start_streaming()
    execute("INSERT INTO f VALUES (5000, 1, 'in'), (0, 1, 'out'); INSERT INTO l VALUES ('x', 2, 'secret', 3)")
    # Into the filter, out of it, and within.
    execute("UPDATE f SET n = 1 WHERE id = 15; UPDATE f SET n = 15 WHERE id = 16; UPDATE f SET v = 'w' WHERE id = 17")
    execute("UPDATE l SET secret = 'other'; UPDATE l SET a = 'z' WHERE id = 1; DELETE FROM f WHERE id < 12")
    replayed = producer.check_equal(filters={"public.f": "id > 10 AND n <> 15"})
    assert [c.name for r in replayed if r.table.name == "l" for c in r.table.columns] == ["a", "id", "b"]
    with producer.topics() as topics:
        for relation in replayed:
            assert not [m for m in topics.reader(relation.topic).read_to_end() if b"secret" in (m.value() or b"")]


FILTERED = """
CREATE TABLE f (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY);
INSERT INTO f VALUES (7, 'small'); INSERT INTO u VALUES (0);
"""


def test_filter_that_may_lose_values_is_refused_before_there_is_a_slot(producer: ProducerUnderTest) -> None:
    """I6: afterwards no ALTER brings the values back."""
    producer.database.execute(FILTERED)
    producer.publish("f WHERE (id > 5)", "u")
    words = producer.refusal()
    assert "public.f" in words
    assert "unchanged values of v" in words
    assert "ALTER TABLE public.f REPLICA IDENTITY FULL; or set [producer] on_unknown_value" in words
    assert (
        producer.database.rows("SELECT slot_name FROM pg_replication_slots WHERE slot_name = %s", [producer.slot]) == []
    )


def test_update_that_enters_a_filter_without_its_toast_makes_its_table_stale_until_it_fits(
    producer: ProducerUnderTest,
) -> None:
    """I6: Postgres sends it as an insert that lacks the value; a guess would be wrong."""
    execute = producer.database.execute
    execute(f"{FILTERED} ALTER TABLE f REPLICA IDENTITY FULL")
    producer.publish("f WHERE (id > 5)", "u")
    running = producer.start_streaming()
    execute(f"ALTER TABLE f REPLICA IDENTITY DEFAULT; INSERT INTO f VALUES (1, {BIG % 1})")
    execute("UPDATE f SET id = 11 WHERE id = 1")
    running.wait_for_log("an INSERT into public.f lacks the unchanged TOAST value of v")
    running.wait_for_log("or set [producer] on_unknown_value")
    running.stop()
    running = producer.start_streaming()
    execute("ALTER TABLE f REPLICA IDENTITY FULL; INSERT INTO u VALUES (1)")
    running.wait_for_log("table is copied")
    execute(f"INSERT INTO f VALUES (2, {BIG % 1}); UPDATE f SET id = 12 WHERE id = 2")
    producer.check_equal({"public.f": "id > 5"})


@pytest.mark.parametrize("streaming", [in_soak("off"), "on"])
def test_table_that_lost_a_value_is_left_where_settings_say_so(producer: ProducerUnderTest, streaming: str) -> None:
    """I6, I7, I8: the cut says from where on; its changes are no more, those of others go on, also after a kill."""
    execute = producer.database.execute
    execute(f"{FILTERED} ALTER DATABASE {producer.database.name} SET logical_decoding_work_mem = '64kB'")
    producer.settings["postgres"] = {"streaming": streaming}
    producer.publish("f WHERE (id > 5)", "u")
    producer.settings["producer"] = {"on_unknown_value": "stale", "batch_rows_max": 300}
    running = producer.start_streaming(kill_point="produce:split:5")
    execute(f"INSERT INTO f VALUES (1, {BIG % 1}), (8, 'before')")
    execute(
        "INSERT INTO f VALUES (9, 'in the same transaction'); UPDATE f SET id = 11 WHERE id = 1;"
        "INSERT INTO u SELECT generate_series(1, 1000); INSERT INTO f SELECT generate_series(100, 3000), 'never';"
        "UPDATE f SET v = 'never'; DELETE FROM f WHERE id = 8; INSERT INTO u SELECT generate_series(1001, 2000)"
    )
    # In the middle of that transaction, behind changes that are left out: they count when it is resumed (I4).
    assert running.exit_code() == KILLED
    assert "table is followed no more" in running.log
    assert ("kind=StreamCommit" in running.log) == (streaming == "on")
    running = producer.start_streaming()
    execute("INSERT INTO u VALUES (-1)")
    with producer.topics() as topics:
        producer.caught_up(topics)
    running.kill()
    execute("UPDATE f SET v = 'never'; DELETE FROM u WHERE id = 5; TRUNCATE f, u; INSERT INTO u VALUES (1), (2)")
    running = producer.start_streaming()
    with producer.topics() as topics:
        producer.caught_up(topics)
        replayed = topics.replay()
        cuts = topics.cuts()
        topics.check_nothing_else()
        progress = topics.progress()
    assert replayed.rows("public", "u") == [{"id": 1}, {"id": 2}]
    assert {row["id"]: row["v"] for row in replayed.rows("public", "f")} == {
        7: "small", 8: "before", 9: "in the same transaction"
    }  # fmt: skip
    f, u = (producer.database.value(f"SELECT '{name}'::regclass::oid::int") for name in "fu")
    barriers = [barrier for cut in cuts for table in cut.tables if table.relation_id == f for barrier in table.barriers]
    assert (barriers[-1].kind, barriers[-1].position.ordinal) == ("dropped", 1)
    assert progress is not None
    assert progress.relation_ids == (u,)
    producer.settings["producer"] = {}
    running.stop()
    producer.start_streaming()


def test_partitioned_table_is_one_table_through_its_root(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE p (id int, day date, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)")
    execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')")
    # Another order of columns below the root.
    execute("CREATE TABLE p2 (v text, day date NOT NULL, id int NOT NULL, PRIMARY KEY (id, day))")
    execute("ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')")
    execute("INSERT INTO p VALUES (1, '2024-02-02', 'a'), (2, '2025-02-02', 'b')")
    # The key of a root alone holds for no row below it.
    execute("CREATE TABLE r (id int NOT NULL, n int) PARTITION BY LIST (id); CREATE TABLE r1 PARTITION OF r DEFAULT")
    execute("ALTER TABLE ONLY r ADD PRIMARY KEY (id); INSERT INTO r VALUES (1, 1), (1, 2)")
    execute("ALTER TABLE r REPLICA IDENTITY FULL; ALTER TABLE r1 REPLICA IDENTITY FULL")
    producer.publish("p", "r", options="WITH (publish_via_partition_root = true)")
    producer.start_streaming()
    execute("DELETE FROM r WHERE n = 1")
    execute(
        "INSERT INTO p VALUES (3, '2025-03-03', 'c'); UPDATE p SET day = '2025-02-02' WHERE id = 1;"
        "DELETE FROM p WHERE id = 2"
    )
    execute("CREATE TABLE p3 PARTITION OF p FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')")
    execute("INSERT INTO p VALUES (4, '2026-06-06', 'd'); UPDATE p SET v = 'e'")
    replayed = producer.check_equal()
    assert {r.table.name: [column.name for column in r.table.key_columns] for r in replayed} == {
        "p": ["id", "day"],
        "r": [],
    }
    execute("TRUNCATE p")
    assert producer.check_equal().rows("public", "p") == []


@pytest.mark.variant(of="test_partitioned_table_is_one_table_through_its_root")
def test_partitions_published_as_themselves_are_tables_of_their_own(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
    execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)")
    execute("INSERT INTO p VALUES (1), (11)")
    producer.publish("p")
    producer.start_streaming()
    execute("INSERT INTO p VALUES (2), (12); UPDATE p SET id = 13 WHERE id = 2")
    replayed = producer.check_equal()
    assert sorted(r.table.name for r in replayed) == ["p1", "p2"]


@pytest.mark.variant(of="test_partitioned_table_is_one_table_through_its_root")
def test_inheritance_children_are_copied_once(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)")
    execute("INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2)")
    producer.publish("parent")
    producer.start_streaming()
    execute("INSERT INTO parent VALUES (3); INSERT INTO child VALUES (4)")
    replayed = producer.check_equal()
    assert sorted(r.table.name for r in replayed) == ["child", "parent"]


def test_publication_is_made_when_settings_name_its_tables(producer: ProducerUnderTest) -> None:
    producer.database.execute(
        'CREATE TABLE "T" (id int PRIMARY KEY); CREATE SCHEMA s; CREATE TABLE s.u (id int PRIMARY KEY)'
    )
    producer.settings["postgres"] = {"publication_tables": ["T", "s.u"]}
    producer.start_streaming()
    producer.database.execute('INSERT INTO "T" VALUES (1); INSERT INTO s.u VALUES (1)')
    assert sorted(r.table.qualified_name for r in producer.check_equal()) == ["public.T", "s.u"]


@pytest.mark.variant(of="test_a_table_that_is_being_altered_is_not_waited_for")
def test_table_that_is_being_altered_holds_up_no_start(producer: ProducerUnderTest) -> None:
    """I1: an ALTER may take hours, or wait prepared; meanwhile the other tables go on, and WAL is let go."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u")
    producer.start_streaming().stop()
    with producer.database.connect() as connection, connection.transaction():
        connection.execute("ALTER TABLE t ADD c int; INSERT INTO t VALUES (1, 1)")
        execute("INSERT INTO u VALUES (1)")
        producer.start().wait_for_log("streaming", 20)
        with producer.topics() as topics:
            producer.caught_up(topics)
    producer.check_equal()
