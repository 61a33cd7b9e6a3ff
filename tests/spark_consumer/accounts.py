"""Two tables that one transaction changes together, and what a lake shows of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.contract_writer import ColumnSpec, Event
from walbridge.lake import published, tables_at
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.spark_consumer.plan.manifest_row import CutRow

ACCOUNT = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("balance", "int4")]
HISTORY = [ColumnSpec("id", "int4"), ColumnSpec("delta", "int4")]
Run = Callable[[], None]
Rows = list[tuple[Any, ...]]


def rows(lake: Path, name: str, lsn: int | None = None) -> Rows:
    """Read without Spark, which takes a second for it; ``test_read.py`` has it read such tables."""
    table = tables_at(str(lake), lsn)[f"public.{name}"].reader().read_all()
    return sorted(tuple(row.values()) for row in table.drop_columns("_walbridge").to_pylist())


def newest(lake: Path) -> CutRow:
    return published(str(lake))[-1]


def transfer(accounts: RelationRecord, history: RelationRecord, lsn: int, account: int, balance: int) -> list[Event]:
    """One transaction over both tables."""
    return [
        Event(accounts, "u", lsn, 0, after={"id": account, "balance": balance}),
        Event(history, "c", lsn, 1, after={"id": account, "delta": balance}),
    ]
