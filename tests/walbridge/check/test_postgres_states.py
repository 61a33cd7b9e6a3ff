"""A real server is brought into each state; the remedy that is printed is run, and the finding is gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.fix_postgres import Database
from tests.wait import wait_until
from tests.walbridge.check.stack import Stack, statements
from walbridge.check import slot as slot_check
from walbridge.check.finding import Severity
from walbridge.embedded.kafka import KafkaBroker

TABLE = '"Odd schema"."it""s"'
NAME = 'Odd schema.it"s'
PREPARED = f"""
CREATE SCHEMA "Odd schema";
CREATE TABLE {TABLE} (id int PRIMARY KEY, note text);
CREATE PUBLICATION "Odd ""one" FOR TABLE {TABLE} WITH (publish_via_partition_root);
"""
PUBLICATION = '"Odd ""one"'
ALL = "insert, update, delete, truncate"


@pytest.fixture
def stack(database: Database, kafka: KafkaBroker, pipeline_name: str, tmp_path: Path) -> Stack:
    """One odd table and its publication; no slot and no topics yet."""
    made = Stack(database, kafka, pipeline_name, tmp_path, sections={"postgres": {"publication": 'Odd "one'}})
    made.psql(PREPARED)
    return made


@pytest.fixture
def reader(stack: Stack) -> Iterator[Stack]:
    """Connects as a role that may replicate and read the table, and no more."""
    stack.role = f'{stack.name} "reader"'
    role = stack.quoted_role
    stack.psql(
        f'CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA "Odd schema" TO {role}; '
        f"GRANT SELECT ON TABLE {TABLE} TO {role};"
    )
    yield stack
    stack.psql(f"DROP OWNED BY {role}; DROP ROLE {role};")


@dataclass(frozen=True)
class State:
    """SQL that brings it about, the finding, and the SQL of the remedy that a person runs: all, or one of several.

    ``READER`` stands for the quoted role; ``fill`` for what a person writes in place of dots.
    """

    sql: str
    area: str
    severity: Severity
    text: str
    remedy: str
    run: int | None = None
    fill: Mapping[str, str] = field(default_factory=dict)


def look_mend_and_look_again(stack: Stack, state: State) -> None:
    role = stack.quoted_role
    stack.psql(state.sql.replace("READER", role))
    text = state.text.replace("READER", stack.role)

    found = stack.found(text)

    assert (found.area, found.severity) == (state.area, state.severity)
    assert found.remedy == state.remedy.replace("READER", role)
    run = statements(found.remedy, state.fill)
    assert run, "the remedy has no SQL to run"
    stack.psql("\n".join(run if state.run is None else [run[state.run]]))
    wait_until(lambda: not stack.says(text), "the finding to go away", timeout_s=10)


ROLE_STATES = {
    "no attribute": State(
        "ALTER ROLE READER NOREPLICATION;",
        "role",
        Severity.ERROR,
        "READER may not replicate",
        "ALTER ROLE READER REPLICATION;",
    ),
    "no SELECT": State(
        f"REVOKE SELECT ON TABLE {TABLE} FROM READER;",
        "role",
        Severity.ERROR,
        f"READER may not read {NAME}",
        f"GRANT SELECT ON TABLE {TABLE} TO READER;",
    ),
    "no USAGE": State(
        'REVOKE USAGE ON SCHEMA "Odd schema" FROM READER;',
        "role",
        Severity.ERROR,
        "READER may not use schema Odd schema",
        'GRANT USAGE ON SCHEMA "Odd schema" TO READER;',
    ),
    "row security": State(
        f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY;",
        "role",
        Severity.ERROR,
        f"row security hides rows of {NAME} from READER",
        "ALTER ROLE READER BYPASSRLS;",
    ),
}
STATES = {
    "publication missing": State(
        f"DROP PUBLICATION {PUBLICATION};",
        "publication",
        Severity.ERROR,
        'publication Odd "one does not exist',
        f"CREATE PUBLICATION {PUBLICATION} FOR TABLE ...; or name its tables in [postgres] publication_tables and "
        "run walbridge init",
        fill={"...": TABLE},
    ),
    "publication empty": State(
        f"ALTER PUBLICATION {PUBLICATION} DROP TABLE {TABLE};",
        "publication",
        Severity.ERROR,
        'publication Odd "one holds no tables',
        f"ALTER PUBLICATION {PUBLICATION} ADD TABLE ...;",
        fill={"...": TABLE},
    ),
    "publication of inserts": State(
        f"ALTER PUBLICATION {PUBLICATION} SET (publish = 'insert, truncate');",
        "publication",
        Severity.ERROR,
        'publication Odd "one does not publish update, delete',
        f"ALTER PUBLICATION {PUBLICATION} SET (publish = '{ALL}'); if there were any since the copy, start over with "
        "a new copy: give the pipeline a new name and slot, then walbridge init and produce",
    ),
    "publication of all tables": State(
        f"DROP PUBLICATION {PUBLICATION}; CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES;",
        "publication",
        Severity.WARNING,
        'Odd "one takes in every table that is created later: the first change of one stops the producer',
        f"DROP PUBLICATION {PUBLICATION}; and CREATE PUBLICATION {PUBLICATION} FOR TABLE ...; before walbridge init",
        fill={"...": TABLE},
    ),
    "publication of a schema": State(
        f'ALTER PUBLICATION {PUBLICATION} SET TABLES IN SCHEMA "Odd schema";',
        "publication",
        Severity.WARNING,
        'Odd "one takes in every table that is created later',
        f"DROP PUBLICATION {PUBLICATION}; and CREATE PUBLICATION {PUBLICATION} FOR TABLE ...; before walbridge init",
        fill={"...": TABLE},
    ),
    "each partition by itself": State(
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY HASH (id); "
        "CREATE TABLE leaf PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0); "
        f"ALTER PUBLICATION {PUBLICATION} ADD TABLE parted; "
        f"ALTER PUBLICATION {PUBLICATION} SET (publish_via_partition_root = false);",
        "publication",
        Severity.ADVICE,
        'Odd "one has publish_via_partition_root = false: each partition is a table of its own',
        f"ALTER PUBLICATION {PUBLICATION} SET (publish_via_partition_root = true); before walbridge init",
    ),
    "table without a key, given one": State(
        f'ALTER TABLE {TABLE} DROP CONSTRAINT "it""s_pkey";',
        "tables",
        Severity.ADVICE,
        f"{NAME} has no replica identity: Postgres refuses UPDATE and DELETE of it",
        f"ALTER TABLE {TABLE} ADD PRIMARY KEY (...); or ALTER TABLE {TABLE} REPLICA IDENTITY FULL;",
        0,
        {"...": "id"},
    ),
    "table without a key, given all columns": State(
        f'ALTER TABLE {TABLE} DROP CONSTRAINT "it""s_pkey";',
        "tables",
        Severity.ADVICE,
        f"{NAME} has no replica identity: Postgres refuses UPDATE and DELETE of it",
        f"ALTER TABLE {TABLE} ADD PRIMARY KEY (...); or ALTER TABLE {TABLE} REPLICA IDENTITY FULL;",
        1,
        {"...": "id"},
    ),
    "identity NOTHING": State(
        f"ALTER TABLE {TABLE} REPLICA IDENTITY NOTHING;",
        "tables",
        Severity.ADVICE,
        f"{NAME} has no replica identity: Postgres refuses UPDATE and DELETE of it",
        f"ALTER TABLE {TABLE} REPLICA IDENTITY DEFAULT;",
    ),
    "identity FULL without a key": State(
        f'ALTER TABLE {TABLE} DROP CONSTRAINT "it""s_pkey", REPLICA IDENTITY FULL;',
        "tables",
        Severity.ADVICE,
        f"{NAME} has identity FULL and no key: an update searches the whole lake table",
        f"ALTER TABLE {TABLE} ADD PRIMARY KEY (...);",
        fill={"...": "id"},
    ),
    "row filter": State(
        f"ALTER PUBLICATION {PUBLICATION} SET TABLE {TABLE} WHERE (id > 5);",
        "tables",
        Severity.WARNING,
        f"{NAME} has a row filter: an update that makes a row pass it arrives as an insert without its large values, "
        "and the producer stops there",
        f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL;",
    ),
}
SERVER_STATES = {
    "sessions that are never given up": State(
        "ALTER SYSTEM SET wal_sender_timeout = 0; SELECT pg_reload_conf();",
        "server",
        Severity.ADVICE,
        "wal_sender_timeout = 0: after a cut connection the slot stays in use until the server notices",
        "ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf();",
    ),
    "WAL without limit": State(
        "",
        "server",
        Severity.WARNING,
        "max_slot_wal_keep_size = -1: while nobody reads the slot it keeps WAL",
        "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf(); (a slot further behind is then "
        "lost, and a new copy needed); or watch walbridge status",
    ),
    "slots that idle out": State(
        "ALTER SYSTEM SET idle_replication_slot_timeout = '1h'; SELECT pg_reload_conf();",
        "server",
        Severity.ADVICE,
        "idle_replication_slot_timeout = 3600 s: a producer that is stopped for longer loses its slot",
        "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();",
    ),
}


@pytest.mark.parametrize("state", ROLE_STATES.values(), ids=ROLE_STATES)
def test_what_the_role_lacks_is_an_error_until_its_sql_is_run(reader: Stack, state: State) -> None:
    look_mend_and_look_again(reader, state)

    assert not {area for area, severity in reader.troubles() if severity is Severity.ERROR}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_publication_and_tables_are_mended_by_the_sql_of_the_finding(stack: Stack, state: State) -> None:
    look_mend_and_look_again(stack, state)


@pytest.fixture
def server_settings(stack: Stack) -> Iterator[None]:
    """The server's settings, as they were before."""
    yield
    names = ("wal_sender_timeout", "max_slot_wal_keep_size", "idle_replication_slot_timeout")
    stack.psql("".join(f"ALTER SYSTEM RESET {name}; " for name in names) + "SELECT pg_reload_conf();")
    wait_until(lambda: stack.database.value("SHOW max_slot_wal_keep_size") == "-1", "the settings to be as before")


@pytest.mark.usefixtures("server_settings")
@pytest.mark.parametrize("state", SERVER_STATES.values(), ids=SERVER_STATES)
def test_server_setting_is_mended_by_the_sql_of_the_finding(stack: Stack, state: State) -> None:
    if state.sql:
        stack.psql(state.sql)
        wait_until(lambda: stack.says(state.text), "the server to take the setting", timeout_s=10)

    look_mend_and_look_again(stack, replace(state, sql=""))


def test_slots_that_are_all_in_use_are_an_error_until_one_is_free(stack: Stack) -> None:
    """A server of this setting would have to be started anew: here a slot is given back."""
    left = "SELECT current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)"
    free = stack.database.value(left)
    try:
        fill = "SELECT pg_create_physical_replication_slot(%s || i) FROM generate_series(1, %s) i"
        stack.database.rows(fill, (f"{stack.name}_", free))

        found = stack.found("none left for ours")

        assert found.severity is Severity.ERROR
        assert found.text.startswith("40 of max_replication_slots = 40 in use")
        assert found.remedy == "ALTER SYSTEM SET max_replication_slots = 44; and restart the server"
        stack.database.rows("SELECT pg_drop_replication_slot(%s)", (f"{stack.name}_1",))
        assert not stack.says("none left for ours")
    finally:
        ours = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE %s"
        stack.database.rows(ours, (f"{stack.name}\\_%",))


def test_slot_of_which_no_progress_tells_is_an_error_until_it_is_dropped(stack: Stack) -> None:
    look_mend_and_look_again(
        stack,
        State(
            f"SELECT pg_create_logical_replication_slot('{stack.name}', 'test_decoding');",
            "slot",
            Severity.ERROR,
            f"slot {stack.name} exists, but <pipeline>.progress says nothing of it",
            f"if nobody needs it: SELECT pg_drop_replication_slot('{stack.name}'); "
            "else name another in [postgres] slot",
        ),
    )

    missing = stack.found(f"slot {stack.name} does not exist yet")
    assert (missing.severity, missing.remedy) == (Severity.ADVICE, "walbridge init")


def test_wal_that_an_idle_slot_holds_back_is_told_in_bytes(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_check, "MUCH_WAL_BYTES", 1_000_000)
    stack.psql(f"SELECT pg_create_logical_replication_slot('{stack.name}', 'pgoutput');")
    assert not stack.says("and nobody reads it")

    stack.psql("SELECT pg_logical_emit_message(true, 'test', repeat('x', 2000000));")

    found = stack.found("and nobody reads it")
    assert found.severity is Severity.WARNING
    assert found.text.startswith(f"slot {stack.name} holds 2.")
    assert found.remedy == "walbridge produce; or, if the pipeline is no longer wanted, walbridge drop"


def test_table_that_settings_name_and_the_publication_lacks_is_a_warning(stack: Stack) -> None:
    stack.sections["postgres"]["publication_tables"] = [NAME, "orders"]

    found = stack.found("does not publish public.orders, which publication_tables names")

    assert (found.area, found.severity) == ("publication", Severity.WARNING)
