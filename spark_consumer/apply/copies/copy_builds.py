"""Copies that are written beside the plans, one at a time: each in a thread, whose Spark jobs share the cores fairly.

In: the plan of an ended copy, or of what came behind one that is written (``plan/ended_copies.py``). Out: the table's
head, or the error that ended it; whoever asks between two plans gets it. Nothing here writes to ``_cuts``: until a row
names the head nobody has seen it, so a thread that is cancelled, or dies with its process, leaves nothing that counts
(I8).

The thread ends by itself, since each wait of a plan's steps is bounded. When cancelled it ends after the piece, slice
or Spark job in work. It is a daemon thread, so that the process can exit without it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count

from pyspark.sql import SparkSession

from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.spark_consumer.jvm.spark_progress import SparkProgress
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.copied_records import copied_records
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.plan_reader import planned_records
from walbridge.spark_consumer.plan.ended_copies import is_aside
from walbridge.spark_consumer.plan.pending_copy import PendingCopy
from walbridge.spark_consumer.plan.plan import Plan, TableHead, TablePlan

POOL = "copies"
"""Of Spark's fair scheduler: where plans have tasks too, both get as many cores."""

Relations = Mapping[str, RelationRecord]
Apply = Callable[[TableRecords, Relations, TablePlan, Plan], TableHead]
"""One plan to one table."""
Enter = Callable[[TableHead, Plan], TableHead]
"""A copy that was written aside, into the folder of a plan's table."""

_numbers = count(1)


class BuildCancelled(Exception):
    """``CopyBuild.cancel`` was called."""


class CopyBuild:
    """One table's plan that a thread carries out. ``head`` or ``error`` is set once it ``has_ended``.

    Args:
        copy: the copy as it is where the plan ends.
        write: does the work, and calls its argument after each step.
    """

    def __init__(
        self, spark: SparkSession, plan: Plan, copy: PendingCopy, write: Callable[[Callable[[], None]], TableHead]
    ) -> None:
        self.plan, self.copy = plan, copy
        self._spark, self._write = spark, write
        self._group = f"walbridge copied table {next(_numbers)}"
        self._is_cancelled, self._over = threading.Event(), threading.Event()
        self.begun_s = self.moved_s = time.monotonic()
        self.head: TableHead | None = None
        self.error: BaseException | None = None

    @property
    def relation_id(self) -> int:
        """Of the table."""
        return self.plan.tables[0].relation_id

    @property
    def path(self) -> str:
        """Of the folder in which it is written."""
        return self.plan.tables[0].path

    @property
    def is_aside(self) -> bool:
        """Whether that is not the folder of its table, to which plans go on to write."""
        return is_aside(self.path)

    @property
    def is_cancelled(self) -> bool:
        """Whether its outcome is not wanted any more."""
        return self._is_cancelled.is_set()

    def start(self) -> None:
        """Begin, in a thread."""
        threading.Thread(target=self.run, name="copied table", daemon=True).start()

    def run(self) -> None:
        """Do all of the work, in the calling thread."""
        try:
            # Of this thread alone: each of Python's has one of its own in the JVM.
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
            self._spark.sparkContext.setJobGroup(self._group, "a copied table")
            self.head = self._write(self._step)
            kill_point("build:written")
        except BaseException as error:  # of whatever kind: the job's own thread raises it
            self.error = error
        finally:
            self._over.set()

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Whether there is an outcome; waits up to ``wait_s`` for one."""
        return self._over.wait(wait_s)

    def cancel(self) -> None:
        """Ask the thread to end, and cancel its Spark jobs. It may begin others: call this until it has ended."""
        self._is_cancelled.set()
        if not self.has_ended():
            with suppress(Exception):  # a JVM that has ended has no jobs
                self._spark.sparkContext.cancelJobGroup(self._group)

    def _step(self) -> None:
        self.moved_s = time.monotonic()
        if self.is_cancelled:
            raise BuildCancelled


class CopyBuilds:
    """Starts the copy builds of one job, one at a time.

    Args:
        kafka: the job's own access to Kafka; ``open_log`` opens one for a thread.
    """

    def __init__(
        self, spark: SparkSession, kafka: KafkaLog, open_log: Callable[[], KafkaLog], apply: Apply, enter: Enter
    ) -> None:
        self._spark, self._kafka, self._open_log = spark, kafka, open_log
        self._apply, self._progress = apply, SparkProgress(spark)
        self.enter = enter
        self.running: CopyBuild | None = None

    def begin(self, plan: Plan, copy: PendingCopy, relations: Relations) -> CopyBuild:
        """Start to write the copy, in a thread."""
        known = dict(relations)  # the job's own go on to grow

        def write(on_step: Callable[[], None]) -> TableHead:
            with self._copied(plan, on_step) as records:
                return self._apply(records, known, plan.tables[0], plan)

        self.running = CopyBuild(self._spark, plan, copy, write)
        self.running.start()
        return self.running

    def note_progress(self) -> None:
        """Take progress of any Spark job for progress of the running build, whose own Spark job may take long."""
        if self._progress.has_moved() and self.running is not None:
            self.running.moved_s = time.monotonic()

    def write_now(self, plan: Plan, relations: Relations) -> TableHead:
        """Carry out a table's plan in the calling thread."""
        (table,) = plan.tables
        with planned_records(self._kafka, plan) as records:
            return self._apply(records.of(table.topic), relations, table, plan)

    @contextmanager
    def _copied(self, plan: Plan, on_step: Callable[[], None]) -> Iterator[TableRecords]:
        log = self._open_log()
        try:
            with copied_records(log, plan, on_step) as records:
                yield records
        finally:
            log.close()
