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
from tests.in_soak import in_variants
from tests.spark_consumer.accounts import newest, rows
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.apply.copies import copy_builds
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.copied_records import copied_records
from walbridge.spark_consumer.plan import ended_copies

WAIT_S = 60.0
WRITTEN_S = 240.0
"""Spark writes a copy piece by piece, with plans between them: half a minute, and several on a machine that is busy."""


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


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Copies of ten records are large. Set once the records of one are read, in several pieces; to be set before any of
    them is written."""
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
    return reading, goes_on


@pytest.fixture
def items(writer: ContractWriter) -> RelationRecord:
    columns = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("body")]
    return writer.relation("items", columns, relation_id=3, partitions=2)


def copy(writer: ContractWriter, items: RelationRecord, lsn: int, suffix: str = "") -> None:
    """Of 30 rows, beside the stream."""
    marker, begin = copy_begin(items, lsn)
    writer.send([marker], barriers=[begin], end_lsn=lsn)
    rows = ({"id": n, "body": f"b{n}{suffix}"} for n in range(30))
    writer.send(copied(items, lsn + 0x100, *rows), end_lsn=lsn + 0x100)
    marker, end = copy_end(items, lsn + 0x200)
    writer.send([marker], barriers=[end], end_lsn=lsn + 0x200)


def settings_of(writer: ContractWriter, kafka: KafkaBroker, lake: Path, **options: Any) -> Settings:
    of_lake = {"path": str(lake), "publish_interval_ms": 0} | options
    return Settings(name=writer.pipeline, kafka={"bootstrap_servers": kafka.bootstrap_servers}, lake=of_lake)  # type: ignore[arg-type]


def changes(history: RelationRecord, items: RelationRecord) -> list[Event]:
    """One transaction over both tables."""
    return [
        Event(history, "c", 0x8000, 0, after={"id": 1, "delta": 1}),
        Event(items, "u", 0x8000, 1, after={"id": 3}, unchanged=["body"]),
        Event(items, "d", 0x8000, 2, before={"id": 4}, before_image="key"),
    ]


@pytest.mark.variant(of="test_a_table_is_fed_and_published_with_all_others_while_a_copy_of_it_is_written")
def test_other_tables_are_published_while_a_copy_is_written(
    spark: SparkSession,
    kafka: KafkaBroker,
    writer: ContractWriter,
    history: RelationRecord,
    items: RelationRecord,
    lake: Path,
    held_up: tuple[threading.Event, threading.Event],
) -> None:
    """With what came of the table meanwhile."""
    reading, goes_on = held_up
    writer.copy([(history, [])])
    copy(writer, items, 0x2000)
    stop = threading.Event()
    with following(Job(spark, settings_of(writer, kafka, lake), stop), stop):
        assert reading.wait(WAIT_S)
        writer.send(changes(history, items))
        wait_until(lambda: newest(lake).end_lsn >= writer.end_lsn, "the others to be published")
        assert {entry.name: entry.state for entry in newest(lake).tables} == {"history": "current", "items": "copying"}
        assert rows(lake, "history") == [(1, 1)]

        goes_on.set()
        wait_until(
            lambda: {entry.state for entry in newest(lake).tables} == {"current"}, "the copy to be written", WRITTEN_S
        )
    assert rows(lake, "items") == [(n, f"b{n}") for n in range(30) if n != 4]


@pytest.mark.parametrize("applier", ["local", in_variants("spark")])
def test_a_table_is_fed_and_published_with_all_others_while_a_copy_of_it_is_written(
    spark: SparkSession,
    kafka: KafkaBroker,
    writer: ContractWriter,
    history: RelationRecord,
    items: RelationRecord,
    lake: Path,
    held_up: tuple[threading.Event, threading.Event],
    monkeypatch: pytest.MonkeyPatch,
    applier: str,
) -> None:
    """In the lake its rows are others than in the copy, so that each cut tells which of the two it has. By executors,
    rows of the old ones are marked as deleted."""
    reading, goes_on = held_up
    monkeypatch.setattr(Appliers, "writes_by_executors", lambda of, _volume: of.setting == "spark")
    writer.copy([(history, []), (items, [{"id": n, "body": f"b{n}"} for n in range(30)])])
    stop = threading.Event()
    with following(Job(spark, settings_of(writer, kafka, lake, applier=applier), stop), stop):
        copy(writer, items, 0x2000, " again")
        assert reading.wait(WAIT_S)
        writer.send(changes(history, items))
        wait_until(lambda: newest(lake).end_lsn >= writer.end_lsn, "both tables to be published")
        assert rows(lake, "history") == [(1, 1)]
        assert rows(lake, "items") == [(n, f"b{n}") for n in range(30) if n != 4]

        goes_on.set()
        wait_until(
            lambda: all(entry.copy_from is None for entry in newest(lake).tables), "the copy to be written", WRITTEN_S
        )
        writer.send([Event(items, "d", 0x9000, 0, before={"id": 5}, before_image="key")])
        wait_until(lambda: newest(lake).end_lsn >= writer.end_lsn, "the change to be published")
    assert rows(lake, "items") == [(n, f"b{n} again") for n in range(30) if n not in (4, 5)]
    assert {entry.path for entry in newest(lake).tables} == {"public/history", "public/items"}
    assert not list((lake / ended_copies.ASIDE).glob("*"))
