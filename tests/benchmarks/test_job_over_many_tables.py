"""A cut that changes two rows in each of 600 tables, and one that does so in 5 of them; ``make bench``.

The tables are small, so that what is measured is done once for each table, not for each row. The first is read by one
consumer and by Spark, in turns over one lake; seconds are those of a job from its start to its published row, in a JVM
that is warm. The second takes turns with one of a pipeline that has 5 tables; seconds are those of the plan alone, in
a job that goes on: a start reads the relations of all tables, which later plans know.
"""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.benchmarks.results import record
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.kafka import plan_reader
from walbridge.spark_consumer.read import published_at

pytestmark = [pytest.mark.bench, pytest.mark.servers]

TABLES, FEW, TURNS = 600, 5, 5
COLUMNS = [ColumnSpec("id", "int8", is_key=True), ColumnSpec("customer", "int4"), ColumnSpec("note")]


def row(key: int) -> dict[str, Any]:
    return {"id": key, "customer": key % 1_000, "note": f"a note about order {key}"}


def changes(tables: list[RelationRecord], lsn: int) -> list[Event]:
    """An insert and an update in each."""
    inserts = [Event(table, "c", lsn, 2 * at, after=row(lsn)) for at, table in enumerate(tables)]
    return inserts + [Event(table, "u", lsn, 2 * at + 1, after=row(1)) for at, table in enumerate(tables)]


def applied_s(spark: SparkSession, settings: Settings) -> float:
    """A job over everything there is."""
    begun_s = time.monotonic()
    job = Job(spark, settings, threading.Event())
    try:
        job.run(once=True)
    finally:
        job.close()
    return time.monotonic() - begun_s


def plan_s(job: Job) -> float:
    """The newest plan of a job that goes on, over everything there is."""
    with capture_logs() as said:
        job.run(once=True)
    laps = [entry for entry in said if entry["event"] == "published" and entry["rows"]][-1]
    return sum(float(value) for name, value in laps.items() if name.endswith("_ms")) / 1000


def settings_of(kafka: KafkaBroker, name: str, lake: Path) -> Settings:
    return Settings(
        name=name,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake)},  # type: ignore[arg-type]
    )


def copied_tables(writer: ContractWriter, count: int) -> list[RelationRecord]:
    tables = [writer.relation(f"t{number}", COLUMNS, relation_id=number) for number in range(1, count + 1)]
    writer.copy([(table, [row(1), row(2)]) for table in tables])
    return tables


def test_a_cut_over_many_tables(
    spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(kafka, pipeline_name, lake)
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    tables = copied_tables(writer, TABLES)
    first_s = applied_s(spark, settings)

    found: dict[str, list[float]] = {"one consumer": [], "spark": []}
    lsn = 0x5000
    for _ in range(TURNS):
        for reader, seconds in found.items():
            with monkeypatch.context() as patch:
                if reader == "spark":
                    patch.setattr(plan_reader, "one_consumer_rows", lambda _partitions: 0)
                lsn += 1
                writer.send(changes(tables, lsn), end_lsn=lsn)
                seconds.append(applied_s(spark, settings))

    assert published_at(str(lake)).end_lsn == lsn
    values = {"first": round(first_s, 1)} | {name: round(statistics.median(of), 1) for name, of in found.items()}
    print(f"\njob over {TABLES} tables, seconds: {values}; {record('job_over_many_tables', values)}")


def test_a_cut_of_few_tables_costs_the_same_beside_many_others(
    spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path
) -> None:
    found: dict[str, list[float]] = {}
    with ExitStack() as open_jobs:
        pipelines = []
        for count in (FEW, TABLES):
            name = f"{pipeline_name}_{count}"
            writer = ContractWriter(kafka.bootstrap_servers, name)
            tables = copied_tables(writer, count)
            job = open_jobs.enter_context(closing(Job(spark, settings_of(kafka, name, lake / name), threading.Event())))
            plan_s(job)
            pipelines.append((f"{FEW} of {count}", writer, tables, job))
        for lsn in range(0x5001, 0x5001 + TURNS):
            for name, writer, tables, job in pipelines:
                writer.send(changes(tables[:FEW], lsn), end_lsn=lsn)
                found.setdefault(name, []).append(plan_s(job))
    values = {name: round(statistics.median(of), 2) for name, of in found.items()}
    print(f"\na plan of {FEW} tables, seconds: {values}; {record('job_over_many_tables', values)}")
