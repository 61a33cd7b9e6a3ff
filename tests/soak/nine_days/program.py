"""Nine days of plans of one table and the maintenance between them, in a process whose clock is moved.

``python -m tests.soak.nine_days.program LAKE FIGURES``, with the environment of ``moved_clock.py``, as
``test_nine_days.py`` starts it. Out: figures as JSON. An assertion fails where a reader would find less than he may.

Plans come four a second for some hours, and one a minute, or every ten minutes, otherwise: what is older than two hours
depends only on which rows are kept, and of a minute with 240 plans as many are kept as of a minute with one. So it is
with hours in what is older than a day.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.soak.nine_days.moved_clock import MovedClock
from tests.soak.nine_days.needed import NamingRow, Rows, beyond, names_in
from tests.soak.nine_days.table_of_plans import PATH, PIPELINE, DatedLog, ManifestInBatches, write_plan
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.maintenance.log_files import LAST_CHECKPOINT, CheckpointHint
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance
from walbridge.spark_consumer.delta.manifest.manifest_reader import CUTS_TABLE, written_rows
from walbridge.spark_consumer.plan.kept_cuts import Retention, WrittenRow, dropped
from walbridge.status.lake import lake_of

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
DENSE, SPARSE, SPARSEST = timedelta(seconds=0.25), timedelta(minutes=1), timedelta(minutes=10)
PHASES = (
    (1.1 * DAY, SPARSE),
    (1.1 * DAY + 0.25 * HOUR, DENSE),
    (1.6 * DAY, SPARSE),
    (6.9 * DAY, SPARSEST),
    (8 * DAY, SPARSE),
    (8 * DAY + 2.5 * HOUR, DENSE),
    (9 * DAY, SPARSE),
)
"""Until when a plan comes so often."""
RESTARTS = 3
COUNT_EVERY = {DENSE: timedelta(minutes=5), SPARSE: 6 * HOUR, SPARSEST: 6 * HOUR}
STATUS_AT = (0.1 * DAY, 1.2 * DAY, 5 * DAY, 8.05 * DAY, 8.2 * DAY, 8.7 * DAY)
STATUS_CALLS, PLANS_BETWEEN_CALLS = 15, 23
"""A call takes the longer the more commits ``_cuts`` got since its last checkpoint: calls are spread over these."""
READ_VERSIONS = 20
SETTLED = 3 * HOUR
"""So long after the plans came four a second, files of that time may wait for a visit."""
LOG_OF_CUTS = 36_000
"""So many commits ``_cuts`` has in its log of 75 minutes, where four plans a second write two rows each."""
SEED = 7


@dataclass
class Figures:
    """The maxima of everything that was counted, and seconds of each pause."""

    most: dict[str, float] = field(default_factory=dict)
    pauses_s: dict[timedelta, list[float]] = field(default_factory=lambda: {DENSE: [], SPARSE: [], SPARSEST: []})
    status_cpu_ms: dict[str, list[float]] = field(default_factory=dict)

    def count(self, values: dict[str, float]) -> None:
        for name, value in values.items():
            self.most[name] = max(value, self.most.get(name, value))

    def result(self) -> dict[str, Any]:
        pauses = {
            name: {"p50": statistics.median(found), "p99": _share(found, 0.99), "max": max(found), "n": len(found)}
            for name, found in (
                ("sparse", self.pauses_s[SPARSE] + self.pauses_s[SPARSEST]),
                ("dense", self.pauses_s[DENSE]),
            )
            if found
        }
        status = {day: statistics.median(found) for day, found in self.status_cpu_ms.items() if found}
        rounded = {name: {key: round(each, 4) for key, each in found.items()} for name, found in pauses.items()}
        return {"most": self.most, "pauses_s": rounded, "status_cpu_ms": status, "status_calls": self.status_cpu_ms}


class NineDays:
    """The run."""

    def __init__(self, lake: Path) -> None:
        self._lake, self._clock, self._random = lake, MovedClock(), random.Random(SEED)
        self._settings = Settings(name=PIPELINE, lake={"path": str(lake)})  # type: ignore[arg-type]
        kept = self._settings.lake
        hours = kept.all_cuts_hours, kept.minute_cuts_hours, kept.cut_retention_hours
        self._retention = Retention(*(timedelta(hours=each) for each in hours))
        self._begun = self._clock()
        self._log = DatedLog(lake / PATH, self._begun)
        self._rows = Rows(self._retention, [])
        self._ever: list[NamingRow] = []
        self.figures = Figures()
        self._begin_job()

    def _begin_job(self) -> None:
        self._manifest = ManifestInBatches(str(self._lake))
        self._tidying = Maintenance(str(self._lake), self._manifest, self._settings, self._clock)

    @property
    def _age(self) -> timedelta:
        return self._clock() - self._begun

    def run(self) -> None:
        """All of it."""
        restarts = sorted(self._random.uniform(0, 1) * PHASES[-1][0] for _ in range(RESTARTS - 1))
        # One of them while plans come four a second.
        restarts = sorted([*restarts, PHASES[-2][0] - self._random.uniform(0, 1) * HOUR])
        print(f"seed {SEED}, jobs begin anew at days {[round(each / DAY, 3) for each in restarts]}", flush=True)
        dense_until = -SETTLED
        for end, interval in PHASES:
            counted = self._age
            while self._age < end:
                self._plan(interval)
                if restarts and self._age >= restarts[0]:
                    del restarts[0]
                    self._manifest.write_waiting()
                    self._begin_job()
                self._ask_status()
                if self._age - counted >= COUNT_EVERY[interval]:
                    counted = self._age
                    self._count("steady" if interval == DENSE or self._age > dense_until + SETTLED else "after dense")
            dense_until = end if interval == DENSE else dense_until
        self._end()

    def _plan(self, interval: timedelta) -> None:
        self._clock.move_to(self._last + interval if self._ever else self._begun)
        now = self._clock()
        written = write_plan(self._log, self._manifest, now)
        self._ever += written
        self._rows.may_be_read += written
        begun_s = time.perf_counter()
        self._tidying.after_plan([PATH])
        self.figures.pauses_s[interval].append(time.perf_counter() - begun_s)

    @property
    def _last(self) -> datetime:
        return self._ever[-1].row.written_at

    def _count(self, when: str) -> None:
        self._manifest.write_waiting()
        now = self._clock()
        versions = self._rows.versions(now)
        found = beyond(self._log.files, names_in(self._log.folder), names_in(self._log.log), versions)
        assert found.lost == [], f"at day {self._age / DAY:.3f}"
        cuts = DeltaTable(str(self._lake / CUTS_TABLE))
        counted: dict[str, float] = {
            f"log beyond, {when}": found.log,
            f"data beyond, {when}": found.data,
            "needed versions": len(versions),
            "_cuts files": len(cuts.file_uris()),
            "_cuts files on disk": len(names_in(self._lake / CUTS_TABLE)),
            "_cuts log": len(names_in(self._lake / CUTS_TABLE / "_delta_log")),
            "tombstones": self._tombstones(),
            "rss_mb": _rss_mb(),
        }
        self.figures.count(counted)
        print(f"day {self._age / DAY:.3f}, version {self._log.version}: {counted}", flush=True)

    def _tombstones(self) -> int:
        path = self._log.log / LAST_CHECKPOINT
        hint = CheckpointHint.parse(path.read_bytes()) if path.exists() else None
        return 0 if hint is None else hint.action_count - hint.add_count

    def _ask_status(self) -> None:
        """One call, if it is the time for one."""
        at = max((each for each in STATUS_AT if each <= self._age), default=None)
        calls = self.figures.status_cpu_ms.setdefault(f"{at / DAY:.2f}", []) if at is not None else None
        if calls is not None and len(calls) < STATUS_CALLS and self._log.version % PLANS_BETWEEN_CALLS == 0:
            calls.append(self._status_cpu_ms())

    def _status_cpu_ms(self) -> float:
        begun = time.process_time()
        lake_of(self._settings)
        return round(1000 * (time.process_time() - begun), 1)

    def _end(self) -> None:
        self._count("steady")
        now = self._clock()
        self._manifest.thin(self._retention, now)
        kept = _kept([each.row for each in self._ever], self._retention, now)
        there = [row.sequence for row in written_rows(DeltaTable(str(self._lake / CUTS_TABLE)))]
        assert there == kept, "rows of _cuts are not those that are kept"
        versions = {each.row.sequence: each.version for each in self._ever}
        hourly = [row.row.sequence for row in self._ever if row.row.written_at < now - self._retention.minutes_for]
        named = {versions[each] for each in [*self._random.sample(kept, READ_VERSIONS), *({*hourly} & {*kept})]}
        for version in sorted(named):
            assert self._log.rows(version) == self._log.expected[version], f"version {version}"
        self._manifest.lengthen_log(LOG_OF_CUTS, after_checkpoint=50)
        self.figures.status_cpu_ms[f"log of {LOG_OF_CUTS}"] = [self._status_cpu_ms() for _ in range(STATUS_CALLS)]
        self.figures.count({"rows kept": len(kept), "versions read": len(named), "commits": self._log.version})


def _kept(rows: Sequence[WrittenRow], retention: Retention, now: datetime) -> list[int]:
    gone = dropped(rows, retention, now)
    left = {row.sequence for row in rows}
    for first, last in gone:
        left.difference_update(range(first, last + 1))
    return sorted(left)


def _share(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def _rss_mb() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


if __name__ == "__main__":
    lake_folder, figures_file = map(Path, sys.argv[1:])
    days = NineDays(lake_folder)
    try:
        days.run()
    finally:
        figures_file.write_text(json.dumps(days.figures.result(), indent=2))
