"""DDL that is told in the stream leaves a table at that very position, and needs no copy where no row changed (I8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.followed import settings_of
from tests.faults.tables.test_table_trouble import barriers_of
from tests.faults.tables.test_unsaid_rows import check_copied
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, Running
from tests.in_soak import in_soak
from tests.wait import wait_until
from walbridge.ddl_trigger import make, remove
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.position import parse_lsn
from walbridge.tables.copy import copy

pytestmark = pytest.mark.fault

NEWEST = 0
TABLES = """
    CREATE TABLE t (id int PRIMARY KEY, v int, w text); INSERT INTO t SELECT i, i FROM generate_series(1, 9) i;
    CREATE TABLE r (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
    CREATE TABLE r_a PARTITION OF r FOR VALUES FROM (0) TO (10);
    CREATE TABLE r_b (LIKE r INCLUDING ALL); INSERT INTO r_b VALUES (10, 'b');
    INSERT INTO r SELECT i, 'v' || i FROM generate_series(0, 9) i"""


def tell(database: Database) -> None:
    with database.connect() as connection, connection.transaction():
        make(connection, lambda line: None)


@pytest.fixture(params=[in_soak(12), NEWEST])
def telling(
    request: pytest.FixtureRequest, producer: ProducerUnderTest, producer_on: Callable[[int], ProducerUnderTest]
) -> ProducerUnderTest:
    """A pipeline whose source tells DDL, from its first copy on."""
    made = producer_on(request.param) if request.param else producer
    made.database.execute(TABLES)
    tell(made.database)
    publish(made, request.param)
    return made


def publish(producer: ProducerUnderTest, major: int, tables: str = "FOR TABLE t, r") -> None:
    """Before 13 no root can be published."""
    via_root = "" if major == 12 else "WITH (publish_via_partition_root = true)"
    producer.database.execute(
        f"CREATE PUBLICATION walbridge {tables if major != 12 else tables.replace(', r', '')} {via_root}"
    )


def lsn_behind(producer: ProducerUnderTest) -> int:
    return parse_lsn(producer.database.value("SELECT pg_current_wal_insert_lsn()::text"))


def left_at(producer: ProducerUnderTest, name: str) -> list[Barrier]:
    with producer.topics() as topics:
        producer.caught_up(topics)
        barriers = [b for c in topics.cuts() for t in c.tables if t.topic.endswith(f".{name}") for b in t.barriers]
    return [each for each in barriers if each.kind == "dropped"]


def check_left_between(producer: ProducerUnderTest, name: str, before: int, after: int) -> None:
    """Once, by the transaction that wrote its commit between these two."""
    (barrier,) = left_at(producer, name)
    assert before <= barrier.position.commit_lsn < after


def wait_for_copies(running: Running, count: int = 1) -> None:
    wait_until(lambda: running.log.count("table is copied") >= count, f"{count} copies")


@pytest.mark.variant(of="test_rewrite_inside_a_streamed_transaction_is_told_at_its_place")
def test_table_is_left_where_it_was_rewritten_however_late_that_is_read(telling: ProducerUnderTest) -> None:
    """What was committed before is published, and so is what came before it in its transaction."""
    execute = telling.database.execute
    telling.start_streaming().stop()
    execute("INSERT INTO t VALUES (100, 1)")
    execute("INSERT INTO t VALUES (101, 1)")
    before = lsn_behind(telling)
    execute(
        "INSERT INTO t VALUES (102, 1); ALTER TABLE t ALTER v TYPE int USING v * 100; INSERT INTO t VALUES (103, 1)"
    )
    after = lsn_behind(telling)
    execute("INSERT INTO t VALUES (104, 1)")

    running = telling.start_streaming()

    wait_for_copies(running)
    check_left_between(telling, "t", before, after)
    (barrier,) = left_at(telling, "t")
    assert barrier.position.ordinal == 1
    telling.check_equal()


@pytest.mark.variant(of="test_rewrite_inside_a_streamed_transaction_is_told_at_its_place")
@pytest.mark.parametrize(
    "statement",
    [
        in_soak("ALTER TABLE t ADD COLUMN n float DEFAULT random()"),
        "ALTER TABLE t ALTER v TYPE bigint USING v * 100",
    ],
)
def test_table_that_is_rewritten_under_load_is_copied_once(telling: ProducerUnderTest, statement: str) -> None:
    running = telling.start_streaming()
    telling.check_equal()
    before = lsn_behind(telling)
    telling.database.execute(statement)
    after = lsn_behind(telling)
    for number in range(20):
        telling.database.execute(f"UPDATE t SET v = {number} WHERE id < 5")
    wait_for_copies(running)
    telling.check_equal()
    assert barriers_of(telling, "t") == ["dropped", "copy_begin", "copy_end"]
    check_left_between(telling, "t", before, after)


@pytest.mark.variant(of="test_rewrite_inside_a_streamed_transaction_is_told_at_its_place")
def test_rewrite_that_is_rolled_back_to_a_savepoint_costs_nothing(telling: ProducerUnderTest) -> None:
    running = telling.start_streaming()
    with telling.database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO t VALUES (100, 1)")
        with connection.transaction(force_rollback=True):
            connection.execute("ALTER TABLE t ALTER v TYPE int USING v * 100")
        connection.execute("INSERT INTO t VALUES (101, 1)")
    telling.check_equal()
    assert barriers_of(telling, "t") == []
    assert "table is stale" not in running.log


def test_rewrite_inside_a_streamed_transaction_is_told_at_its_place(producer: ProducerUnderTest) -> None:
    """A savepoint that is rolled back takes its row along; the one that is kept leaves the table at its ordinal."""
    telling = producer
    telling.database.execute(f"ALTER DATABASE {telling.database.name} SET logical_decoding_work_mem = '64kB'")
    telling.database.execute(TABLES)
    tell(telling.database)
    publish(telling, NEWEST)
    running = telling.start_streaming()
    before = lsn_behind(telling)
    with telling.database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO t SELECT i, i, repeat('x', 500) FROM generate_series(1000, 2999) i")
        with connection.transaction(force_rollback=True):
            connection.execute("ALTER TABLE t ALTER v TYPE int USING v * 7")
            connection.execute("INSERT INTO t SELECT i, i, repeat('x', 500) FROM generate_series(3000, 3999) i")
        connection.execute("INSERT INTO t VALUES (4000, 1)")
        connection.execute("ALTER TABLE t ALTER v TYPE int USING v * 100")
        connection.execute("INSERT INTO t SELECT i, i, repeat('x', 500) FROM generate_series(5000, 6999) i")
    after = lsn_behind(telling)
    wait_for_copies(running)
    check_left_between(telling, "t", before, after)
    (barrier,) = left_at(telling, "t")
    assert barrier.position.ordinal == 2001
    telling.check_equal()


@pytest.mark.variant(of="test_root_is_copied_again_when_rows_came_or_went_with_partitions")
def test_root_is_left_where_partitions_came_and_went_with_rows(producer: ProducerUnderTest) -> None:
    producer.database.execute(TABLES)
    tell(producer.database)
    publish(producer, NEWEST)
    for statement in (
        "ALTER TABLE r ATTACH PARTITION r_b FOR VALUES FROM (10) TO (20)",
        "ALTER TABLE r DETACH PARTITION r_a",
        "DROP TABLE r_b",
    ):
        producer.start_streaming().stop()
        producer.database.execute("INSERT INTO t VALUES ((SELECT max(id) + 1 FROM t), 1)")
        before = lsn_behind(producer)
        producer.database.execute(statement)
        after = lsn_behind(producer)
        producer.database.execute("INSERT INTO t VALUES ((SELECT max(id) + 1 FROM t), 1)")
        count = len(left_at_rest(producer, "r"))
        running = producer.start_streaming()
        wait_for_copies(running)
        *_, newest = left = left_at(producer, "r")
        assert len(left) == count + 1
        assert before <= newest.position.commit_lsn < after
        producer.check_equal()
        running.stop()
    assert not left_at_rest(producer, "t")


@pytest.mark.variant(of="test_root_is_copied_again_when_rows_came_or_went_with_partitions")
def test_unused_partition_that_goes_takes_nothing_along(producer: ProducerUnderTest) -> None:
    producer.database.execute(TABLES)
    tell(producer.database)
    producer.database.execute(
        "CREATE TABLE r_y PARTITION OF r FOR VALUES FROM (80) TO (90);"
        "CREATE TABLE r_z PARTITION OF r FOR VALUES FROM (90) TO (99)"
    )
    publish(producer, NEWEST)
    producer.start_streaming()
    producer.check_equal()
    for statement in ("DROP TABLE r_y", "ALTER TABLE r DETACH PARTITION r_z", "INSERT INTO r_z VALUES (90, 'alone')"):
        producer.database.execute(statement)
    producer.database.execute("INSERT INTO t VALUES (100, 1)")
    producer.check_equal()
    assert not left_at(producer, "r")


def left_at_rest(producer: ProducerUnderTest, name: str) -> list[Barrier]:
    """While none runs."""
    with producer.topics() as topics:
        barriers = [b for c in topics.cuts() for t in c.tables if t.topic.endswith(f".{name}") for b in t.barriers]
    return [each for each in barriers if each.kind == "dropped"]


@pytest.mark.variant(of="test_numbers_that_are_cast_to_wider_ones_need_no_copy_where_that_is_told")
def test_rewrite_that_changes_no_row_needs_no_copy_where_it_is_told(producer: ProducerUnderTest) -> None:
    """Another access method, with the same rows: the table has another TOAST table, so a look alone cannot tell."""
    producer.database.execute("CREATE ACCESS METHOD heap_too TYPE TABLE HANDLER heap_tableam_handler")
    producer.database.execute(TABLES + "; CREATE TABLE u (LIKE t INCLUDING ALL)")
    tell(producer.database)
    publish(producer, NEWEST, "FOR TABLE t, u")
    running = producer.start_streaming()
    producer.database.execute("ALTER TABLE t SET ACCESS METHOD heap_too")
    producer.database.execute("ALTER TABLE u ALTER v TYPE int USING v + 1")
    wait_for_copies(running)
    producer.database.execute("UPDATE t SET v = 7; INSERT INTO u VALUES (1, 1)")
    producer.check_equal()
    assert barriers_of(producer, "u") == ["dropped", "copy_begin", "copy_end"]
    assert barriers_of(producer, "t") == []


@pytest.mark.variant(of="test_trigger_that_tells_nothing_leaves_a_rewrite_to_the_looks")
@pytest.mark.parametrize(("major", "tables"), [in_soak(12, "FOR TABLE t"), (NEWEST, "FOR ALL TABLES")])
def test_producer_that_runs_notices_that_ddl_is_told_and_that_it_is_told_no_more(
    producer: ProducerUnderTest, producer_on: Callable[[int], ProducerUnderTest], major: int, tables: str
) -> None:
    """The rows have neither topic nor lake table, also where the publication has all tables. Before 18 the server ends
    a session that asks for a publication which is gone."""
    producer = producer_on(major) if major else producer
    producer.database.execute(TABLES.partition("CREATE TABLE r")[0])
    publish(producer, major, tables)
    running = producer.start_streaming()
    with producer.database.connect() as writer, writer.transaction():
        writer.execute("INSERT INTO t VALUES (100, 1)")  # is older than the publication, and commits behind it
        tell(producer.database)
        producer.database.execute("INSERT INTO t VALUES (101, 1)")
    wait_until(lambda: is_told_after_a_write(producer, running), "the session that is told DDL")

    before = lsn_behind(producer)
    producer.database.execute("ALTER TABLE t ALTER v TYPE int USING v * 100")
    after = lsn_behind(producer)
    wait_for_copies(running)
    check_left_between(producer, "t", before, after)

    with producer.database.connect() as connection, connection.transaction():
        remove(connection, lambda line: None)
    producer.database.execute("ALTER TABLE t ALTER v TYPE int USING v + 1")
    producer.database.execute("INSERT INTO t VALUES (102, 1)")
    wait_for_copies(running, 2)
    producer.check_equal()


def is_told_after_a_write(producer: ProducerUnderTest, running: Running) -> bool:
    """Each cut is a look."""
    producer.database.execute("UPDATE t SET v = v WHERE id = 1")
    return "ddl_publication=walbridge_ddl" in running.log


def test_trigger_that_tells_nothing_leaves_a_rewrite_to_the_looks(telling: ProducerUnderTest) -> None:
    """I8: a cut waits for the row for a moment, and then says that the table is stale."""
    running = telling.start_streaming()
    telling.database.execute("ALTER EVENT TRIGGER walbridge_ddl_rewrite DISABLE")
    telling.database.execute("ALTER TABLE t ALTER v TYPE int USING v * 100")
    telling.database.execute("INSERT INTO t VALUES (100, 1)")
    wait_for_copies(running)
    telling.check_equal()


@pytest.mark.variant(of="test_change_of_the_publication_under_a_running_producer_stops_it_where_settings_say_so")
def test_publication_that_had_another_name_for_a_while_is_asked_for_again_by_a_session_behind_it(
    telling: ProducerUnderTest,
) -> None:
    """Until Postgres 17 a session that asks for it ends at the change that was made meanwhile."""
    running = telling.start_streaming()
    telling.database.execute(
        "ALTER PUBLICATION walbridge_ddl RENAME TO other; INSERT INTO t VALUES (20, 1);"
        "ALTER PUBLICATION other RENAME TO walbridge_ddl"
    )
    telling.check_equal()
    telling.database.execute("INSERT INTO t VALUES (21, 1)")
    telling.check_equal()
    wait_until(lambda: "ddl_publication=" in running.log.split("event=streaming")[-1], "the last session to ask for it")


WIDER = "ALTER TABLE {0} ALTER v TYPE bigint"
WIDENED = {
    "int to bigint": WIDER,
    "several": "ALTER TABLE {0} ALTER v TYPE int8, ALTER f TYPE float8, ALTER s TYPE int",
    "one by one": "ALTER TABLE {0} ALTER s TYPE int; ALTER TABLE {0} ALTER s TYPE bigint; INSERT INTO {0} VALUES (11)",
    "with a USING that is that cast": 'ALTER TABLE "{0}" ALTER COLUMN "v" TYPE bigint USING "v"::bigint',
    "rolled back before": "BEGIN; SAVEPOINT a; ALTER TABLE {0} ALTER v TYPE bigint USING v * 2; ROLLBACK TO a;"
    f"{WIDER}; COMMIT",
    "arrays": "ALTER TABLE {0} ALTER a TYPE bigint[], ALTER k TYPE int[]",
    "arrays one by one": "ALTER TABLE {0} ALTER k TYPE int[]; ALTER TABLE {0} ALTER k TYPE bigint[] USING k::bigint[]",
    "labels": "ALTER TABLE {0} ALTER e TYPE text, ALTER g TYPE varchar[]",
    "texts": "ALTER TABLE {0} ALTER u TYPE text, ALTER j TYPE varchar, ALTER b TYPE text[], ALTER c TYPE text",
    "text by its cast": "ALTER TABLE {0} ALTER u TYPE character varying USING u::character varying",
    "text to json": "ALTER TABLE {0} ALTER w TYPE json USING w::json",
}
NOT_WIDENED = {
    "with a USING of another column": "ALTER TABLE {0} ALTER v TYPE bigint USING s::bigint",
    "with a USING": "ALTER TABLE {0} ALTER v TYPE bigint USING v * 2",
    "by a function": "DO $$BEGIN EXECUTE 'ALTER TABLE {0} ALTER v TYPE bigint U' || 'SING v * 2'@ END$$",
    "within another": "CREATE FUNCTION f_{0}(a int) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN EXECUTE "
    "'ALTER TABLE {0} ALTER v TYPE bigint U' || 'SING v * 2'@ RETURN true@ END$$; CREATE TABLE o_{0} (v int);"
    "INSERT INTO o_{0} VALUES (1); ALTER TABLE o_{0} ADD CHECK (f_{0}(v))",
    "to another kind": "ALTER TABLE {0} ALTER v TYPE smallint",
    "of the key": "ALTER TABLE {0} ALTER id TYPE bigint",
    "by way of an oid": "ALTER TABLE {0} ALTER v TYPE oid; ALTER TABLE {0} ALTER v TYPE bigint",
    "beside a volatile default": "ALTER TABLE {0} ALTER v TYPE bigint, ADD x float DEFAULT random()",
    "by way of blanks": "UPDATE {0} SET w = '1  '; ALTER TABLE {0} ALTER w TYPE bpchar;"
    "ALTER TABLE {0} ALTER w TYPE text",
    "by way of blanks, beside another": "UPDATE {0} SET w = '1  '; ALTER TABLE {0} ALTER w TYPE bpchar;"
    "ALTER TABLE {0} ALTER w TYPE text, ALTER v TYPE bigint",
    "labels renamed before": "ALTER TYPE e_{0} RENAME VALUE 'ok' TO 'fine'; ALTER TABLE {0} ALTER e TYPE text",
    "labels renamed and renamed back": "ALTER TYPE e_{0} RENAME VALUE 'ok' TO 'fine';"
    "ALTER TABLE {0} ALTER e TYPE text; ALTER TYPE e_{0} RENAME VALUE 'fine' TO 'ok'",
    "labels renamed in one transaction": "BEGIN; ALTER TYPE e_{0} RENAME VALUE 'ok' TO 'fine';"
    "ALTER TABLE {0} ALTER g TYPE text[]; COMMIT",
    "labels of a column that came": "ALTER TABLE {0} ADD x e_{0}; UPDATE {0} SET x = 'ok';"
    "ALTER TYPE e_{0} RENAME VALUE 'ok' TO 'fine'; ALTER TABLE {0} ALTER x TYPE text",
    "labels by a cast of its own": "CREATE FUNCTION f_{0}(e_{0}) RETURNS text LANGUAGE sql AS $$SELECT 'x'$$;"
    "CREATE CAST (e_{0} AS text) WITH FUNCTION f_{0}(e_{0}) AS ASSIGNMENT; ALTER TABLE {0} ALTER e TYPE text;"
    "DROP CAST (e_{0} AS text)",
    "labels to a limit": "ALTER TABLE {0} ALTER e TYPE varchar(9)",
    "blanks to text": "ALTER TABLE {0} ALTER p TYPE text",
    "text to jsonb": "ALTER TABLE {0} ALTER w TYPE jsonb USING w::jsonb",
    "days to moments": "ALTER TABLE {0} ALTER d TYPE timestamp",
    "big integers to floats": "ALTER TABLE {0} ALTER v TYPE real",
    "more digits behind the point": "ALTER TABLE {0} ALTER n TYPE numeric(16,6)",
    "arrays of floats": "ALTER TABLE {0} ALTER r TYPE float8[]",
}
KINDS = "a int[], k smallint[], r real[], e e_{0}, g e_{0}[], u uuid, j jsonb, b varchar(9)[], c varchar(9), "
KINDS += "n numeric(12,4), p char(9), d date"
VALUES = """'{{1,NULL}}', '{{-2}}', '{{0.5}}', 'ok', '{{ok,"a, b"}}', md5(i::text)::uuid, '{{"a": 1.50}}',
    '{{"a b",NULL}}', 'c ', i / 7.0, 'nine long', '2024-02-29'"""
"""Of the columns ``KINDS``, in their order."""


@pytest.mark.parametrize(
    ("major", "how"),
    [in_soak(12, "running"), (NEWEST, "stopped"), in_soak(12, "stopped"), in_soak(NEWEST, "running")],
)
def test_numbers_that_are_cast_to_wider_ones_need_no_copy_where_that_is_told(
    producer: ProducerUnderTest, producer_on: Callable[[int], ProducerUnderTest], major: int, how: str
) -> None:
    """I8: but with a USING, or where the command is not the only text that there is, values may be others."""
    producer = producer_on(major) if major else producer
    acts = {**WIDENED, **NOT_WIDENED}
    tables = {f"t{number}": what for number, what in enumerate(acts)}
    for name in tables:
        producer.database.execute(
            f"CREATE TYPE e_{name} AS ENUM ('ok', 'a, b');"
            f"CREATE TABLE {name} (id int PRIMARY KEY, v int, f float4, s smallint, w text, {KINDS.format(name)});"
            f"INSERT INTO {name} SELECT i, 5 - i, i / 4.0, i, i, {VALUES.format(name)} FROM generate_series(1, 9) i"
        )
    tell(producer.database)
    producer.publish(*tables)
    running = producer.start_streaming()
    producer.check_equal()
    if how == "stopped":
        running.stop()
    for name, what in tables.items():
        with producer.database.connect() as connection:
            for each in acts[what].replace("{0}", name).split(";"):
                connection.execute(each.replace("@", ";").encode())
    if how == "stopped":
        running = producer.start_streaming()
    check_copied(producer, running, {name: what in NOT_WIDENED for name, what in tables.items()})
    for name in tables:
        producer.database.execute(f"UPDATE {name} SET w = '8' WHERE id < 4; DELETE FROM {name} WHERE id = 5")
    producer.check_equal()


@pytest.mark.variant(of="test_numbers_that_are_cast_to_wider_ones_need_no_copy_where_that_is_told")
def test_told_cast_needs_no_copy_while_another_table_is_copied_and_written_to(producer: ProducerUnderTest) -> None:
    """Cuts follow each other closely then, and the catalogue is ahead of the stream."""
    execute, casts = producer.database.execute, [f"c{number}" for number in range(12)]
    producer.settings["producer"] = {"batch_rows_max": 200}
    execute("CREATE TABLE large (id int PRIMARY KEY, v int); INSERT INTO large SELECT generate_series(1, 10000)")
    for name in casts:
        execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v int, w text); INSERT INTO {name} VALUES (1, 1, 'w')")
    tell(producer.database)
    producer.publish("large", *casts)
    running = producer.start_streaming()
    assert copy(settings_of(producer), ["large"], wait=False, say=print) == 0
    running.wait_for_log("copy of a table begins")
    with producer.database.connect() as connection:
        for number, name in enumerate(casts):
            for round in range(10):
                connection.execute(f"UPDATE large SET v = {number} WHERE id = {round}")
            connection.execute(WIDER.format(name).encode())
            connection.execute(f"INSERT INTO {name} VALUES (2, 2, 'w')")
    assert "table is copied" not in running.log, "the copy was over before the last cast"
    check_copied(producer, running, dict.fromkeys(casts, False) | {"large": True})
