"""A cut that changes two rows in each of 600 tables: read by one consumer, and by Spark; ``make bench``.

The tables are small, so that what is measured is done once for each table, not for each row. Both ways take turns over
one lake; seconds are those of a job from its start to its published row, in a JVM that is warm.
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.benchmarks.results import record
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.kafka import plan_reader
from walbridge.spark_consumer.read import published_at

pytestmark = [pytest.mark.bench, pytest.mark.servers]

TABLES, TURNS = 600, 3
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


def test_a_cut_over_many_tables(
    spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        name=pipeline_name,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake)},  # type: ignore[arg-type]
    )
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    tables = [writer.relation(f"t{number}", COLUMNS, relation_id=number) for number in range(1, TABLES + 1)]
    writer.copy([(table, [row(1), row(2)]) for table in tables])
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
