"""The job over topics that a test writes itself, by the contract: no Postgres, no producer."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import ContractWriter
from tests.spark_consumer.accounts import ACCOUNT, HISTORY, Run
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.program import Program
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer import job
from walbridge.spark_consumer.apply import apply, frame_writer
from walbridge.spark_consumer.retry import keep_going


@pytest.fixture
def writer(kafka: KafkaBroker, pipeline_name: str) -> ContractWriter:
    return ContractWriter(kafka.bootstrap_servers, pipeline_name)


@pytest.fixture
def accounts(writer: ContractWriter) -> RelationRecord:
    return writer.relation("accounts", ACCOUNT, relation_id=1, partitions=2)


@pytest.fixture
def history(writer: ContractWriter) -> RelationRecord:
    return writer.relation("history", HISTORY, relation_id=2)


@pytest.fixture
def program(kafka: KafkaBroker, pipeline_name: str, lake: Path, tmp_path: Path) -> Program:
    """The job as a program of its own."""
    return Program(kafka, pipeline_name, lake, tmp_path)


@pytest.fixture
def run(spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path) -> Run:
    """Run a new job over everything there is; on a busy machine a broker may be late with an answer."""
    settings = Settings(
        name=pipeline_name,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake), "plan_rows_max": 100},  # type: ignore[arg-type]
    )

    def attempt() -> None:
        started = job.Job(spark, settings, threading.Event())
        try:
            started.run(once=True)
        finally:
            started.close()

    return lambda: keep_going(attempt, lambda: False, threading.Event(), start_timeout_s=60)


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Times a kill point may still be passed before the process ends; absent: for ever."""
    left: Counter[str] = Counter()

    def kill_point(name: str) -> None:
        if name in left:
            left[name] -= 1
            if left[name] <= 0:
                del left[name]
                raise Crash

    for module in (apply, frame_writer):
        monkeypatch.setattr(module, "kill_point", kill_point)
    return left
