"""Two tables that one transaction changes together, and what a lake shows of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.contract_writer import ColumnSpec, Event
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.read import published, tables_at

ACCOUNT = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("balance", "int4")]
HISTORY = [ColumnSpec("id", "int4"), ColumnSpec("delta", "int4")]
Run = Callable[[], None]
Rows = list[tuple[Any, ...]]


def rows(spark: SparkSession, lake: Path, name: str, lsn: int | None = None) -> Rows:
    table = tables_at(spark, str(lake), lsn)[f"public.{name}"]
    return sorted(tuple(row) for row in table.drop("_walbridge").collect())


def newest(lake: Path) -> CutRow:
    return published(str(lake))[-1]


def transfer(accounts: RelationRecord, history: RelationRecord, lsn: int, account: int, balance: int) -> list[Event]:
    """One transaction over both tables."""
    return [
        Event(accounts, "u", lsn, 0, after={"id": account, "balance": balance}),
        Event(history, "c", lsn, 1, after={"id": account, "delta": balance}),
    ]
