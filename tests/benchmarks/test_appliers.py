"""1,000 changes to tables of 1M, 10M and 30M rows by each applier, and 200,000 to one of 10M.

Printed are seconds, CPU seconds, bytes read and written, and memory.

``spread``: keys all over the table, so that every file holds some; ``recent``: the last ones, which one file holds.
Beside them a plain MERGE INTO by Spark of the same rows, without deletion vectors.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.benchmarks.results import record
from tests.spark_consumer.apply.segment_changes import row_schema
from tests.spark_consumer.events import column, relation
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.apply.arrow_spool import spooled
from walbridge.spark_consumer.apply.key_bounds import KeyBounds
from walbridge.spark_consumer.apply.merge import key_merge
from walbridge.spark_consumer.delta.by_spark import merge as merge_module
from walbridge.spark_consumer.delta.columns import arrow_schema
from walbridge.spark_consumer.delta.commit import Commit, Matches
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape

pytestmark = [pytest.mark.bench, pytest.mark.servers]

FILE_ROWS, SLICE_ROWS, CHANGES, MANY_CHANGES, TURNS = 1_000_000, 100_000, 1_000, 200_000, 3
SIZES, VERY_LARGE = (1_000_000, 10_000_000, 30_000_000), 100_000_000
COLUMNS = [column("id", "int8", is_key=True), column("customer", "int4"), column("status"), column("note")]
SHAPE = TableShape(relation(COLUMNS))
COMMIT = Commit("p")


CODEGEN = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")


@pytest.fixture(autouse=True)
def _as_the_job_has_it(compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark compiles its expressions, also in the new sessions for merges, which have what the JVM began with."""
    monkeypatch.setattr(merge_module, "_FROM_THE_JOB", (*merge_module._FROM_THE_JOB, *CODEGEN))


class Cost(NamedTuple):
    """Of one merge; ``written``: bytes that files of data and vectors grew by, and ``log`` the table's log;
    ``peak_mb``: the most memory that Python and the JVM had while it ran."""

    seconds: float
    cpu_s: float
    written: int
    log: int
    read: int
    peak_mb: int


@pytest.mark.parametrize("pattern", ["spread", "recent"])
def test_changes_to_tables_of_any_size(lake: Path, spark: SparkSession, pattern: str) -> None:
    written: dict[int, dict[str, int]] = {}
    for rows in SIZES:
        found = each_applier(lake / f"{rows}", spark, rows, pattern, CHANGES)
        written[rows] = {name: cost.written for name, cost in found.items()}
    for name, bytes_before in written[SIZES[1]].items():
        ratio = written[SIZES[2]][name] / bytes_before
        print(f"\n{pattern} updates, {name}: from {SIZES[1]:,} to {SIZES[2]:,} rows {ratio:.2f} x as much written")


@pytest.mark.soak
def test_changes_to_a_very_large_table(lake: Path, spark: SparkSession) -> None:
    each_applier(lake, spark, VERY_LARGE, "spread", CHANGES, turns=1)


def test_many_changes_to_a_large_table(lake: Path, spark: SparkSession) -> None:
    each_applier(lake, spark, SIZES[1], "spread", MANY_CHANGES, turns=1)


def each_applier(
    lake: Path, spark: SparkSession, rows: int, pattern: str, changes: int, turns: int = TURNS
) -> dict[str, Cost]:
    """What a merge costs at the least, by each applier and by a plain MERGE INTO."""
    found = {}
    filled(lake / "source", rows)
    for name in ("local", "spark"):
        table, appliers = copy_of(lake / "source", lake / name), Appliers(name, spark, aside=lake)
        found[name] = min(merged(table, appliers, keys(rows, pattern, changes, turn), turn) for turn in range(turns))
        shutil.rmtree(lake / name)
    plain = copy_of(lake / "source", lake / "plain")
    found["plain MERGE INTO"] = min(plainly(plain, spark, keys(rows, pattern, changes, turn)) for turn in range(turns))
    shutil.rmtree(lake)
    for name, (seconds, cpu_s, written, log, read, peak_mb) in found.items():
        print(f"\n{changes:,} {pattern} updates of {rows:,} rows, {name}: ", end="")
        moved = f"{read / 1e6:.2f} MB read, {written / 1e6:.3f} MB written and {log / 1e6:.3f} to the log"
        print(f"{seconds:.2f} s, {cpu_s:.2f} CPU-s, {moved}, {peak_mb} MB of memory", end="")
        values = {"s": round(seconds, 2), "cpu_s": round(cpu_s, 2), "bytes": written, "bytes_of_log": log}
        values |= {"bytes_read": read, "peak_mb": peak_mb}
        record(f"{name}_{pattern}_{changes}_{rows}", values)
    return found


def filled(folder: Path, rows: int) -> None:
    """A file of each million rows, in the order of their keys, as a copy writes them."""
    table = LakeTable.create(str(folder), SHAPE.fields, COMMIT, {})
    schema = arrow_schema(SHAPE.fields)
    for start in range(0, rows, FILE_ROWS):
        table.append(pa.RecordBatchReader.from_batches(schema, _batches(start, schema)), COMMIT)


def copy_of(folder: Path, path: Path) -> LakeTable:
    shutil.copytree(folder, path)
    table = LakeTable.open(str(path), {})
    assert table is not None
    return table


def _batches(start: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    step = 100_000
    nulls = {of.name: pa.nulls(step, of.type) for of in schema.field("_walbridge").type}
    said = {name: pa.array([value] * step, nulls[name].type) for name, value in (("commit_lsn", 1), ("ordinal", 0))}
    parts = list((nulls | said).values())
    for first in range(start, start + FILE_ROWS, step):
        ids = pa.array(np.arange(first, first + step))
        columns = [
            ids,
            pa.array(np.arange(first, first + step) * 7919 % 50_000, pa.int32()),
            pa.array(["paid", "open", "sent", "gone"] * (step // 4)),
            pc.binary_join_element_wise(
                "a note about order", pc.cast(pc.multiply(ids, 2_654_435_761), pa.string()), " "
            ),
            pa.StructArray.from_arrays(parts, fields=list(schema.field("_walbridge").type)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def keys(rows: int, pattern: str, changes: int, turn: int) -> Sequence[int]:
    if pattern == "recent":
        return range(rows - changes, rows)
    return random.Random(turn).sample(range(rows), changes)


def folded(of: Sequence[int], turn: int) -> pa.Table:
    """Updates as a fold gives them."""
    schema = pa.schema([*row_schema(SHAPE), pa.field("unknown", pa.list_(pa.int32())), pa.field("is_new", pa.bool_())])
    change = {"commit_lsn": turn + 2, "ordinal": 0, "op": "u"}
    names = [place_name(place) for place in range(len(COLUMNS))]
    rows = [
        dict(zip(names, (key, turn, "paid", "changed"), strict=True))
        | {"change": change, "unknown": [], "is_new": False}
        for key in of
    ]
    return pa.Table.from_pylist(rows, schema)


def slices(of: Sequence[int], turn: int) -> Iterator[pa.Table]:
    for start in range(0, len(of), SLICE_ROWS):
        yield folded(of[start : start + SLICE_ROWS], turn)


def merged(table: LakeTable, appliers: Appliers, of: Sequence[int], turn: int) -> Cost:
    with spooled(folded(of[:1], turn).schema, slices(of, turn)) as held:

        def merge() -> None:
            bounds = KeyBounds.of(held.batches(), SHAPE)

            def make(dialect: Any) -> Any:
                return key_merge(
                    SHAPE, with_unknown=False, by_operation=True, inserts_any=False, bounds=bounds, dialect=dialect
                )

            assert appliers.merge(table, held, bounds, make, COMMIT) == Matches(len(of), 0)

        return measured(table, merge)


def plainly(table: LakeTable, spark: SparkSession, of: Sequence[int]) -> Cost:
    session = spark.newSession()
    for name in CODEGEN:
        session.conf.set(name, spark.conf.get(name) or "")
    session.createDataFrame(folded(of, 1)).createTempView("changes")

    def merge() -> None:
        session.sql(
            f"MERGE INTO delta.`{table.uri}` t USING changes s ON s.{place_name(0)} = t.id "
            f"WHEN MATCHED THEN UPDATE SET t.status = s.{place_name(2)}"
        )

    return measured(table, merge)


def measured(table: LakeTable, merge: Callable[[], None]) -> Cost:
    """What a merge takes of Python and the JVM beside it."""
    forget_peaks()
    folder = Path(table.uri)
    before, of_log, read = size(folder), size(folder / "_delta_log"), read_bytes()
    cpu_s, since_s = used_s(), time.monotonic()
    merge()
    seconds, used, read = time.monotonic() - since_s, used_s() - cpu_s, read_bytes() - read
    log = size(folder / "_delta_log") - of_log
    return Cost(seconds, used, size(folder) - before - log, log, read, peak_mb())


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def used_s() -> float:
    return sum(sum(each.cpu_times()[:2]) for each in processes())


def read_bytes() -> int:
    """All that was read by calls of read: the table's files, wherever the kernel has them, and what both processes say
    to each other."""
    return sum(each.io_counters().read_chars for each in processes())


def forget_peaks() -> None:
    """From here on ``VmHWM`` tells the most memory since now (proc(5), ``clear_refs``)."""
    for each in processes():
        Path(f"/proc/{each.pid}/clear_refs").write_text("5")


def peak_mb() -> int:
    """The sum of what each had at most."""
    lines = [line for each in processes() for line in Path(f"/proc/{each.pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def processes() -> list[psutil.Process]:
    me = psutil.Process(os.getpid())
    return [me, *me.children(recursive=True)]
