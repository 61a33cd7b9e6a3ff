"""Cuts, schemas and rows that do not fit: the job stops before it touches a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.contract_writer import ContractWriter, Event
from tests.spark_consumer.accounts import ACCOUNT, Run, newest, rows
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.metadata_record import RelationRecord
from walbridge.schemas.topics import cuts_topic


def test_changes_of_a_table_that_the_new_epoch_did_not_copy_stop_the_job(
    writer: ContractWriter, accounts: RelationRecord, history: RelationRecord, run: Run
) -> None:
    """I7."""
    writer.copy([(accounts, []), (history, [])])
    writer.new_epoch(0x8000)
    writer.copy([(accounts, [])])
    writer.send([Event(history, "c", 0x9000, 0, after={"id": 1, "delta": 1})])

    with pytest.raises(OperatorError, match="holds no copy"):
        run()


def test_a_cut_that_counts_wrongly_stops_the_job_before_it_is_applied(
    writer: ContractWriter, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I7."""
    writer.copy([(history, [])])
    run()
    before = newest(lake)
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 1, "delta": 1})], alter={"tables": ()})

    with pytest.raises(OperatorError, match="do not fit together"):
        run()
    assert newest(lake) == before


def expire_cuts(kafka: KafkaBroker, pipeline: str) -> None:
    place = TopicPartition(cuts_topic(pipeline), 0, OFFSET_END)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_records([place])[place].result(30)


def test_cuts_that_expired_after_they_were_applied_are_not_missed(
    spark: SparkSession,
    kafka: KafkaBroker,
    writer: ContractWriter,
    history: RelationRecord,
    run: Run,
    lake: Path,
    pipeline_name: str,
) -> None:
    """The log then begins after the marker of the last cut, not at it."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    expire_cuts(kafka, pipeline_name)
    run()
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 2, "delta": 2})])
    run()

    assert rows(spark, lake, "history") == [(1, 1), (2, 2)]


def test_cuts_that_expired_before_they_were_applied_stop_the_job(
    kafka: KafkaBroker, writer: ContractWriter, history: RelationRecord, run: Run, pipeline_name: str
) -> None:
    """I7."""
    writer.copy([(history, [])])
    run()
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 1, "delta": 1})])
    expire_cuts(kafka, pipeline_name)
    writer.send([Event(history, "c", 0x3000, 0, after={"id": 2, "delta": 2})])

    with pytest.raises(OperatorError, match="cut 3 follows cut 1"):
        run()


def test_a_schema_without_its_record_stops_the_job(writer: ContractWriter, run: Run) -> None:
    """I7: the decoder of an event is never guessed."""
    unknown = writer.relation("t", ACCOUNT, relation_id=9, announce=False)
    writer.copy([(unknown, [{"id": 1}])])

    with pytest.raises(OperatorError, match="lacks the record of schema"):
        run()
