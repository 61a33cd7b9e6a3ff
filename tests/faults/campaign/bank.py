"""Every published cut of the lake is one state of the bank (I8): read without Spark, each once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from spark_consumer.read import published
from tests.faults.campaign.load import ACCOUNTS, BALANCE

BANK = ("bank_left", "bank_right", "bank_transfers")


class BankCheck:
    """Looks at the cuts that were published since it last looked."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._seen_sequence = -1
        self._seen_versions: set[tuple[int | None, ...]] = set()
        self.cuts = 0
        """Published cuts looked at."""

    def check(self) -> None:
        for row in published(str(self._lake)):
            if row.sequence <= self._seen_sequence:
                continue
            self._seen_sequence = row.sequence
            self.cuts += 1
            entries = {entry.name: entry for entry in row.tables}
            versions = tuple(entries[name].version for name in BANK)
            if versions not in self._seen_versions:
                self._seen_versions.add(versions)
                left, right, transfers = (self._rows(entries[name].path, entries[name].version) for name in BANK)
                _check_state(left, right, transfers)

    def _rows(self, path: str, version: int | None) -> pa.Table:
        return DeltaTable(f"{self._lake}/{path}", version=version).to_pyarrow_table()


def _check_state(left: pa.Table, right: pa.Table, transfers: pa.Table) -> None:
    assert left.num_rows == right.num_rows == ACCOUNTS
    moved = _sum(transfers, "amount")
    assert _sum(left, "balance") == ACCOUNTS * BALANCE - moved
    assert _sum(right, "balance") == ACCOUNTS * BALANCE + moved
    assert sorted(transfers["step"].to_pylist()) == list(range(transfers.num_rows))


def _sum(table: pa.Table, column: str) -> int:
    return int(pc.sum(table[column]).as_py() or 0)
