"""What verify tells of differences: bounded, in an order, with keys as a person writes them."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from tests.fix_postgres import Database
from tests.walbridge.verify.accounts import ACCOUNTS, FAR_AHEAD, accounts, settings_of, verdict
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.verify import verify


def test_more_than_twenty_keys_are_counted_but_not_all_told(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    database.execute("INSERT INTO accounts SELECT n, 'late', 0 FROM generate_series(6, 105) n")
    code, tables = verdict(database, handmade)
    assert (code, tables["public.accounts"]["missing"]) == (1, 100)
    assert len(tables["public.accounts"]["keys"]["missing"]) == 20


def test_what_is_fetched_stays_bounded_when_everything_differs(
    database: Database, handmade: HandmadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:  # I9
    monkeypatch.setattr("walbridge.verify.rounds.ROWS_FETCHED_MAX", 10)
    accounts(database, handmade, [])
    database.execute("INSERT INTO accounts SELECT n, 'late', 0 FROM generate_series(6, 105) n")
    code, tables = verdict(database, handmade)
    assert (code, tables["public.accounts"]["whole"]) == (1, False)
    assert 0 < tables["public.accounts"]["missing"] <= 10


def test_the_last_lines_are_the_verdict_per_table(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS[:4])
    said: list[str] = []
    assert verify(settings_of(database, handmade), out=said.append) == 1
    assert said[0].splitlines() == [
        "public.accounts: 1 rows missing in the lake",
        "    id=5",
        "public.accounts  UNEQUAL  5 rows  at 10000000/0",
    ]


def test_keys_are_told_as_a_person_writes_them(database: Database, handmade: HandmadeLake) -> None:
    database.execute(
        "CREATE TABLE t (day date, at timestamptz, amount numeric(10,2), PRIMARY KEY (day, at, amount));"
        "INSERT INTO t VALUES ('2024-02-29', '2024-02-29 12:00:00.5+01', 1.5), ('infinity', '0044-03-15 BC', 'NaN');"
        "CREATE PUBLICATION pub FOR ALL TABLES"
    )
    types = {"day": pa.date32(), "at": pa.timestamp("us", "UTC"), "amount": pa.decimal128(10, 2)}
    handmade.write("public.t", types, [])
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[1]["public.t"]["keys"]["missing"] == [
        "day=2024-02-29, at=2024-02-29 11:00:00.500000, amount=1.50",
        "day=infinity, at=0044-03-15 00:00:00+00 BC, amount=NaN",
    ]


def test_verify_shares_no_code_with_the_producer() -> None:
    program = "import sys, walbridge.verify; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "walbridge" in loaded
    assert {"walbridge.producer", "walbridge.spark_consumer", "fastavro", "pyspark"}.isdisjoint(loaded)
