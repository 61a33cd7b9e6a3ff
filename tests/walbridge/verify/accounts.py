"""Five accounts in a source and in a lake made by hand, and what verify says of the two."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pydantic import SecretStr

from tests.fix_postgres import Database
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Lake, Postgres
from walbridge.verify import verify

FAR_AHEAD = 2**60
"""A published LSN that covers whatever the source has written."""


def settings_of(database: Database, handmade: HandmadeLake) -> Settings:
    postgres = Postgres(dsn=SecretStr(database.dsn), publication="pub")
    return Settings(postgres=postgres, lake=Lake(path=str(handmade.path)))


def verdict(database: Database, handmade: HandmadeLake, **options: Any) -> tuple[int, dict[str, Any]]:
    """Exit code and the JSON form, its tables by name."""
    said: list[str] = []
    options = {"timeout_s": 5.0} | options
    code = verify(settings_of(database, handmade), as_json=True, out=said.append, **options)
    report = json.loads(said[0])
    assert report["equal"] == (code == 0)
    return code, {table["table"]: table for table in report["tables"]}


def accounts(database: Database, handmade: HandmadeLake, lake_rows: list[dict[str, Any]]) -> None:
    """Five accounts in the source; the lake holds what is given, from two cuts on."""
    database.execute(
        "CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance float8);"
        "INSERT INTO accounts SELECT n, 'owner ' || n, n / 4.0 FROM generate_series(1, 5) n;"
        "CREATE PUBLICATION pub FOR ALL TABLES"
    )
    handmade.write("public.accounts", ACCOUNT_TYPES, lake_rows)
    handmade.publish(FAR_AHEAD)


ACCOUNT_TYPES = {"id": pa.int32(), "owner": pa.string(), "balance": pa.float64()}
ACCOUNTS = [{"id": n, "owner": f"owner {n}", "balance": n / 4} for n in range(1, 6)]
