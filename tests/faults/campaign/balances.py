"""Every published cut of the lake is one state of the source (I8): read without Spark, each once.

Each transaction of the load adds one number to an account, to a teller and to the branch, and
writes it into the history: so the four sums are equal at any moment, and at every cut.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable

from tests.faults.campaign.load import PGBENCH_ACCOUNTS, TELLERS
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.read import published

BALANCES = {
    "pgbench_accounts": ("abalance", PGBENCH_ACCOUNTS),
    "pgbench_tellers": ("tbalance", TELLERS),
    "pgbench_branches": ("bbalance", 1),
    "pgbench_history": ("delta", None),
}


class BalanceCheck:
    """Looks at the cuts that were published since it last looked."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._seen_sequence = -1
        self._sums: dict[tuple[str, int | None], int] = {}
        self.cuts = 0
        """Published cuts looked at."""

    def check(self) -> None:
        for row in published(str(self._lake)):
            if row.sequence > self._seen_sequence:
                self._seen_sequence = row.sequence
                self.cuts += 1
                sums = {entry.name: self._sum(entry) for entry in row.tables}
                assert len(sums) == len(BALANCES)
                assert len(set(sums.values())) == 1, f"the cut at {row.end_lsn:X} is no state of the source: {sums}"

    def _sum(self, entry: TableEntry) -> int:
        place = entry.path, entry.version
        if place not in self._sums:
            column, rows = BALANCES[entry.name]
            table = DeltaTable(f"{self._lake}/{entry.path}", version=entry.version).to_pyarrow_table(columns=[column])
            assert rows is None or table.num_rows == rows
            self._sums[place] = int(pc.sum(table[column]).as_py() or 0)
        return self._sums[place]
