"""``walbridge verify --every``: a value that was altered in the lake's files is found, told, and mended (I8)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import ROOT
from tests.scraped import Scraped
from tests.wait import wait_until
from walbridge.status.read_status import read_status
from walbridge.status.show import as_text

FOUND_S = 240.0
"""Each look is a run of the job, a minute of a busy machine, and it takes several."""
END_S = 60.0
"""Shorter measures the machine: it may be in the middle of a run."""


@contextmanager
def verifying(folder: Path, config: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The command of an operator, with a run each second, which has the time of a run of the job; its log."""
    command = [sys.executable, "-m", "walbridge", "verify", "--every", "1s", "--timeout", "60", "--config", str(config)]
    path = folder / "verify.log"
    with path.open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process, path
        finally:
            process.kill()
            process.wait()


def alter(table: Path, id_: int, value: int) -> None:
    """One value of the version that is published, in the very file: no commit of Delta's tells it."""
    names = [Path(uri).name for uri in DeltaTable(table).file_uris()]
    files = {name: pq.ParquetFile(table / name).read() for name in names}
    (name,) = (name for name, rows in files.items() if id_ in rows["id"].to_pylist())
    rows = files[name]
    values = pc.if_else(pc.equal(rows["id"], id_), pa.scalar(value, rows["v"].type), rows["v"])
    before = (table / name).stat().st_size
    pq.write_table(rows.set_column(rows.schema.get_field_index("v"), rows.schema.field("v"), values), table / name)
    for entry in (table / "_delta_log").glob("*.json"):
        text = entry.read_text()
        assert name not in text or f'"size":{before}' in text
        if name in text:
            entry.write_text(text.replace(f'"size":{before}', f'"size":{(table / name).stat().st_size}'))


def published_until(pipeline: PipelineUnderTest, condition: Callable[[], bool], what: str) -> None:
    """While the lake publishes on and on, as a job does that runs."""

    def holds() -> bool:
        pipeline.catch_up()
        return condition()

    wait_until(holds, what, FOUND_S)


def states(pipeline: PipelineUnderTest) -> list[str]:
    """Of the table, in the order of published cuts."""
    return [entry.state for row in pipeline.published() for entry in row.tables if entry.name == "t"]


def test_value_that_was_altered_in_the_lake_is_found_told_and_mended(
    pipeline: PipelineUnderTest, tmp_path: Path
) -> None:
    pipeline.database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT n, n FROM generate_series(1, 100) n;"
        "CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)"
    )
    pipeline.producer.publish("t", "u")
    pipeline.producer.settings["lake"] = {"path": str(pipeline.lake)}
    pipeline.producer.settings["metrics"] = {"verify_port": 0, "state_dir": str(tmp_path / "state")}
    running = pipeline.producer.start_streaming()
    pipeline.check_equal()
    alter(pipeline.lake / "public" / "t", 42, 7)
    assert next(row["v"] for row in pipeline.contents("t") if row["id"] == 42) == 7

    with verifying(tmp_path, pipeline.producer.folder / "walbridge.toml") as (process, log):
        wait_until(lambda: "metrics" in log.read_text() or process.poll() is not None, "the service", FOUND_S)
        shown = Scraped(log.read_text())

        def said() -> str:
            return as_text(read_status(pipeline.settings))

        published_until(pipeline, lambda: "rows of it differ" in running.log, "the doubt")
        assert "differs from its source" in log.read_text()
        assert shown.value("walbridge_verify_unequal_tables_total") >= 1  # again, until the lake calls it stale
        published_until(pipeline, lambda: shown.value("walbridge_verify_tables", result="equal") == 2, "equal tables")
        assert next(row["v"] for row in pipeline.contents("t") if row["id"] == 42) == 42
        wait_until(lambda: "2 of 2 tables equal" in said(), "status to tell it", FOUND_S)

        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0
        assert "id=42" not in log.read_text()  # I10
        (kept,) = (tmp_path / "state").glob("*-differs-*.json")
        assert "id=42" in kept.read_text()
    # A second doubt, of before the table was stale, may have it copied twice.
    published_until(pipeline, lambda: states(pipeline)[-1] == "current", "the table to be current")
    assert "stale" in states(pipeline)
