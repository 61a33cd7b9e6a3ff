"""Two servers that replicate to each other, with a pipeline each; what a copy would take of the other's rows (I7)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.faults.followed import settings_of
from tests.fix_postgres import Database, new_database
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.check.verb import all_findings
from walbridge.embedded.postgres import PostgresServer
from walbridge.init import initialise
from walbridge.schemas.errors import OperatorError

pytestmark = pytest.mark.fault

HELD = 'set [postgres] origin = "any" again; or set [postgres] copy_foreign_rows = true'


@contextlib.contextmanager
def subscribed(source: Database, target: Database) -> Iterator[None]:
    """What is written at the source comes to the target, and what came there from elsewhere does not."""
    dsn = source.dsn.replace("'", "''")
    target.execute(
        f"CREATE SUBSCRIPTION {target.name} CONNECTION '{dsn}' PUBLICATION walbridge "
        "WITH (copy_data = false, origin = none)"
    )
    try:
        yield
    finally:
        target.execute(f"DROP SUBSCRIPTION {target.name}")


def is_alike(one: Database, other: Database) -> None:
    query = "SELECT id, v FROM t ORDER BY id"
    wait_until(lambda: one.rows(query) == other.rows(query), "both servers to have the same rows")


def ids(producer: ProducerUnderTest) -> list[int]:
    with producer.topics() as topics:
        producer.caught_up(topics)
        return sorted(row["id"] for row in topics.replay().rows("public", "t"))


def test_servers_that_replicate_to_each_other_have_a_pipeline_each(
    producer: ProducerUnderTest, postgres_version: Callable[[int], PostgresServer]
) -> None:
    """Each is equal to its server; one that leaves out what the other wrote is told of it, before and after."""
    here = producer.database
    with new_database(postgres_version(16)) as there, contextlib.ExitStack() as stack:
        folder = producer.folder / "there"
        folder.mkdir()
        beyond = replace(producer, name=f"{producer.name}_b", database=there, folder=folder, _running=[], settings={})
        stack.callback(beyond.kill_all)
        for database in (here, there):
            database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION walbridge FOR TABLE t")
        stack.enter_context(subscribed(here, there))
        stack.enter_context(subscribed(there, here))
        producer.start_streaming()
        running = beyond.start_streaming()
        here.execute("INSERT INTO t SELECT n, 'here' FROM generate_series(1, 9) n")
        there.execute("INSERT INTO t SELECT n, 'there' FROM generate_series(11, 19) n")
        is_alike(here, there)
        here.execute("UPDATE t SET v = 'both' WHERE id > 15; DELETE FROM t WHERE id = 1")
        is_alike(here, there)
        producer.check_equal()
        beyond.check_equal()

        running.stop()
        beyond.settings["postgres"] = {"origin": "none"}
        assert HELD in beyond.refusal()
        beyond.settings["postgres"]["copy_foreign_rows"] = True
        running = beyond.start_streaming()
        here.execute("INSERT INTO t VALUES (20, 'here')")
        is_alike(here, there)
        there.execute("INSERT INTO t VALUES (21, 'there')")
        is_alike(here, there)
        assert ids(beyond) == [*range(2, 10), *range(11, 20), 21]
        producer.check_equal()

        running.stop()
        beyond.settings |= {"postgres": {"origin": "any"}, "producer": {"on_table_error": "stop"}}
        refused = beyond.refusal()
        assert "rows of table public.t may be missing that replication brought" in refused
        assert 'where [producer] on_table_error is "stop", set it to "copy" instead' in refused
        beyond.settings["producer"] = {"on_table_error": "copy"}
        beyond.start_streaming().wait_for_log("table is copied")
        beyond.check_equal()


def test_table_that_a_subscription_writes_to_is_copied_once_the_settings_say_so(
    producer: ProducerUnderTest, make_database: Callable[[], Database]
) -> None:
    """Not at first, and not when it comes to the publication; a partition's rows are its root's."""
    target, source = producer.database, make_database()
    parts = (
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);"
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9); INSERT INTO p VALUES (1);"
        "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)"
    )
    for database in (source, target):
        database.execute(parts)
    source.execute("CREATE PUBLICATION pub FOR TABLE p1")
    dsn = source.dsn.replace("'", "''")
    target.execute(
        f"CREATE SUBSCRIPTION s CONNECTION '{dsn}' PUBLICATION pub WITH (enabled = false, create_slot = false, "
        "slot_name = NONE, copy_data = false)"
    )
    try:
        producer.publish("p", "t", options="WITH (publish_via_partition_root = true)")
        producer.settings["postgres"] = {"origin": "none"}
        told = producer.refusal()
        assert "a subscription of this database writes to table public.p," in told
        assert 'set [postgres] origin = "any"' in told
        settings = settings_of(producer)
        with pytest.raises(OperatorError, match="a subscription of this database") as refused:
            initialise(settings, None, lambda line: None)
        found = {finding.text: finding.remedy for finding in all_findings(settings)}
        assert found[refused.value.what] == refused.value.remedy

        target.execute("ALTER PUBLICATION walbridge DROP TABLE p")
        running = producer.start_streaming()
        target.execute("ALTER PUBLICATION walbridge ADD TABLE p")
        running.wait_for_log("a subscription of this database writes to table public.p,")
        running.stop()
        producer.settings["postgres"] = {"origin": "none", "copy_foreign_rows": True}
        producer.start_streaming().wait_for_log("table is copied")
        producer.check_equal()
    finally:
        target.execute("DROP SUBSCRIPTION s")


@pytest.mark.variant(of="test_servers_that_replicate_to_each_other_have_a_pipeline_each")
def test_what_replication_brought_before_its_end_comes_although_the_settings_leave_it_out_by_now(
    producer: ProducerUnderTest, postgres_version: Callable[[int], PostgresServer]
) -> None:
    """I7: the lake has the rows, and no subscription shows any more that changes of them wait in the WAL."""
    here = producer.database
    with new_database(postgres_version(16)) as there:
        for database in (here, there):
            database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION walbridge FOR TABLE t")
        with subscribed(there, here):
            running = producer.start_streaming()
            there.execute("INSERT INTO t SELECT n, 'there' FROM generate_series(1, 9) n")
            is_alike(here, there)
            assert ids(producer) == [*range(1, 10)]
            running.stop()
            there.execute("DELETE FROM t WHERE id < 6")
            is_alike(here, there)

        producer.settings["postgres"] = {"origin": "none"}
        running = producer.start_streaming()
        here.execute("INSERT INTO t VALUES (10, 'here')")
        assert ids(producer) == [*range(6, 11)]
        running.wait_for_log("what replication brings is left out from now on")
        here.execute("INSERT INTO t VALUES (11, 'here')")
        producer.check_equal()
