"""A commit that waits for a synchronous standby is decoded, and so in the lake, before Postgres shows it (I8)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.fix_postgres import Database, new_database
from tests.invisible_commits import invisible, wait_for_standby
from tests.walbridge.verify.accounts import ACCOUNTS, accounts, verdict
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.embedded.postgres import PostgresServer
from walbridge.verify import rounds
from walbridge.verify.sweep import sweep


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


def test_row_that_is_in_the_lake_and_not_visible_yet_is_no_difference(source: Database, handmade: HandmadeLake) -> None:
    changed = [row | {"owner": "changed"} if row["id"] == 1 else row for row in ACCOUNTS]
    accounts(source, handmade, [*changed, {"id": 6, "owner": "owner 6", "balance": 1.5}])
    both = "UPDATE accounts SET owner = 'changed' WHERE id = 1; INSERT INTO accounts VALUES (6, 'owner 6', 1.5)"
    wait_for_standby(source, "nobody")
    with invisible(source, both):
        code, tables = verdict(source, handmade)

    found = tables["public.accounts"]
    assert (code, found["extra"], found["different"], found["whole"]) == (1, 0, 0, False)
    assert "synchronous_standby_names" in found["notes"][0]
    assert verdict(source, handmade)[0] == 0


def test_difference_is_proved_once_nothing_is_in_its_commit(source: Database, handmade: HandmadeLake) -> None:
    accounts(source, handmade, ACCOUNTS[1:])
    wait_for_standby(source, "nobody")

    assert verdict(source, handmade)[1]["public.accounts"]["keys"]["missing"] == ["id=1"]
