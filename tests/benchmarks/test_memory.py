"""What a large row takes at its most, beside what ``walbridge.runtime.heap`` says (I9).

Rows of 1, 15 and 30 MB in a table of identity FULL are inserted, updated, given another key and
deleted, each by a run of the job of its own. Meanwhile the JVM is asked for full collections, one
after another: its log says what each found and what it left, which is what is held. Python's share is the
resident size of this process, the libraries that write Delta included. What the heap does not take is left out;
30 MB want ``TEST_DRIVER_MEMORY=1664m``.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fix_pipeline import PipelineUnderTest
from tests.memory import Watched
from walbridge.embedded.java import find_java
from walbridge.runtime.heap import BASE_BYTES, READ_COPIES, largest_record, record_bytes_max

pytestmark = [pytest.mark.bench, pytest.mark.servers]

MIB = 2**20
STEPS = {
    "insert": "INSERT INTO t VALUES (1, {text}, 0)",
    "update": "UPDATE t SET n = 1",
    "key change": "UPDATE t SET id = 2",
    "delete": "DELETE FROM t",
}
ROWS_IN_RECORD = {"insert": 1, "update": 2, "key change": 1, "delete": 1}
_COLLECTION = re.compile(r"Pause Full .*?(\d+)M->(\d+)M\(\d+M\)")


@dataclass
class HeapLog:
    """The JVM's own log of its collections."""

    jvm: Any
    path: Path
    _read: int = 0

    def begin(self) -> None:
        """From here on; a JDK's ``jcmd`` asks for it."""
        pid = self.jvm.java.lang.ProcessHandle.current().pid()
        asked = [str(find_java().java_home / "bin" / "jcmd"), str(pid), "VM.log", f"output={self.path}", "what=gc"]
        subprocess.run(asked, check=True, stdout=subprocess.DEVNULL)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """One full collection after another, until the block ends."""
        end = threading.Event()

        def collect() -> None:
            while not end.wait(0.1):
                self.jvm.java.lang.System.gc()

        thread = threading.Thread(target=collect)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def peaks(self) -> tuple[int, int]:
        """MiB since the last call: of all that was there, and of what a collection left."""
        self.jvm.java.lang.System.gc()
        found = _COLLECTION.findall(self.path.read_text())[self._read :]
        self._read += len(found)
        return max(int(before) for before, _ in found), max(int(after) for _, after in found)


@pytest.mark.parametrize("row_mb", [1, 15, 30])
def test_memory_of_a_row(pipeline: PipelineUnderTest, spark: SparkSession, tmp_path: Path, row_mb: int) -> None:
    jvm: Any = spark._jvm
    heap = int(jvm.java.lang.Runtime.getRuntime().maxMemory())
    row_bytes_max = max(row_mb + 2, 16) * MIB
    if largest_record(heap) < record_bytes_max(row_bytes_max):
        pytest.skip(f"a heap of {heap // MIB} MiB does not take it: TEST_DRIVER_MEMORY=1664m")
    database = pipeline.database
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text, n int); ALTER TABLE t REPLICA IDENTITY FULL")
    pipeline.producer.settings["producer"] = {"row_bytes_max": row_bytes_max, "idle_cut_interval_ms": 50}
    pipeline.producer.publish("t")
    pipeline.producer.start_streaming()
    pipeline.check_equal()
    log = HeapLog(jvm, tmp_path / "gc.log")
    log.begin()
    log.peaks()
    for step, sql in STEPS.items():
        text = f"(SELECT string_agg(md5(n::text), '') FROM generate_series(1, {row_mb * MIB // 32}) n)"
        database.execute(sql.format(text=text))
        with pipeline.producer.topics() as topics:
            pipeline.producer.caught_up(topics, 300)
        _, idle = log.peaks()
        python = Watched(children=False)
        with log.collecting():
            pipeline.materialize()
        python_mb = python.stop()
        used, held = log.peaks()
        record = ROWS_IN_RECORD[step] * row_mb
        arithmetic = BASE_BYTES // MIB + READ_COPIES * record
        print(
            f"\n{row_mb} MB {step}: record {record} MB; heap at rest {idle}, at most {held} held and {used} in all "
            f"of {heap // MIB}, by arithmetic {arithmetic} without Spark's share; Python {python_mb:.0f} MB"
        )
    pipeline.check_equal()
