"""Two tables of a pipeline in memory: transactions over both, deaths of the job, and what its readers see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.contract_events import copied, copy_begin, copy_end
from tests.contract_writer import Event
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.events import column, relation
from tests.spark_consumer.memory_pipeline import MemoryPipeline
from walbridge.spark_consumer import between_plans, plan_runner
from walbridge.spark_consumer.apply import apply
from walbridge.spark_consumer.apply.copies import copy_builds, copy_entry
from walbridge.spark_consumer.delta.manifest.manifest_reader import open_table, published_rows, rows_where
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

ACCOUNTS = relation([column("id", "int4", is_key=True), column("n", "int4")], name="accounts", relation_id=1)
HISTORY = relation([column("id", "int4"), column("n", "int4")], name="history", relation_id=2)
Run = Callable[..., None]


def begun() -> MemoryPipeline:
    """Two tables that hold a row each."""
    pipeline = MemoryPipeline()
    pipeline.announce(ACCOUNTS, HISTORY)
    pipeline.copy(ACCOUNTS, HISTORY, id=1, n=0)
    return pipeline


def transfer(pipeline: MemoryPipeline, n: int, **options: Any) -> None:
    """One transaction over both tables."""
    lsn = 0x2000 + 16 * n
    update = Event(ACCOUNTS, "u", lsn, 0, after={"id": 1, "n": n})
    pipeline.send(update, Event(HISTORY, "c", lsn, 1, after={"id": 1, "n": n}), **options)


def cut_rows(lake: Path) -> list[CutRow]:
    table = open_table(str(lake))
    assert table is not None
    return rows_where(table, "true ORDER BY sequence")


def shown(lake: Path) -> dict[str, list[int]]:
    """Column n of every table, as readers of the newest published row see it."""
    table = open_table(str(lake))
    assert table is not None
    found = {}
    for entry in published_rows(table)[-1].tables:
        of = LakeTable.open(f"{lake}/{entry.path}", {})
        assert of is not None
        assert entry.version == of.version
        found[entry.name] = sorted(of.query("SELECT n FROM target").read_all().column(0).to_pylist())
    return found


def published_history(lake: Path) -> list[int]:
    """Column n of the history as readers see it, whatever was written since; nothing before the first published cut."""
    table = open_table(str(lake))
    rows = published_rows(table) if table is not None else []
    if not rows:
        return []
    (entry,) = (entry for entry in rows[-1].tables if entry.name == "history")
    return sorted(DeltaTable(f"{lake}/{entry.path}", version=entry.version).to_pyarrow_table()["n"].to_pylist())


def accounts(row: CutRow) -> TableEntry:
    (entry,) = (entry for entry in row.tables if entry.topic == ACCOUNTS.topic)
    return entry


def rows_of(lake: Path, entry: TableEntry) -> list[int | str]:
    return sorted(DeltaTable(f"{lake}/{entry.path}", version=entry.version).to_pyarrow_table()["n"].to_pylist())


def history(lake: Path) -> list[int | str]:
    (entry,) = (entry for entry in cut_rows(lake)[-1].tables if entry.topic == HISTORY.topic)
    assert entry.state == "current"
    return rows_of(lake, entry)


def copy_again(pipeline: MemoryPipeline, n: int) -> None:
    """The source has one account, with this n."""
    lsn = 0x2008 + 16 * n
    marker, begin = copy_begin(ACCOUNTS, lsn)
    pipeline.send(marker, *copied(ACCOUNTS, lsn, {"id": 1, "n": n}), barriers=[begin])
    marker, end = copy_end(ACCOUNTS, lsn)
    pipeline.send(marker, barriers=[end])


def killed_at(point: str, run: Run, *, passing: int = 0) -> bool:
    """Whether the job came to that point, once it had passed it so often; there it ends."""
    left = [passing]

    def kill(reached: str) -> None:
        if reached == point:
            left[0] -= 1
            if left[0] < 0:
                raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_runner, "kill_point", kill)
        for module in (apply, copy_builds, copy_entry, between_plans):
            patch.setattr(module, "kill_point", kill)
        try:
            run()
        except Crash:
            return True
    return False
