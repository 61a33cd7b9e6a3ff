"""A commit that waits for a synchronous standby is decoded, and so in the lake, before Postgres shows it (I8)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from tests.fix_postgres import Database, new_database
from tests.wait import wait_until
from tests.walbridge.verify.accounts import ACCOUNTS, accounts, verdict
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.embedded.postgres import PostgresServer
from walbridge.verify import rounds
from walbridge.verify.sweep import sweep


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["one snapshot", "a sweep"])
def source(
    own_server: PostgresServer, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    monkeypatch.setattr(rounds, "WAIT_S", 0.1)
    if request.param == "a sweep":
        monkeypatch.setattr(rounds, "snapshot", partial(sweep, beat=lambda: None))
    with new_database(own_server) as database:
        yield database
        wait_for_standby(database, "")


def wait_for_standby(database: Database, name: str) -> None:
    with database.connect() as connection:
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'".encode())
        connection.execute("SELECT pg_reload_conf()")
        wait_until(
            lambda: connection.execute("SHOW synchronous_standby_names").fetchone() == (name,), "the setting", 30.0
        )
    database.execute("CHECKPOINT")  # commits wait from when the checkpointer has read it


def test_row_that_is_in_the_lake_and_not_visible_yet_is_no_difference(source: Database, handmade: HandmadeLake) -> None:
    changed = [row | {"owner": "changed"} if row["id"] == 1 else row for row in ACCOUNTS]
    accounts(source, handmade, [*changed, {"id": 6, "owner": "owner 6", "balance": 1.5}])
    wait_for_standby(source, "nobody")
    both = "UPDATE accounts SET owner = 'changed' WHERE id = 1; INSERT INTO accounts VALUES (6, 'owner 6', 1.5)"
    committing = threading.Thread(target=source.execute, args=(both,))
    committing.start()
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"
    wait_until(lambda: bool(source.rows(waits)), "the commit to wait", 30.0)

    code, tables = verdict(source, handmade)

    found = tables["public.accounts"]
    assert (code, found["extra"], found["different"], found["whole"]) == (1, 0, 0, False)
    assert "synchronous_standby_names" in found["notes"][0]

    wait_for_standby(source, "")
    committing.join()
    assert verdict(source, handmade)[0] == 0


def test_difference_is_proved_once_nothing_is_in_its_commit(source: Database, handmade: HandmadeLake) -> None:
    accounts(source, handmade, ACCOUNTS[1:])
    wait_for_standby(source, "nobody")

    assert verdict(source, handmade)[1]["public.accounts"]["keys"]["missing"] == ["id=1"]
