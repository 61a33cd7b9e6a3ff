"""Removes rows that Spark has marked as deleted from their files, between plans.

In: a table with deletion vectors. Out: one commit without data change (``OPTIMIZE``, ``REORG``) that rewrites files of
which more than a quarter is marked; or none. The old files stay as long as kept versions need them.

A purge takes the files with the largest shares first, as many as can be written in a gap between plans; the time of
earlier purges tells how many. A purge that takes too long is cancelled, and commits nothing. After each purge there is
a pause, so that purges take only a small part of the time.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby
from math import inf
from threading import Event, Thread
from time import monotonic
from typing import Any

import structlog
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from walbridge.spark_consumer.delta.by_spark.commit import FILE_ROWS_MAX, path_for_spark
from walbridge.spark_consumer.delta.commit import RESTORE, Commit
from walbridge.spark_consumer.delta.dialect import SPARK
from walbridge.spark_consumer.delta.maintenance.log_files import LogFiles, adds_at
from walbridge.spark_consumer.delta.shared_files import lost_since
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import ConcurrentCommit, VersionGone

log = structlog.get_logger()

MARKED_SHARE = 0.25
"""A file is rewritten if a larger share of its rows is marked."""
PURGE_S = 10.0
"""A purge that takes longer is cancelled."""
TARGET_S = PURGE_S / 2
CANCEL_EVERY_S = 0.2
PAUSE = 20
"""The pause after a purge is so many times as long as the purge."""
FIRST_BYTES = 64 * 2**20
_TAG = "walbridge-purge"
_OPTIMIZE = "spark.databricks.delta.optimize"


@dataclass(frozen=True, slots=True)
class MarkedFile:
    """A data file, and the share of its rows that is marked as deleted, computed as Spark does."""

    size_bytes: int
    share: float

    @classmethod
    def of(cls, add: Mapping[str, Any]) -> "MarkedFile":
        """The file of an ``add`` action. Spark rewrites a marked file without a row count in any case: its share is
        1."""
        marked = (add.get("deletionVector") or {}).get("cardinality") or 0
        rows = json.loads(add.get("stats") or "{}").get("numRecords")
        return cls(add["size"], 0.0 if not marked else marked / rows if rows else 1.0)


@dataclass(frozen=True, slots=True)
class Portion:
    """The files that one purge rewrites: all with a share above ``above``."""

    above: float
    files: int
    size_bytes: int
    is_last: bool


def portion(files: Iterable[MarkedFile], bytes_max: int) -> Portion | None:
    """The files that one purge rewrites: at least those with the largest share, whatever their size; None if no file is
    due.

    Spark's OPTIMIZE does not rewrite a single file. So if one file is due, the one with the next share is taken with
    it, however small that share is.
    """
    marked = sorted((file for file in files if file.share > 0), key=lambda file: -file.share)
    taken = size_bytes = 0
    for share, alike in groupby(marked, key=lambda file: file.share):
        sizes = [file.size_bytes for file in alike]
        is_due = share > MARKED_SHARE
        if taken > 1 and (not is_due or size_bytes + sum(sizes) > bytes_max):
            return Portion(share, taken, size_bytes, is_last=not is_due)
        if not is_due and not taken:
            return None
        taken, size_bytes = taken + len(sizes), size_bytes + sum(sizes)
    return Portion(0.0, taken, size_bytes, is_last=True) if taken else None


class Outcome(Enum):
    """How a purge ended. After a failure, perhaps by another program's commit, the table waits for its next visit."""

    DONE = auto()
    LATE = auto()
    FAILED = auto()


class Purge:
    """Purges the tables of a job, in the thread between plans."""

    def __init__(self, spark: SparkSession, clock_s: Callable[[], float] = monotonic) -> None:
        self._spark, self._clock_s = spark, clock_s
        self._bytes_max = FIRST_BYTES
        self._not_before_s = clock_s()

    def is_due(self) -> bool:
        """Whether the pause after the last purge is over."""
        return self._clock_s() >= self._not_before_s

    def purge(self, table: DeltaTable, storage_options: dict[str, str]) -> bool:
        """Rewrite some files of a table; returns whether more may be due.

        Raises:
            FileNotFoundError: somebody else deleted from the table's log.
        """
        files = DeltaStorageHandler(table.table_uri, storage_options or None)
        columns = ("path", "size", "stats", "deletionVector.cardinality")
        adds = adds_at(files, LogFiles.of(table.table_uri, files), table.version(), columns).values()
        taken = portion(map(MarkedFile.of, adds), self._bytes_max)
        if taken is None:
            return False
        begun_s = self._clock_s()
        outcome = self._optimize(table.table_uri, taken)
        took_s = self._clock_s() - begun_s
        self._not_before_s = begun_s + took_s * (1 + PAUSE)
        if outcome is Outcome.DONE and lost_since(table.table_uri, table.version()):
            self._undo(table, storage_options)
            return False
        if outcome is Outcome.LATE:
            self._bytes_max = max(1, min(self._bytes_max, taken.size_bytes) // 2)
        if outcome is not Outcome.DONE:
            return outcome is Outcome.LATE
        if took_s > TARGET_S or taken.size_bytes > self._bytes_max // 2:
            self._bytes_max = max(1, int(taken.size_bytes * min(4.0, TARGET_S / max(took_s, 0.001))))
        log.info(
            "rows that were marked as deleted are taken out of their files",
            path=table.table_uri,
            bytes=taken.size_bytes,
            seconds=round(took_s, 1),
        )
        return not taken.is_last

    def _undo(self, table: DeltaTable, storage_options: dict[str, str]) -> None:
        """Undo a purge whose files executors wrote to their own disk; this job purges nothing any more."""
        self._not_before_s = inf
        log.warning(
            "marked rows are not taken out of their files: executors do not share the lake's folder",
            path=table.table_uri,
        )
        with suppress(ConcurrentCommit, VersionGone):  # the next plan does the same
            head = LakeTable.open(table.table_uri, storage_options)
            if head is not None:
                head.restore(table.version(), Commit(plan=None, step=RESTORE))

    def _optimize(self, uri: str, taken: Portion) -> Outcome:
        session = self._spark.newSession()
        session.conf.set("spark.sql.files.maxRecordsPerFile", str(FILE_ROWS_MAX))
        session.conf.set(f"{_OPTIMIZE}.minFileSize", "0")
        session.conf.set(f"{_OPTIMIZE}.maxFileSize", str(taken.size_bytes))
        session.conf.set(f"{_OPTIMIZE}.maxDeletedRowsRatio", repr(taken.above))
        name = f"delta.{SPARK.quoted(path_for_spark(uri))}"
        with self._in_time() as is_late:
            try:
                session.sql(f"OPTIMIZE {name}" if taken.files > 1 else f"REORG TABLE {name} APPLY (PURGE)").collect()
            except (PySparkException, Py4JJavaError) as error:
                why = f"it took more than {PURGE_S:g} s" if is_late() else type(error).__name__
                log.warning("marked rows are not taken out of their files yet", path=uri, why=why)
                return Outcome.LATE if is_late() else Outcome.FAILED
        return Outcome.DONE

    @contextmanager
    def _in_time(self) -> Iterator[Callable[[], bool]]:
        """A block whose Spark jobs are cancelled after ``PURGE_S``, also those that begin later."""
        context, done, late = self._spark.sparkContext, Event(), Event()

        def cancel() -> None:
            if done.wait(PURGE_S):
                return
            late.set()
            while not done.is_set():
                context.cancelJobsWithTag(_TAG)
                done.wait(CANCEL_EVERY_S)

        watcher = Thread(target=cancel, name="purge-in-time", daemon=True)
        context.addJobTag(_TAG)
        watcher.start()
        try:
            yield late.is_set
        finally:
            done.set()
            watcher.join()
            context.removeJobTag(_TAG)
