"""The whole line in one test: a real producer, the job in the shared session, verify as the oracle.

``pipeline.check_equal()`` waits until Kafka holds everything committed now, runs the job over it,
and compares every table row by row; ``pipeline.contents`` reads a table of the lake.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import table_path
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.read import published
from walbridge.spark_consumer.retry import keep_going
from walbridge.verify import compare
from walbridge.verify.report import TableResult

CAUGHT_UP_S = 60.0
AT_REST_S = 300.0
"""Until nothing was written while the job ran; under load one run takes a minute."""


@dataclass
class PipelineUnderTest:
    """A producer with its lake."""

    producer: ProducerUnderTest
    spark: SparkSession
    lake: Path
    plan_rows_max: int = 250_000
    dropped_tables: str = "keep"
    applier: str = "auto"
    on_table_error: str = "copy"
    """The job's, in ``[lake]``."""

    @property
    def database(self) -> Any:
        return self.producer.database

    @property
    def settings(self) -> Settings:
        return Settings(
            name=self.producer.name,
            postgres={"dsn": self.database.dsn, "slot": self.producer.slot},  # type: ignore[arg-type]
            kafka={"bootstrap_servers": self.producer.kafka.bootstrap_servers},  # type: ignore[arg-type]
            producer=self.producer.settings.get("producer", {}),  # type: ignore[arg-type]
            lake={  # type: ignore[arg-type]
                "path": str(self.lake),
                "plan_rows_max": self.plan_rows_max,
                "dropped_tables": self.dropped_tables,
                "applier": self.applier,
                "on_table_error": self.on_table_error,
            },
        )

    def materialize(self) -> None:
        """Run the job over everything that is in Kafka now; on a busy machine a broker may be late with an answer."""
        keep_going(self._run_job, lambda: False, threading.Event(), start_timeout_s=CAUGHT_UP_S)

    def _run_job(self) -> None:
        job = Job(self.spark, self.settings, threading.Event())
        try:
            job.run(once=True)
        finally:
            job.close()

    def catch_up(self) -> None:
        """Everything committed so far is in Kafka, then in the lake."""
        with self.producer.topics() as topics:
            self.producer.caught_up(topics, CAUGHT_UP_S)
        self.materialize()

    def check_equal(self) -> None:
        """The newest published cut equals the source, table by table (I8); once it is copied, where a cut says that a
        table does not."""
        different = self._different()
        # By the very cut that was compared: a copy may have ended since then.
        if any(result.state != CURRENT for result in different) or (different and self.producer.awaits_copies()):
            wait_until(lambda: not self.producer.awaits_copies(), "all tables to be copied", CAUGHT_UP_S)
            different = self._different()
        assert not different

    def _different(self) -> list[TableResult]:
        return [result for result in self.compared() if not result.equal or result.in_flux]

    def compared(self) -> list[TableResult]:
        """What verify finds once everything committed so far is in the lake."""
        deadline_s = time.monotonic() + AT_REST_S
        while True:
            self.catch_up()
            try:
                return compare(self.settings, timeout_s=0)
            except OperatorError as error:
                # Postgres writes WAL also by itself, a few seconds after the last change: while the
                # job ran its source moved on, and nobody publishes the next cut but the next run.
                if "published no cut" not in error.what or time.monotonic() > deadline_s:
                    raise

    def published(self) -> list[CutRow]:
        return published(str(self.lake))

    def contents(self, name: str, namespace: str = "public") -> list[dict[str, Any]]:
        """Rows of a table at its newest version, in no order, without our struct."""
        table = DeltaTable(str(self.lake / table_path(namespace, name)))
        rows: list[dict[str, Any]] = table.to_pyarrow_table().drop_columns("_walbridge").to_pylist()
        return rows


@pytest.fixture
def pipeline(producer: ProducerUnderTest, spark: SparkSession, lake: Path) -> PipelineUnderTest:
    """A pipeline of this test's database; the producer is not started yet."""
    return PipelineUnderTest(producer, spark, lake)
