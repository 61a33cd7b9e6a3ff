"""Every published cut of a lake is the bank's state at its LSN (I8): read by time travel, each once.

In: the lake, and the log of what was committed. Out: how many cuts were looked at; an assertion for the first that is
no state of the source.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pyarrow as pa

from tests.faults.bank.bank import Bank, State
from tests.faults.bank.transfers import TABLES, TransferLog
from walbridge.lake import LakeTable, published
from walbridge.schemas.position import format_lsn
from walbridge.spark_consumer.plan.manifest_row import CutRow


class CutCheck:
    """Looks at the cuts that were published since it last looked."""

    def __init__(self, lake: Path, log: TransferLog) -> None:
        self._lake, self._log = str(lake), log
        self._bank, self._booked = Bank(), 0
        self._seen_sequence, self._seen_versions = -1, tuple[int | None, ...]()
        self.cuts = self.states = self.marked = 0
        """Published cuts looked at; those of them whose tables are not those of the cut before; and tables of these
        that were read after Spark had marked rows in their folder."""

    def check(self) -> None:
        new = [row for row in published(self._lake) if row.sequence > self._seen_sequence]
        log = self._log.read()  # after the cuts, so that it has all of theirs
        for row in new:
            self.cuts += 1
            self._seen_sequence = row.sequence
            due = takewhile(lambda each: each[0] <= row.end_lsn, log[self._booked :])  # noqa: B023
            transfers = [transfer for _, transfer in due]
            self._bank.book(transfers)
            self._booked += len(transfers)
            versions = tuple(entry.version for entry in row.tables)
            if versions == self._seen_versions:
                assert not transfers, f"the cut at {format_lsn(row.end_lsn)} lacks {len(transfers)} transfers"
                continue
            self._seen_versions = versions
            self.states += 1
            fault = self._bank.fault_of(self._state(row))
            assert fault is None, f"cut {row.sequence} at {format_lsn(row.end_lsn)} is no state of the source: {fault}"

    def _state(self, row: CutRow) -> State:
        assert {entry.name: entry.state for entry in row.tables} == dict.fromkeys(TABLES, "current")
        read = {entry.name: self._rows(LakeTable(self._lake, entry, {})) for entry in row.tables}
        balances, lists = ({each["id"]: each for each in read[name].to_pylist()} for name in ("accounts", "lists"))
        return State(
            {each: of["balance"] for each, of in balances.items()},
            {each: of["items"] for each, of in lists.items()},
            read["transfers"]["id"].to_pylist(),
        )

    def _rows(self, table: LakeTable) -> pa.Table:
        self.marked += any((Path(self._lake) / table.path).glob("deletion_vector_*"))
        names = [name for name in table.schema.names if name in ("id", "balance", "items")]
        rows = table.select(names).reader().read_all()
        assert len(rows) == len({*rows["id"].to_pylist()}), f"a key of {table.name} is there twice"
        return rows
