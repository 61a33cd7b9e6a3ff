"""The Spark job behind a network that breaks: noticed, waited out, and each event applied once (I5, I8)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.faults.proxy import BREAKING, HINDERING, TcpProxy
from tests.in_soak import in_soak
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.read import published
from walbridge.spark_consumer.retry import keep_going

pytestmark = pytest.mark.fault

PATIENCE_S = 120.0
FAULTS = (*HINDERING, *BREAKING)
IN_EACH_RUN = ("half-open", "reset")
"""What is silent, and what ends a connection; the producer meets all that there is in each run."""


@contextmanager
def _following(spark: SparkSession, settings: Settings) -> Iterator[list[RetryableError]]:
    """The job in a thread, as its program runs it; what it found away so far."""
    stop, away, failures = threading.Event(), list[RetryableError](), list[BaseException]()

    def attempt() -> None:
        job = Job(spark, settings, stop)
        try:
            job.run(once=False)
        finally:
            job.close()

    def follow() -> None:
        try:
            keep_going(attempt, lambda: True, stop, away.append, start_timeout_s=PATIENCE_S)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield away
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert failures == []


@pytest.mark.parametrize("faults", [IN_EACH_RUN, in_soak(FAULTS)], ids=["one of each kind", "all"])
def test_every_network_fault_between_spark_and_kafka_is_survived(
    spark: SparkSession,
    kafka: KafkaBroker,
    kafka_proxy: TcpProxy,
    pipeline_name: str,
    lake: Path,
    faults: tuple[str, ...],
) -> None:
    settings = Settings(
        name=pipeline_name,
        kafka={
            "bootstrap_servers": f"127.0.0.1:{kafka_proxy.port}",
            "spark": {"request.timeout.ms": 2_000, "default.api.timeout.ms": 2_000},
        },  # type: ignore[arg-type]
        lake={"path": str(lake)},  # type: ignore[arg-type]
    )
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    bag = writer.relation("bag", [ColumnSpec("n", "int4")], relation_id=1)
    ends = [writer.copy([(bag, [])]).end_lsn]

    def insert() -> None:
        n = len(ends)
        ends.append(writer.send([Event(bag, "c", 0x2000 + 16 * n, 0, after={"n": n})]).end_lsn)

    def caught_up() -> bool:
        rows = published(str(lake))
        return bool(rows) and rows[-1].end_lsn >= ends[-1]

    for name in faults:
        with _following(spark, settings) as away:
            wait_until(caught_up, f"{name}: everything before it", PATIENCE_S)
            (HINDERING | BREAKING)[name](kafka_proxy)
            insert()
            if name in BREAKING:
                wait_until(lambda: bool(away), f"{name}: the job to notice", PATIENCE_S)
                insert()
                kafka_proxy.heal()
            wait_until(caught_up, f"{name}: what came meanwhile", PATIENCE_S)
            kafka_proxy.heal()

    (entry,) = published(str(lake))[-1].tables
    found = DeltaTable(f"{lake}/{entry.path}", version=entry.version).to_pyarrow_table()["n"].to_pylist()
    assert sorted(found) == list(range(1, len(ends)))
