"""A table of 300,000 rows that is current is copied again; how long others wait for their published cuts meanwhile.

``make bench``. The table gets a change with each cut, and so does a small one. What is told is the longest time between
two published rows of ``_cuts``, from the copy's beginning until the table holds its rows, and the time that this takes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.benchmarks.results import record
from tests.contract_events import copied, copy_begin, copy_end
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.read import published, tables_at
from walbridge.spark_consumer.retry import keep_going

pytestmark = [pytest.mark.bench, pytest.mark.servers]

ROWS, CHUNK_ROWS = 300_000, 10_000
COLUMNS = [ColumnSpec("id", "int8", is_key=True), ColumnSpec("customer", "int4"), ColumnSpec("note")]
CHANGE_EVERY_S = 0.5
WAIT_S = 900.0


def test_others_are_published_while_a_fed_table_is_copied(
    spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path
) -> None:
    settings = Settings(
        name=pipeline_name,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake)},  # type: ignore[arg-type]
    )
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    large = writer.relation("large", COLUMNS, relation_id=1)
    small = writer.relation("small", COLUMNS, relation_id=2)
    writer.copy([(large, [row(key) for key in range(CHUNK_ROWS)]), (small, [])])
    stop, lsn = threading.Event(), 0x10000

    def change() -> None:
        nonlocal lsn
        lsn += 16
        update = Event(large, "u", lsn, 0, after=row(lsn % CHUNK_ROWS))
        writer.send([update, Event(small, "c", lsn, 1, after=row(lsn))], end_lsn=lsn + 8)

    with following(spark, settings, stop):
        until_published(lake, writer.end_lsn)
        change()
        until_published(lake, writer.end_lsn)
        marker, begin = copy_begin(large, lsn + 8)
        begun_lsn = writer.send([marker], barriers=[begin], end_lsn=lsn + 8).end_lsn
        for first in range(0, ROWS, CHUNK_ROWS):
            change()
            rows = [row(key) for key in range(first, first + CHUNK_ROWS)]
            writer.send(copied(large, lsn + 8, *rows), end_lsn=lsn + 8)
        marker, end = copy_end(large, lsn + 8)
        ended_lsn = writer.send([marker], barriers=[end], end_lsn=lsn + 8).end_lsn
        waited = threading.Event()
        while not is_whole(lake, ended_lsn):
            change()
            waited.wait(CHANGE_EVERY_S)
    assert tables_at(spark, str(lake))["public.large"].count() == ROWS
    times = [each.written_at for each in published(str(lake)) if each.end_lsn >= begun_lsn]
    pauses = sorted((after - before).total_seconds() for before, after in pairwise(times))
    values = {"longest_pause_s": round(pauses[-1], 1), "next_s": [round(each, 1) for each in pauses[-5:-1]]}
    values["whole_s"] = round((times[-1] - times[0]).total_seconds())
    print(f"\na fed table of {ROWS} rows is copied: {values}; {record('copy_of_fed_table', values)}")


@contextmanager
def following(spark: SparkSession, settings: Settings, stop: threading.Event) -> Iterator[None]:
    """A job follows the cuts beside the block; on a busy machine a broker may be late with an answer."""

    def attempt() -> None:
        job = Job(spark, settings, stop)
        try:
            job.run(once=False)
        finally:
            job.close()

    follow = partial(keep_going, attempt, lambda: True, stop, start_timeout_s=WAIT_S)
    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(WAIT_S)


def row(key: int) -> dict[str, object]:
    return {"id": key, "customer": key % 1_000, "note": f"a note about order {key}"}


def is_whole(lake: Path, ended_lsn: int) -> bool:
    newest = published(str(lake))[-1]
    return newest.end_lsn >= ended_lsn and all(entry.copy_from is None for entry in newest.tables)


def until_published(lake: Path, lsn: int) -> None:
    wait_until(
        lambda: (lake / "_cuts").exists() and any(row.end_lsn >= lsn for row in published(str(lake))), "the cut", WAIT_S
    )
