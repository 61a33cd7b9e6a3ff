"""Under a steady load memory, the time of a plan and files stay as they are: ten minutes, or ``STEADY_S=7200``.

Postgres, the broker, and the producer and the job as programs of their own; pgbench writes all the while. The last
third is held against the one before it: caches are full by then, and what still grows would grow for ever. Files on
disk grow with the states that are kept, which are all of the last hour; those that a table holds stay few, and none is
of no commit.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from tests.benchmarks.results import record
from tests.benchmarks.test_lake import JobProgram, end_of_wal, job_program, settings_of, wait_for_cut
from tests.faults.campaign.load import SCHEMA, TABLES, Pgbench
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.maintenance.maintenance import COMMITS_BETWEEN_VISITS, SMALL_FILES_MAX
from walbridge.spark_consumer.delta.manifest.manifest_reader import CUTS_TABLE
from walbridge.verify import compare

pytestmark = [pytest.mark.soak, pytest.mark.servers]

STEADY_S = float(os.environ.get("STEADY_S", "600"))
WARM_UP_S = 60.0
EVERY_S = 20.0 if STEADY_S < 3_600 else 60.0
TRANSACTIONS_PER_S = 50
GROWTH_MAX = 1.3
ACTIVE_FILES_MAX = len(TABLES) * (SMALL_FILES_MAX + COMMITS_BETWEEN_VISITS)
"""Each table's small files, and those that come until its next visit."""
CUTS_FILES_MAX = 20
STARTED_S, PUBLISHED_S = 300.0, 120.0


@dataclass(frozen=True)
class Sample:
    """What there is at one moment, and what plans took since the one before."""

    at_s: float
    python_mb: float
    jvm_mb: float
    producer_mb: float
    plan_s: float
    plan_cpu_s: float
    plans: int
    active_files: int
    data_files: int
    log_files: int
    cuts_files: int


class Watch:
    """Takes samples of the two programs and the lake."""

    def __init__(self, job: JobProgram, producer: psutil.Process) -> None:
        self._job, self._producer = job, producer
        self._python = psutil.Process(job.process.pid)
        self._jvm = next(each for each in self._python.children(recursive=True) if each.name() == "java")
        self._begun_s, self._since_s, self._cpu_s = time.time(), time.time(), job.cpu_s()
        self.samples: list[Sample] = []

    def sample(self) -> None:
        plans = [each for each in self._job.plans_since(self._since_s) if each["rows"]]
        assert plans, "no plan has ended: the load is no load"
        cpu_s, self._since_s = self._job.cpu_s(), time.time()
        tables = [DeltaTable(str(path.parent)) for path in self._job.lake.glob("*/*/_delta_log")]
        self.samples.append(
            Sample(
                at_s=round(time.time() - self._begun_s),
                python_mb=_rss_mb(self._python),
                jvm_mb=_rss_mb(self._jvm),
                producer_mb=_rss_mb(self._producer),
                plan_s=statistics.median(each["ended_s"] - each["began_s"] for each in plans),
                plan_cpu_s=round((cpu_s - self._cpu_s) / len(plans), 3),
                plans=len(plans),
                active_files=sum(len(table.file_uris()) for table in tables),
                data_files=_count(self._job.lake.glob("*/*/*.parquet")),
                log_files=_count(self._job.lake.glob("*/*/_delta_log/*")),
                cuts_files=len(DeltaTable(str(self._job.lake / CUTS_TABLE)).file_uris()),
            )
        )
        self._cpu_s = cpu_s
        print(self.samples[-1], flush=True)

    def growth(self, name: str) -> float:
        """The median of the last third beside that of the one before it."""
        third, values = len(self.samples) // 3, [float(asdict(sample)[name]) for sample in self.samples]
        return round(statistics.median(values[2 * third :]) / statistics.median(values[third : 2 * third]), 2)


def test_steady_load_leaves_memory_plans_and_files_as_they_are(
    producer: ProducerUnderTest, lake: Path, tmp_path: Path
) -> None:
    database = producer.database
    database.execute(SCHEMA)
    producer.publish(*TABLES)
    # As by default: idle cuts every 50 ms, as other tests want them, would be plans of their own.
    producer.settings = {"producer": {"idle_cut_interval_ms": Settings().producer.idle_cut_interval_ms}}
    running = producer.start_streaming()
    load = Pgbench(database, tmp_path, TRANSACTIONS_PER_S)
    with job_program(producer, lake, tmp_path) as job:
        wait_for_cut(job, end_of_wal(database), STARTED_S)
        try:
            load.keep_running()
            watch = watched(job, psutil.Process(running.process.pid))
        finally:
            load.end()
        results = compare(settings_of(producer, lake), timeout_s=PUBLISHED_S)
        wait_for_cut(job, end_of_wal(database))
    running.stop()

    growth = {name: watch.growth(name) for name in ("python_mb", "jvm_mb", "producer_mb", "plan_s", "plan_cpu_s")}
    print(f"{STEADY_S:.0f} s, the last third beside the middle one: {growth}")
    record("steady_load", {"seconds": STEADY_S, "growth": growth, "last": asdict(watch.samples[-1])})
    assert [result for result in results if not result.equal] == []
    assert {name: value for name, value in growth.items() if value > GROWTH_MAX} == {}
    assert max(sample.active_files for sample in watch.samples) <= ACTIVE_FILES_MAX
    assert max(sample.cuts_files for sample in watch.samples) <= CUTS_FILES_MAX
    assert data_files_of_no_commit(lake) == []


def watched(job: JobProgram, producer: psutil.Process) -> Watch:
    """Samples of all the time, without that of the warm-up."""
    wait_for(job, producer, WARM_UP_S)
    watch = Watch(job, producer)
    for _ in range(round(STEADY_S / EVERY_S)):
        wait_for(job, producer, EVERY_S)
        watch.sample()
    return watch


def wait_for(job: JobProgram, producer: psutil.Process, seconds: float) -> None:
    """Until so much time has passed, while both programs run."""
    end_s = time.monotonic() + seconds

    def is_over() -> bool:
        assert job.process.poll() is None, job.said.read_text()[-3000:]
        assert producer.is_running(), "the producer has ended"
        return time.monotonic() >= end_s

    wait_until(is_over, "the time to pass", seconds + PUBLISHED_S, poll_s=1)


def data_files_of_no_commit(lake: Path) -> list[str]:
    """Data files that no log names. Logs go back two hours, to the lake's begin."""
    found = []
    for log in lake.glob("*/*/_delta_log"):
        commits = [json.loads(line) for path in log.glob("*.json") for line in path.read_text().splitlines()]
        added = {action["add"]["path"] for action in commits if "add" in action}
        found += [str(path) for path in log.parent.glob("*.parquet") if path.name not in added]
    return found


def _rss_mb(process: psutil.Process) -> float:
    held: int = process.memory_info().rss
    return round(held / 2**20, 1)


def _count(paths: Iterable[Path]) -> int:
    return sum(1 for _ in paths)
