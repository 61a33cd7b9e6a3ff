"""I1, I8: topics and a lake that earlier code made are continued without a copy.

``tests/data/format_1`` was recorded of the last code that knew one record of progress for all tables: what its producer
wrote to Kafka, with offsets; the lake as its job left it in the middle of that; and the source's rows at the end, as
``to_jsonb`` tells them. There are tables with and without a key, a partitioned root, an enum, a value that stays out of
line, a new column with a default, a TRUNCATE, and a table that left the publication.
"""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.in_soak import in_variants
from tests.topic_reader import Topics
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import metadata_topic, progress_topic, table_path
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.read import published

FOLDER = Path(__file__).parent.parent / "data" / "format_1"
NAME = "recorded"
WAIT_S = 60.0
Record = dict[str, Any]
Headers = list[tuple[str, str | bytes | None]]


@dataclass
class Recorded:
    """The job over the recorded topics."""

    spark: SparkSession
    kafka: KafkaBroker
    lake: Path

    def continue_lake(self) -> None:
        with tarfile.open(FOLDER / "lake.tar.gz") as archive:
            archive.extractall(self.lake.parent, filter="data")

    def materialize(self) -> None:
        """Run today's job over all that there is."""
        settings = Settings(
            name=NAME,
            postgres={"dsn": "postgresql://nobody@localhost/nothing", "slot": NAME},  # type: ignore[arg-type]
            kafka={"bootstrap_servers": self.kafka.bootstrap_servers},  # type: ignore[arg-type]
            lake={"path": str(self.lake)},  # type: ignore[arg-type]
        )
        job = Job(self.spark, settings, threading.Event())
        try:
            job.run(once=True)
        finally:
            job.close()

    def rows(self) -> dict[str, list[str]]:
        """Of each table in the lake, in the form of ``expected``."""
        tables = {name: DeltaTable(str(self.lake / table_path("public", name))).to_pyarrow_table() for name in wanted()}
        return {
            name: sorted(map(_as_text, table.drop_columns("_walbridge").to_pylist())) for name, table in tables.items()
        }

    def states(self) -> dict[str, str]:
        return {table.path: table.state for table in published(str(self.lake))[-1].tables}


def wanted() -> dict[str, list[Record]]:
    """The source's rows by table."""
    found: dict[str, list[Record]] = json.loads((FOLDER / "rows.json").read_text())
    return found


def expected() -> dict[str, list[str]]:
    return {name: sorted(map(_as_text, rows)) for name, rows in wanted().items()}


def _as_text(row: Record) -> str:
    return json.dumps({name: _plain(value) for name, value in row.items()}, sort_keys=True)


def _plain(value: Any) -> Any:
    """As JSON has it, whether Postgres or Delta told it."""
    match value:
        case "infinity":
            return None  # kept as text beside the column
        case Decimal():
            return float(value)
        case datetime():
            return value.isoformat()
        case bytes():
            return "\\x" + value.hex()
        case str() if value.startswith("{"):
            return json.loads(value)
    return value


@pytest.fixture
def recorded(kafka: KafkaBroker, spark: SparkSession, lake: Path) -> Iterator[Recorded]:
    """Topics with what was recorded, at the offsets that the recorded cuts name."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    topics = recorded_topics()
    for made in admin.create_topics([NewTopic(each, 1, 1) for each in topics]).values():
        made.result()
    write(kafka.bootstrap_servers, topics)
    yield Recorded(spark, kafka, lake)
    for deleted in admin.delete_topics([*topics]).values():
        deleted.result()


def recorded_topics() -> dict[str, list[Record]]:
    """Records by topic; each topic has one partition."""
    found: dict[str, list[Record]] = {}
    with gzip.open(FOLDER / "topics.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            if "topic" in line:
                records = found[line["topic"]] = []
            else:
                records.append(line)
    return found


def write(servers: str, topics: dict[str, list[Record]]) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": NAME})
    producer.init_transactions(WAIT_S)
    plain = Producer({"bootstrap.servers": servers})
    for topic, records in topics.items():
        if topic == metadata_topic(NAME):
            _write(plain, topic, records)
            continue
        for transaction in transactions(records):
            producer.begin_transaction()
            _write(producer, topic, transaction)
            producer.commit_transaction(WAIT_S)


def transactions(records: list[Record]) -> Iterator[list[Record]]:
    """A marker takes the offset after the records of each transaction."""
    begun = 0
    for end in range(1, len(records) + 1):
        if end == len(records) or records[end]["o"] > records[end - 1]["o"] + 1:
            yield records[begun:end]
            begun = end


def _write(producer: Producer, topic: str, records: list[Record]) -> None:
    offsets: list[int | None] = []
    for each in records:
        headers: Headers = [(name, _bytes(value)) for name, value in each["h"]]
        key, value = _bytes(each["k"]), _bytes(each["v"])
        producer.produce(
            topic, value, key, headers=headers, on_delivery=lambda _, message: offsets.append(message.offset())
        )
    assert producer.flush(WAIT_S) == 0
    assert offsets == [each["o"] for each in records]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.mark.parametrize("is_continued", [True, in_variants(False)], ids=["the lake goes on", "a new lake"])
def test_what_earlier_code_recorded_ends_as_the_source_had_it(recorded: Recorded, *, is_continued: bool) -> None:
    if is_continued:
        recorded.continue_lake()
    recorded.materialize()

    assert recorded.rows() == expected()
    states = recorded.states()
    assert {states.pop(table_path("public", name)) for name in expected()} == {CURRENT}
    assert {state.split()[0] for state in states.values()} == {"stale"}
    with Topics(recorded.kafka.bootstrap_servers, NAME) as topics:
        there = topics.reader(progress_topic(NAME)).read_to_end()
    assert len(there) == len(recorded_topics()[progress_topic(NAME)]), "a copy was asked for"
