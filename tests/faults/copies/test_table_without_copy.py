"""A table that comes after the copy and cannot be copied is called stale, and all others go on (I7, I8).

Its key has no order that its rows could be read in, and its old rows are not complete.
"""

from __future__ import annotations

import pytest

from tests.faults.one_table import make_table
from tests.fix_producer import ProducerUnderTest
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.position import parse_lsn

pytestmark = pytest.mark.fault
WITHOUT_ORDER = "the key of public.{} has no order to read its rows by, and its old rows are not complete"
LONE = "CREATE OPERATOR CLASS lone FOR TYPE int4 USING btree AS OPERATOR 1 <, FUNCTION 1 btint4cmp(int4, int4)"
MADE = """
    CREATE TABLE {0} (id int NOT NULL);
    CREATE UNIQUE INDEX ON {0} (id lone);
    ALTER TABLE {0} REPLICA IDENTITY USING INDEX {0}_id_idx
"""


def progress_of(producer: ProducerUnderTest) -> Progress:
    with producer.topics() as topics:
        producer.caught_up(topics)
        progress = topics.progress()
    assert progress is not None
    return progress


def test_table_that_is_created_and_written_to_is_stale_and_the_others_go_on(producer: ProducerUnderTest) -> None:
    """FOR ALL TABLES: nothing takes the INSERT out of the WAL again, so a stop would be for good."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start_streaming()
    before = producer.database.value("SELECT pg_current_wal_insert_lsn()::text")
    execute(LONE)
    execute(MADE.format("u"))
    execute("BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); INSERT INTO t VALUES (2); COMMIT")
    execute("INSERT INTO u VALUES (2); INSERT INTO t VALUES (3)")
    execute("TRUNCATE t, u; INSERT INTO t VALUES (4)")
    running.wait_for_log("is not published")
    producer.check_equal(never_copied=frozenset({"u"}))

    progress = progress_of(producer)
    (stale,) = [table for table in progress.tables.values() if table.state != "current"]
    assert (stale.relation_id, stale.state) == (producer.database.value("SELECT 'u'::regclass::oid::int"), "stale")
    assert (stale.name, stale.why) == ("public.u", WITHOUT_ORDER.format("u"))
    assert stale.since is not None
    assert parse_lsn(before) < stale.since <= progress.done
    assert running.log.count("is not published") == 1
    running.stop()

    running = producer.start_streaming()
    execute("INSERT INTO u VALUES (5); INSERT INTO t VALUES (5)")
    running.wait_for_log("is not published")
    producer.check_equal(never_copied=frozenset({"u"}))
    assert running.log.count("is not published") == 1, "once a session"
    assert progress_of(producer).tables[stale.relation_id] == stale


@pytest.mark.variant(of="test_table_that_is_created_and_written_to_is_stale_and_the_others_go_on")
def test_table_that_is_added_is_stale_before_its_first_change(producer: ProducerUnderTest) -> None:
    """A look at the publication finds it. The remedy is told once."""
    make_table(producer)
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute(LONE)
    producer.database.execute(f"{MADE.format('late')}; ALTER PUBLICATION walbridge ADD TABLE late")
    running.wait_for_log("is not published")
    producer.database.execute("INSERT INTO t VALUES (2)")
    producer.check_equal(never_copied=frozenset({"late"}))
    producer.database.execute("INSERT INTO late VALUES (1); INSERT INTO t VALUES (3)")
    producer.check_equal(never_copied=frozenset({"late"}))
    (told,) = [line for line in running.log.splitlines() if "is not published" in line]
    assert "table=public.late" in told
    assert "REPLICA IDENTITY FULL, or give it another primary key" in told


@pytest.mark.variant(of="test_table_that_is_created_and_written_to_is_stale_and_the_others_go_on")
def test_table_made_again_under_its_name_is_stale_and_its_events_are_not_mixed_with_those_of_the_old_one(
    producer: ProducerUnderTest,
) -> None:
    execute = producer.database.execute
    execute(LONE)
    execute(f"CREATE TABLE t (id int PRIMARY KEY); {MADE.format('u')}")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start_streaming()
    execute("INSERT INTO u VALUES (1); INSERT INTO t VALUES (1)")
    execute(f"DROP TABLE u; {MADE.format('u')}; INSERT INTO u VALUES (2); INSERT INTO t VALUES (2)")
    running.wait_for_log("is not published")
    running.wait_for_log("left the publication")
    execute("INSERT INTO t VALUES (3)")

    with producer.topics() as topics:
        producer.caught_up(topics)
        replayed = topics.replay()
    assert [row["id"] for row in replayed.rows("public", "u")] == [1]
    assert sorted(row["id"] for row in replayed.rows("public", "t")) == [1, 2, 3]
    states = sorted(
        (table.state, table.why) for table in progress_of(producer).tables.values() if table.state != "current"
    )
    assert states == [("dropped", None), ("stale", WITHOUT_ORDER.format("u"))]
