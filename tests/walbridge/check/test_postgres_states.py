"""A real server is brought into each state; the remedy that is printed is run, and the finding is gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fix_postgres import Database
from tests.wait import wait_until
from tests.walbridge.check.postgres_states import NAME, PREPARED, ROLE_STATES, SERVER_STATES, STATES, TABLE, State
from tests.walbridge.check.stack import Stack, statements
from walbridge.administrator import prepare, remove_ddl_trigger
from walbridge.check.finding import Severity
from walbridge.check.source import slot as slot_check
from walbridge.ddl_trigger import TRIGGERS
from walbridge.embedded.kafka import KafkaBroker


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
    wait_until(lambda: not stack.says(text), "the finding to go away")


@pytest.mark.parametrize("state", ROLE_STATES.values(), ids=ROLE_STATES)
def test_what_the_role_lacks_is_an_error_until_its_sql_is_run(reader: Stack, state: State) -> None:
    look_mend_and_look_again(reader, state)

    assert not {area for area, severity in reader.troubles() if severity is Severity.ERROR}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_publication_and_tables_are_mended_by_the_sql_of_the_finding(stack: Stack, state: State) -> None:
    look_mend_and_look_again(stack, state)


def test_filter_that_may_lose_values_is_a_warning_where_the_table_would_be_left(stack: Stack) -> None:
    stack.sections["producer"] = {"on_unknown_value": "stale"}
    stack.psql(STATES["row filter"].sql)

    assert stack.found(STATES["row filter"].text).severity is Severity.WARNING


def test_column_that_cannot_come_in_binary_is_an_error_where_that_is_asked_for(stack: Stack) -> None:
    stack.psql(f"ALTER TABLE {TABLE} ADD COLUMN rights aclitem[]")
    words = f"column rights of table {NAME} is or holds type aclitem"
    assert not stack.says(words)

    stack.sections["postgres"] = {**stack.sections.get("postgres", {}), "binary": True}

    assert stack.found(words).severity is Severity.ERROR


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
        wait_until(lambda: stack.says(state.text), "the server to take the setting")

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
            "else name another in [postgres] slot; "
            "if the pipeline had another name before, set formerly to that one",
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


def test_tables_that_settings_name_and_nobody_publishes_are_corrected_there(stack: Stack) -> None:
    stack.sections["postgres"]["publication_tables"] = [NAME, "orders"]
    stack.sections["topics"] = {"cleanup": {"public.odd": "compact"}}

    lacking = stack.found("does not publish public.orders, which publication_tables names")
    unknown = stack.found("[topics.cleanup] names public.odd, which is not published")

    assert (lacking.area, lacking.severity) == ("publication", Severity.WARNING)
    assert str(lacking.remedy).startswith("mend [postgres] publication_tables; or")
    assert (unknown.severity, unknown.remedy) == (Severity.WARNING, "correct the name, or leave it out")
    stack.sections["postgres"]["publication_tables"] = [NAME]
    stack.sections["topics"] = {}
    assert {"publication", "tables"}.isdisjoint(area for area, _ in stack.troubles())


def test_half_of_the_event_triggers_is_a_warning_until_both_commands_of_the_finding_are_run(reader: Stack) -> None:
    admin = f"{reader.database.dsn} user=postgres"

    def told(*, tells_ddl: bool) -> None:
        if tells_ddl:
            prepare(reader.settings, admin, print, None, tells_ddl=True, force=False)
        else:
            remove_ddl_trigger(reader.settings, admin, print, None)

    told(tells_ddl=True)
    assert reader.says("DDL is told in the stream, by publication")
    (trigger, *_) = sorted(TRIGGERS.values())
    reader.psql(f"DROP EVENT TRIGGER {trigger};")

    found = reader.found("DDL is not told in the stream, or not all of it")

    assert found.remedy == (
        "walbridge init --no-ddl-trigger --admin-dsn ..., then walbridge init --ddl-trigger --admin-dsn ..."
    )
    told(tells_ddl=False)
    told(tells_ddl=True)
    assert reader.says("DDL is told in the stream, by publication")
    told(tells_ddl=False)


def test_event_triggers_of_an_earlier_version_are_a_warning_until_they_are_made_anew(reader: Stack) -> None:
    admin = f"{reader.database.dsn} user=postgres"
    prepare(reader.settings, admin, print, None, tells_ddl=True, force=False)
    reader.psql("DROP FUNCTION walbridge.tell_columns, walbridge.told_columns;")

    found = reader.found("by event triggers of another version")

    assert found.remedy == "walbridge init --ddl-trigger --admin-dsn ..."
    prepare(reader.settings, admin, print, None, tells_ddl=True, force=False)
    assert reader.says("DDL is told in the stream, by publication")
    remove_ddl_trigger(reader.settings, admin, print, None)
