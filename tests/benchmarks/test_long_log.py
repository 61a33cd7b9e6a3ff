"""What it costs each plan to open a table whose log is long, beside a listing of that log; ``make bench``.

A log of some thousand commits is what a table has that gets one every second or two: the commits of two hours stay.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.benchmarks.results import record
from tests.spark_consumer.delta.long_log import LongLog
from walbridge.spark_consumer.delta.maintenance.log_files import LogFiles, files_in
from walbridge.spark_consumer.delta.table import LakeTable

pytestmark = [pytest.mark.bench]

COMMITS, TURNS = 4_000, 9


def cpu_ms(call: Callable[[], object]) -> float:
    begun_s = time.process_time()
    call()
    return (time.process_time() - begun_s) * 1000


def test_table_of_a_long_log_is_opened(lake: Path) -> None:
    log = LongLog(lake / "t", datetime.now(UTC))
    for _ in range(COMMITS):
        log.commit(datetime.now(UTC))
    DeltaTable(str(log.folder)).create_checkpoint()

    found: dict[str, list[float]] = {"open": [], "listing": []}
    for _ in range(TURNS):
        found["open"].append(cpu_ms(lambda: LakeTable.open(str(log.folder), {})))
        found["listing"].append(cpu_ms(lambda: LogFiles.listed(files_in(log.folder)).empty_of(log.version)))

    values = {name: round(statistics.median(of), 1) for name, of in found.items()}
    print(f"\nlog of {COMMITS:,} commits, CPU ms: {values}; {record('long_log', values)}")
