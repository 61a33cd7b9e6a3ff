"""What is set for a role, or by libpq's variables, changes no byte of what a connection of ours reads."""

from __future__ import annotations

import pytest

from tests.fix_postgres import Database
from walbridge.producer.postgres.connection import connect_sql, connect_walsender, walsender_query

VARIABLES = {
    "PGDATESTYLE": "German",
    "PGTZ": "Asia/Kolkata",
    "PGOPTIONS": "-c extra_float_digits=0",
    "PGCLIENTENCODING": "LATIN1",
}
SET_AT_LOGIN = {
    "datestyle": "German",
    "timezone": "Asia/Kolkata",
    "extra_float_digits": "0",
    "client_encoding": "LATIN9",
    "search_path": "pg_catalog",
    "statement_timeout": "2s",
    "default_transaction_isolation": "serializable",  # with which a standby answers nothing at all
    "quote_all_identifiers": "on",
    "array_nulls": "off",
}
PRINTED = (
    "SELECT timestamptz '2026-02-01 12:00+00' AS at, date '2026-02-01' AS day, 0.1::float8 + 0.2 AS sum, 'é€' AS text, "
    "regclass 'pg_catalog.pg_class' AS named, '{NULL}'::text[] AS nulls, current_setting('statement_timeout') AS wait, "
    "current_setting('transaction_isolation') AS isolation"
)
AS_EVER = {"at": "2026-02-01 12:00:00+00", "day": "2026-02-01", "sum": "0.30000000000000004", "text": "é€"} | {
    "named": "pg_class",
    "nulls": "{NULL}",
    "wait": "0",
    "isolation": "read committed",
}


def test_variables_of_libpq_change_nothing_that_is_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: a walsender prints by its session's settings what goes into Kafka."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    _check_printed_as_ever(database)


def test_what_a_login_trigger_sets_changes_nothing_that_is_read(database: Database) -> None:
    """It runs after the settings that a connection is opened with, and of walsenders too (Postgres 17)."""
    set_all = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in SET_AT_LOGIN.items())
    database.execute(
        "CREATE FUNCTION at_login() RETURNS event_trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN PERFORM {set_all}; END $$; CREATE EVENT TRIGGER at_login ON login EXECUTE FUNCTION at_login()"
    )
    _check_printed_as_ever(database)


def _check_printed_as_ever(database: Database) -> None:
    walsender = connect_walsender(database.dsn)
    try:
        assert walsender_query(walsender, PRINTED) == [AS_EVER]
    finally:
        walsender.finish()
    with connect_sql(database.dsn) as connection:
        texts = ", ".join(f"{name}::text" for name in AS_EVER)
        (row,) = connection.execute(f"SELECT {texts} FROM ({PRINTED}) AS printed").fetchall()
    assert row == tuple(AS_EVER.values())
