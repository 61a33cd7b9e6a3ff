"""The event triggers tell DDL in its transaction, hold nobody up, and go without a trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.fix_postgres import Database, new_database
from tests.wait import wait_until
from walbridge.ddl_trigger import (
    TRIGGERS,
    ddl_trigger_state,
    make,
    make_sql,
    refuse_other_subscribers,
    remove,
    remove_sql,
)
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.ddl_row import COLUMNS, DROP, END, PARTITIONS, REWRITE, Attached, DdlRow, parse_ddl_row
from walbridge.schemas.errors import OperatorError

INT4, INT8 = 23, 20
NEWEST = 0
"""The shared server."""
ROOT = """
    CREATE TABLE r (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
    CREATE TABLE r_a PARTITION OF r FOR VALUES FROM (0) TO (10);
    CREATE TABLE r_b (LIKE r INCLUDING ALL); INSERT INTO r_b VALUES (10, 'b');
    CREATE TABLE r_c (LIKE r INCLUDING ALL);
"""


@pytest.fixture(params=[12, NEWEST])
def told_in(
    request: pytest.FixtureRequest, postgres: PostgresServer, postgres_version: Callable[[int], PostgresServer]
) -> Iterator[Database]:
    """A database that tells DDL."""
    with telling(postgres_version(request.param) if request.param else postgres) as database:
        yield database


@pytest.fixture(scope="module", params=[12, NEWEST])
def told_to_all(
    request: pytest.FixtureRequest, postgres: PostgresServer, postgres_version: Callable[[int], PostgresServer]
) -> Iterator[Database]:
    """One for many commands, each on tables of its own."""
    with telling(postgres_version(request.param) if request.param else postgres) as database:
        yield database


@contextmanager
def telling(server: PostgresServer) -> Iterator[Database]:
    with new_database(server) as database:
        install(database)
        yield database


def install(database: Database) -> list[str]:
    said: list[str] = []
    with database.connect() as connection, connection.transaction():
        make(connection, said.append)
    return said


def all_rows(database: Database) -> list[DdlRow]:
    """All that was told, oldest first."""
    found = database.rows("SELECT told FROM walbridge.ddl_commands ORDER BY id")
    return [each for (text,) in found if (each := parse_ddl_row(text)) is not None]


def rows(database: Database) -> list[DdlRow]:
    """All that was told, oldest first; but for how commands ended, and columns after them."""
    return [each for each in all_rows(database) if each.event not in (END, COLUMNS)]


def oid(database: Database, name: str) -> int:
    return int(database.value("SELECT %s::regclass::oid::bigint", (name,)))


def test_rewrite_is_told_with_the_file_that_it_replaces_and_its_end_with_the_new_one(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    file = "SELECT relfilenode::bigint FROM pg_class WHERE relname = 't'"
    before, table = told_in.value(file), oid(told_in, "t")

    told_in.execute("ALTER TABLE t ALTER v TYPE int USING v * 100")

    after = told_in.value(file)
    found = told_in.rows("SELECT told FROM walbridge.ddl_commands ORDER BY id LIMIT 2")
    types = frozenset({(1, INT4, -1), (2, INT4, -1)})
    assert [parse_ddl_row(text) for (text,) in found] == [
        DdlRow(REWRITE, table, frozenset({table}), before, types=types, made_casts=frozenset()),
        DdlRow(END, table, file=after, types=types),
    ]


@pytest.mark.parametrize(
    ("command", "is_plain"),
    [
        ("ALTER TABLE t ALTER v TYPE bigint", True),
        (" alter\ttable t\nalter v type bigint ; ", True),
        ("ALTER TABLE t ALTER v TYPE bigint uSiNg v + 1", False),
        ('ALTER TABLE "t" ALTER COLUMN "v" TYPE bigint USING "v"::bigint', True),
        ('ALTER TABLE "t" ALTER COLUMN "v" SET DATA TYPE int8 USING CAST("v" AS int8);', True),
        ('alter table t alter v type bigint using ( v :: bigint ), alter "V" type bigint using "V"::bigint', True),
        ('ALTER TABLE t ALTER "w.x y" TYPE bigint USING "w.x y"::bigint, ALTER v TYPE bigint', True),
        ("ALTER TABLE t ALTER v TYPE bigint, ALTER a TYPE bigint[] USING a::bigint[]", True),
        ("ALTER TABLE t ALTER v TYPE bigint, ALTER c TYPE Character Varying USING c::Character Varying", True),
        ("ALTER TABLE t ALTER v TYPE bigint, ALTER n TYPE numeric(9, 2) USING CAST(n AS numeric(9, 2))", True),
        ("ALTER TABLE t ALTER v TYPE bigint, ALTER a TYPE bigint[] USING a[1:1]::bigint[]", False),
        ("ALTER TABLE t ALTER v TYPE bigint, ALTER a TYPE bigint[] USING a::bigint[] || '{1}'", False),
        ("ALTER TABLE t ALTER v TYPE bigint, ALTER n TYPE numeric(9,2) USING n::numeric(9,1)", False),
        ("ALTER TABLE t ALTER v TYPE bigint USING v::bigint + 1", False),
        ("ALTER TABLE t ALTER v TYPE bigint USING (v::bigint) + 1", False),
        ("ALTER TABLE t ALTER v TYPE bigint USING v::bigint, ALTER id TYPE int USING v", False),
        ("ALTER TABLE t ALTER v TYPE bigint USING id::bigint", False),
        ('ALTER TABLE t ALTER v TYPE bigint USING "V"::bigint', False),
        ('ALTER TABLE t ALTER "V" TYPE bigint USING v::bigint, ALTER v TYPE bigint', False),
        ("ALTER TABLE t ALTER v TYPE bigint USING v::real", False),
        ('ALTER TABLE t ALTER "v" TYPE bigint USING v::bigint', False),
        ("ALTER TABLE t ALTER v TYPE bigint USING -v::bigint", False),
        ("ALTER TABLE t ALTER v TYPE bigint -- ALTER id TYPE bigint\nUSING id::bigint", False),
        ("ALTER TABLE t ALTER v TYPE bigint; SELECT 1", False),
        ("/* of a tool */ ALTER TABLE t ALTER v TYPE bigint", False),
        ("DO $$BEGIN ALTER TABLE t ALTER v TYPE bigint; END$$", False),
        ("DO $$BEGIN EXECUTE 'ALTER TABLE t ALTER v TYPE bigint'; END$$", False),
        ("ALTER TABLE u ADD CHECK (f(v))", False),
    ],
)
def test_command_is_plain_where_its_text_is_all_that_is_done(
    told_to_all: Database, command: str, is_plain: bool
) -> None:
    """I8: what a function does stands nowhere."""
    told_to_all.execute(
        "DROP TABLE IF EXISTS t, u;"
        'CREATE TABLE t (id int PRIMARY KEY, v int, "V" int, "w.x y" int, a int[], c uuid, n int);'
        "CREATE TABLE u (v int); INSERT INTO u VALUES (1)"
    )
    told_to_all.execute(
        "CREATE OR REPLACE FUNCTION f(a int) RETURNS boolean LANGUAGE plpgsql AS "
        "$$BEGIN EXECUTE 'ALTER TABLE t ALTER v TYPE bigint'; RETURN true; END$$"
    )
    told_to_all.execute("DELETE FROM walbridge.ddl_commands")
    told_to_all.execute(command)
    (told,) = rows(told_to_all)
    assert told.is_plain == is_plain
    assert {(1, INT4, -1), (2, INT8, -1)} <= told.types


def test_casts_that_somebody_made_are_told_with_a_rewrite_to_their_types(told_in: Database) -> None:
    """I8: Postgres takes them where it would cast by what a value prints."""
    told_in.execute(
        "CREATE TYPE mood AS ENUM ('ok'); CREATE TYPE other AS ENUM ('ok'); CREATE TABLE t (a mood[], b int);"
        "CREATE FUNCTION f(mood) RETURNS text LANGUAGE sql AS $$SELECT 'x'$$;"
        "CREATE CAST (mood AS text) WITH FUNCTION f(mood) AS ASSIGNMENT; CREATE CAST (mood AS other) WITH INOUT"
    )
    mood = int(told_in.value("SELECT 'mood'::regtype::oid::bigint"))

    told_in.execute("ALTER TABLE t ALTER a TYPE text[]")
    told_in.execute("ALTER TABLE t ALTER a TYPE int USING 1")

    assert [told.made_casts for told in rows(told_in)] == [frozenset({(mood, 25)}), frozenset()]


def test_partitions_that_come_and_go_are_told_with_whether_they_have_rows(told_in: Database) -> None:
    told_in.execute(ROOT)
    root, a, b, c = (oid(told_in, name) for name in ("r", "r_a", "r_b", "r_c"))

    told_in.execute("ALTER TABLE r ATTACH PARTITION r_b FOR VALUES FROM (10) TO (20)")
    told_in.execute("ALTER TABLE r ATTACH PARTITION r_c FOR VALUES FROM (20) TO (30)")
    told_in.execute("ALTER TABLE r DETACH PARTITION r_a")
    told_in.execute("ALTER TABLE r ADD COLUMN n int; DROP TABLE r_a, r_b")

    of_root = frozenset({root})
    assert rows(told_in) == [
        DdlRow(PARTITIONS, root, of_root, attached=(Attached(b, is_empty=False),)),
        DdlRow(PARTITIONS, root, of_root, attached=(Attached(c, is_empty=True),)),
        DdlRow(PARTITIONS, root, of_root, gone=frozenset({a})),
        DdlRow(DROP, gone=frozenset({a, b})),
    ]


def test_rewrite_of_a_partition_names_all_its_parents(told_in: Database) -> None:
    told_in.execute(
        "CREATE TABLE r (id int, v int) PARTITION BY LIST (id);"
        "CREATE TABLE m PARTITION OF r FOR VALUES IN (1) PARTITION BY LIST (id);"
        "CREATE TABLE l PARTITION OF m DEFAULT"
    )
    told_in.execute("ALTER TABLE r ALTER v TYPE bigint USING v + 1")
    tables = frozenset(oid(told_in, name) for name in ("r", "m", "l"))
    assert [(each.event, each.tables) for each in rows(told_in)] == [(REWRITE, tables)]


def test_partition_that_comes_in_a_savepoint_is_told_and_one_that_is_rolled_back_is_not(told_in: Database) -> None:
    told_in.execute(ROOT)
    with told_in.connect() as connection, connection.transaction():
        connection.execute("ALTER TABLE r ADD COLUMN n int")
        with connection.transaction(force_rollback=True):
            connection.execute("ALTER TABLE r DETACH PARTITION r_a")
        with connection.transaction():
            connection.execute("ALTER TABLE r_b ADD COLUMN n int")
            connection.execute("ALTER TABLE r ATTACH PARTITION r_b FOR VALUES FROM (10) TO (20)")
    b = Attached(oid(told_in, "r_b"), is_empty=False)
    assert [(each.attached, each.gone) for each in rows(told_in)] == [((b,), frozenset())]


def test_who_alters_a_table_needs_no_right_on_what_tells_it(told_in: Database) -> None:
    """And reaches nothing through it: names mean what they mean to us, whatever the search path."""
    told_in.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    with told_in.connect() as connection:
        connection.execute("CREATE ROLE plain_owner")
        try:
            connection.execute("GRANT ALL ON SCHEMA public TO plain_owner")
            connection.execute("ALTER TABLE t OWNER TO plain_owner")
            connection.execute("SET ROLE plain_owner")
            connection.execute(
                "CREATE FUNCTION public.txid_current() RETURNS bigint LANGUAGE sql AS 'SELECT 1/0::bigint'"
            )
            connection.execute("SET search_path = public, pg_catalog")
            connection.execute("ALTER TABLE t ALTER v TYPE bigint USING v + 1")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT * FROM walbridge.ddl_commands")
            connection.execute("RESET ROLE")
        finally:
            connection.execute("RESET ROLE; DROP OWNED BY plain_owner; DROP ROLE plain_owner")
    assert [each.event for each in rows(told_in)] == [REWRITE, DROP]


@pytest.mark.parametrize(
    "broken",
    [
        "ALTER TABLE walbridge.ddl_commands RENAME TO gone",
        "ALTER TABLE walbridge.ddl_commands ADD CHECK (false) NOT VALID",
        "ALTER TABLE walbridge.ddl_commands DROP COLUMN told",
    ],
)
def test_ddl_goes_on_where_it_cannot_be_told(told_in: Database, broken: str) -> None:
    told_in.execute("CREATE TABLE t (id int PRIMARY KEY, v int); " + broken)
    told_in.execute("ALTER TABLE t ALTER v TYPE bigint USING v + 1")
    told_in.execute("DROP TABLE t")


def test_ddl_waits_a_second_at_most_for_who_holds_the_table(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    with told_in.connect() as holder, holder.transaction():
        holder.execute("LOCK TABLE walbridge.ddl_commands IN ACCESS EXCLUSIVE MODE")
        with told_in.connect() as connection:
            connection.execute("SET statement_timeout = '20s'")
            connection.execute("ALTER TABLE t ADD COLUMN n int")
            assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)
    assert not rows(told_in)


def test_rows_of_yesterday_are_deleted_by_who_adds_one_past_those_that_another_deletes(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    told_in.execute(
        "INSERT INTO walbridge.ddl_commands (told_at, told) "
        "SELECT now() - interval '2 days', '' FROM generate_series(1, 40)"
    )
    with told_in.connect() as holder, holder.transaction():
        holder.execute("DELETE FROM walbridge.ddl_commands WHERE id = 1")
        for number in range(17):  # whatever each command adds
            told_in.execute(f"ALTER TABLE t ADD COLUMN n{number} int")
        assert told_in.value("SELECT count(*) FROM walbridge.ddl_commands WHERE told = ''") == 1


def test_nothing_is_told_of_temporary_tables(told_in: Database) -> None:
    told_in.execute("CREATE TEMP TABLE t (id int, v int); ALTER TABLE t ALTER v TYPE bigint USING v + 1; DROP TABLE t")
    assert not told_in.rows("SELECT 1 FROM walbridge.ddl_commands")


def test_it_is_made_twice_as_once_and_leaves_nothing(told_in: Database) -> None:
    oid_of_publication = "SELECT oid FROM pg_publication WHERE pubname = 'walbridge_ddl'"
    before = told_in.value(oid_of_publication)

    assert install(told_in) == ["DDL is told in the stream as before"]

    assert told_in.value(oid_of_publication) == before
    with told_in.connect() as connection:
        assert ddl_trigger_state(connection).is_whole
        said: list[str] = []
        remove(connection, said.append)
        assert said == ["DDL is told in the stream no more"]
        assert ddl_trigger_state(connection).is_absent
    assert not told_in.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'walbridge'")
    told_in.execute("CREATE TABLE t (id int)")


def test_sql_that_is_printed_does_the_same(told_in: Database) -> None:
    told_in.execute(remove_sql())
    with told_in.connect() as connection:
        assert ddl_trigger_state(connection).is_absent
    for _ in range(2):
        told_in.execute(make_sql())
        with told_in.connect() as connection:
            assert ddl_trigger_state(connection).is_whole


def test_half_of_it_is_told_by_name(told_in: Database) -> None:
    told_in.execute(
        f"ALTER EVENT TRIGGER {TRIGGERS['sql_drop']} ENABLE; DROP EVENT TRIGGER {TRIGGERS['table_rewrite']};"
        "ALTER PUBLICATION walbridge_ddl DROP TABLE walbridge.ddl_commands"
    )
    with told_in.connect() as connection:
        found = ddl_trigger_state(connection)
    assert set(found.missing) == {TRIGGERS["sql_drop"], TRIGGERS["table_rewrite"]}
    assert (found.has_publication, found.is_published) == (True, False)


def test_schema_that_belongs_to_another_role_is_refused(database: Database) -> None:
    """Who owns it could put a trigger of his own on the table to which the function writes."""
    with database.connect() as connection:
        connection.execute("CREATE ROLE schema_owner; CREATE SCHEMA walbridge AUTHORIZATION schema_owner")
        try:
            with (
                pytest.raises(psycopg.errors.RaiseException, match="belongs to another role"),
                connection.transaction(),
            ):
                make(connection, lambda line: None)
        finally:
            connection.execute("DROP SCHEMA walbridge; DROP ROLE schema_owner")


def test_publication_of_all_tables_that_others_may_read_is_named_until_the_remedy_was_followed(
    database: Database, make_database: Callable[[], Database], postgres: PostgresServer
) -> None:
    """A native subscriber stops at a table that it lacks; once it was made there as told, it goes on."""
    subscriber = make_database()
    for each in (database, subscriber):
        each.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    database.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    with database.connect() as connection:
        refuse_other_subscribers(connection, "ours")
    slot, dsn = f"slot_{database.name}", database.dsn.replace("'", "''")
    database.value("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')::text", (slot,))
    try:
        subscriber.execute(
            f"CREATE SUBSCRIPTION s_{database.name} CONNECTION '{dsn}' PUBLICATION everything "
            f"WITH (create_slot = false, slot_name = '{slot}', copy_data = false)"
        )
        with database.connect() as connection, pytest.raises(OperatorError) as refused:
            refuse_other_subscribers(connection, "ours")
        assert "everything" in refused.value.what
        assert slot in refused.value.what

        wanted = refused.value.remedy.partition("first: ")[2].partition(" then, or")[0]
        subscriber.execute(wanted)
        install(database)
        database.execute("ALTER TABLE t ADD COLUMN n int")
        subscriber.execute("ALTER TABLE t ADD COLUMN n int")
        database.execute("INSERT INTO t VALUES (1, 2, 3)")
        wait_until(lambda: bool(subscriber.rows("SELECT 1 FROM t WHERE (id, v, n) = (1, 2, 3)")), "the row to arrive")
    finally:
        name = f"s_{database.name}"
        subscriber.execute(f"ALTER SUBSCRIPTION {name} DISABLE")
        subscriber.execute(f"ALTER SUBSCRIPTION {name} SET (slot_name = NONE)")
        subscriber.execute(f"DROP SUBSCRIPTION {name}")


def test_row_is_json_that_names_its_version(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int); DROP TABLE t")
    row: dict[str, Any] = json.loads(told_in.value("SELECT told FROM walbridge.ddl_commands"))
    assert (row["v"], row["event"], row["tag"]) == (1, DROP, "DROP TABLE")


def test_functions_of_another_version_are_known_and_made_anew_in_place(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int); ALTER TABLE t ADD a int")
    told_in.execute("DROP FUNCTION walbridge.tell_columns, walbridge.told_columns")
    with told_in.connect() as connection:
        assert not ddl_trigger_state(connection).is_of_this_version
    told_in.execute("ALTER TABLE t ADD b int")  # is not told, and not held up

    install(told_in)

    with told_in.connect() as connection:
        assert ddl_trigger_state(connection).is_of_this_version
    assert told_in.value("SELECT count(*) FROM walbridge.ddl_commands") > 0
