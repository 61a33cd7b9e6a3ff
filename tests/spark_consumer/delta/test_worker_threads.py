"""Tables are written at a time by delta-rs, while somebody lists a log with it: none waits for the other for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BOUND_S = 120
WRITES = """
import sys, threading
import pyarrow as pa
from deltalake import write_deltalake
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector
from walbridge.spark_consumer.delta.worker_threads import reserve_threads

lake, count = sys.argv[1], int(sys.argv[2])
reserve_threads(count)
schema = pa.schema([("n", pa.int64())])

def batches():
    for _ in range(20):
        yield pa.record_batch({"n": pa.array(range(2000), pa.int64())}, schema=schema)

def write(number):
    for _ in range(20):
        write_deltalake(f"{lake}/{number}", pa.RecordBatchReader.from_batches(schema, batches()), mode="append")

write_deltalake(f"{lake}/0", pa.RecordBatchReader.from_batches(schema, batches()))
writers = [threading.Thread(target=write, args=(number,)) for number in range(count)]
for each in writers:
    each.start()
while any(each.is_alive() for each in writers):
    DeltaStorageHandler(f"{lake}/0").get_file_info_selector(FileSelector("_delta_log"))
"""


@pytest.mark.simulation
def test_listing_beside_more_writes_than_there_are_cores_ends(tmp_path: Path) -> None:
    """I9: each wait ends. A write waits for Python's lock in a thread for which the listing waits with that lock."""
    command = [sys.executable, "-c", WRITES, str(tmp_path), "4"]
    assert subprocess.run(command, timeout=BOUND_S, check=False).returncode == 0
