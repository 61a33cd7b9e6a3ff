"""A copy is written beside the plans, with Kafka, Spark and Delta: the others are published while it waits (I8).

``in_memory/test_copies_written_beside.py`` has many more of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.contract_events import copied, copy_begin, copy_end
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.spark_consumer.accounts import newest, rows
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply import copy_builds
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.copied_records import copied_records
from walbridge.spark_consumer.plan import ended_copies

WAIT_S = 60.0


@contextmanager
def following(job: Job, stop: threading.Event) -> Iterator[None]:
    """The job follows the cuts beside the block."""
    failures: list[BaseException] = []

    def follow() -> None:
        try:
            job.run(once=False)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(WAIT_S)
        job.close()
    assert not thread.is_alive()
    assert not failures


def test_other_tables_are_published_while_a_copy_is_written(
    spark: SparkSession,
    kafka: KafkaBroker,
    writer: ContractWriter,
    history: RelationRecord,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In several pieces, and with what came of the table meanwhile."""
    items = writer.relation(
        "items", [ColumnSpec("id", "int4", is_key=True), ColumnSpec("body")], relation_id=3, partitions=2
    )
    reading, goes_on = threading.Event(), threading.Event()
    read: Any = copied_records

    @contextmanager
    def held_up(*of: Any) -> Iterator[TableRecords]:
        with read(*of, piece_rows=12) as records:
            reading.set()
            assert goes_on.wait(WAIT_S)
            yield records

    monkeypatch.setattr(copy_builds, "copied_records", held_up)
    monkeypatch.setattr(ended_copies, "DEFERRED_RECORDS_MIN", 10)
    writer.copy([(history, [])])
    marker, begin = copy_begin(items, 0x2000)
    writer.send([marker], barriers=[begin], end_lsn=0x2000)
    writer.send(copied(items, 0x2100, *({"id": n, "body": f"b{n}"} for n in range(30))), end_lsn=0x2100)
    marker, end = copy_end(items, 0x2200)
    writer.send([marker], barriers=[end], end_lsn=0x2200)
    settings = Settings(
        name=writer.pipeline,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake), "publish_interval_ms": 0},  # type: ignore[arg-type]
    )
    stop = threading.Event()
    with following(Job(spark, settings, stop), stop):
        assert reading.wait(WAIT_S)
        writer.send(
            [
                Event(history, "c", 0x3000, 0, after={"id": 1, "delta": 1}),
                Event(items, "u", 0x3000, 1, after={"id": 3}, unchanged=["body"]),
                Event(items, "d", 0x3000, 2, before={"id": 4}, before_image="key"),
            ]
        )
        wait_until(lambda: newest(lake).end_lsn >= writer.end_lsn, "the others to be published")
        assert {entry.name: entry.state for entry in newest(lake).tables} == {"history": "current", "items": "copying"}
        assert rows(spark, lake, "history") == [(1, 1)]

        goes_on.set()
        wait_until(lambda: {entry.state for entry in newest(lake).tables} == {"current"}, "the copy to be written")
    assert rows(spark, lake, "items") == [(n, f"b{n}") for n in range(30) if n != 4]
