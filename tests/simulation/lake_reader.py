"""The job over the topics that a simulated run writes: now and then it runs, or dies, and its lake is compared.

In: a run with a table that comes. What must be true: where a published state calls the table current, its rows are the
source's at the state's LSN, and where it does not, readers were told; at the end it is current.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from random import Random

from deltalake import DeltaTable

from tests.faults import kill_points
from tests.simulation.broker import Committed
from tests.simulation.history import COPIED, NAMES
from tests.simulation.lake_over_broker import ask
from tests.simulation.run import Run
from tests.simulation.world import Violation
from tests.spark_consumer import two_tables
from walbridge.spark_consumer.delta.manifest.manifest_reader import open_table, rows_where
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

POINTS = (*kill_points.JOB, *kill_points.ENTERS)
RUNS_SHARE = 0.1
"""Of commits behind which the job runs."""
HARMED_SHARE = 0.3
"""Of those runs before which the table's folder is lost, as long as it is to be lost once more."""


class LakeReader:
    """``run_job``: over everything that is readable."""

    def __init__(self, run: Run, lake: Path, run_job: two_tables.Run) -> None:
        assert run.copied is not None
        self._source, self._world, self._cuts = run.copied, run.world, run.broker.log("p.cuts", 0)
        self._lake, self._run_job, self._broker = lake, run_job, run.broker
        self._random = Random(run.seed)
        self._read_by_model, run.broker.on_commit = run.broker.on_commit, self.on_commit
        run.wants_more = self._still_waits
        self._waits = True
        """For the table to become current."""
        self._harms = self._random.choice((0, 1, 1, 2))
        self._harmed: set[str] = set()
        """Folders of which no version can be trusted."""
        self._asked: set[str] = set()
        self._compared = 0
        """The newest row of ``_cuts`` that was."""
        self._newest: TableEntry | None = None
        self.states: Counter[str] = Counter()
        """Of published rows, how often."""

    def on_commit(self, done: Committed) -> None:
        self._read_by_model(done)
        if self._cuts.committed() and self._random.random() < RUNS_SHARE:
            if self._random.random() < HARMED_SHARE:
                self._harm()
            self._run()

    def _still_waits(self) -> bool:
        """While nothing is committed, time passes for the job as well, and for who harms its lake: they ask for a copy,
        since no change comes by which the job would notice soon."""
        if not self._waits:
            self._harm()
        if self._newest is not None and self._newest.path in self._harmed - self._asked:
            self._asked.add(self._newest.path)
            ask(self._broker)
        if self._waits and self._random.random() < RUNS_SHARE / 4:
            self._run()
        return self._waits

    def _run(self) -> None:
        if self._random.random() < 0.5:
            point = self._random.choice(POINTS)
            died = two_tables.killed_at(point, self._job, passing=self._random.randrange(3))
            self._world.note(f"job: {f'killed at {point}' if died else 'ran'}")
        else:
            self._job()
        self._compare()

    def _harm(self) -> None:
        """Another program deletes the table's folder; the job finds that when it comes by, and asks for a copy."""
        entry = self._newest
        if entry is None or entry.state != "current" or entry.path in self._harmed:
            return
        if len(self._harmed) < self._harms:
            self._world.note(f"somebody harms {entry.path}")
            self._harmed.add(entry.path)
            self._waits = True
            shutil.rmtree(self._lake / entry.path)

    def _job(self) -> None:
        try:
            self._run_job()
        except Exception as error:
            raise Violation(f"the job: {type(error).__name__}: {error}") from error

    def _compare(self) -> None:
        """I8: each row that was published since."""
        table = open_table(str(self._lake))
        rows = [] if table is None else rows_where(table, f"sequence > {self._compared} ORDER BY sequence")
        for row in rows:
            if row.kind == "published":
                self._compared = row.sequence
                for entry in row.tables:
                    if entry.name == NAMES[COPIED]:
                        self._compare_table(row, entry)

    def _compare_table(self, row: CutRow, entry: TableEntry) -> None:
        self._newest = entry
        self._waits = entry.state != "current" or entry.path in self._harmed
        self.states[entry.state] += 1
        if entry.state == "current" and entry.path not in self._harmed:
            found, wanted = self._rows_of(entry), self._source.at(row.end_lsn)
            if found != wanted:
                raise Violation(f"I8: the lake's table is {found} at {row.end_lsn}, and the source {wanted}")

    def _rows_of(self, entry: TableEntry) -> dict[int, str]:
        uri = f"{self._lake}/{entry.path}"
        table = LakeTable(uri, DeltaTable(uri, version=entry.version), {}).query("SELECT id, note FROM target")
        rows = table.read_all().to_pylist()
        if len({row["id"] for row in rows}) < len(rows):
            raise Violation(f"I4: a key is twice in {rows}")
        return {row["id"]: row["note"] for row in rows}

    def end(self) -> None:
        """All was published."""
        self._job()
        self._compare()
        if self._newest is None or self._newest.state != "current":
            raise Violation(f"I8: at the end the lake's table is {self._newest}")
