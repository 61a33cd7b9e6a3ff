"""Cuts, schemas and rows that do not fit: the job stops before it touches a table, or leaves the one concerned."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.contract_events import copied, copy_begin, copy_end
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.spark_consumer.accounts import ACCOUNT, Run, newest, rows
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.topics import cuts_topic
from walbridge.spark_consumer.read import tables_at


@pytest.mark.soak
def test_changes_of_a_table_that_the_new_epoch_did_not_copy_leave_that_table(
    writer: ContractWriter, accounts: RelationRecord, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I7."""
    writer.copy([(accounts, []), (history, [])])
    writer.new_epoch(0x8000)
    writer.copy([(accounts, [])])
    writer.send([Event(history, "c", 0x9000, 0, after={"id": 1, "delta": 1})])

    run()

    found = {entry.name: (entry.state, entry.why) for entry in newest(lake).tables}
    assert found["accounts"] == ("current", None)
    assert (found["history"][0], "holds no copy" in (found["history"][1] or "")) == ("stale", True)


@pytest.mark.soak
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

    assert rows(lake, "history") == [(1, 1), (2, 2)]


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


def test_table_of_whose_schema_there_is_no_record_is_left_and_the_others_go_on(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I7: the decoder of an event is never guessed. A table whose next version is unknown keeps its rows."""
    known = writer.relation("t", ACCOUNT, relation_id=9)
    writer.copy([(known, [{"id": 1}]), (history, [])])
    run()
    certain = newest(lake).end_lsn
    next_one = writer.relation("t", [*ACCOUNT, ColumnSpec("more", "text")], relation_id=9, announce=False)
    new = writer.relation("u", [ColumnSpec("id", "int4")], relation_id=10, announce=False)
    shape = Barrier("shape", Position(Lsn(0x2000), 0), next_one.schema_id)
    marker, begin = copy_begin(new, 0x1800)
    writer.send([marker], barriers=[begin])
    writer.send(
        [
            Event(next_one, "c", 0x2000, 0, after={"id": 2, "more": "text"}),
            Event(history, "c", 0x2000, 1, after={"id": 1, "delta": 1}),
        ],
        barriers=[(next_one, shape)],
    )
    run()

    found = {entry.relation_id: (entry.state, entry.since) for entry in newest(lake).tables}
    assert (found[9], found[10]) == (("quarantined", certain), ("quarantined", certain))
    assert tables_at(spark, str(lake), tables=["public.history"])["public.history"].count() == 1
    (entry,) = (entry for entry in newest(lake).tables if entry.relation_id == 9)
    assert f"lacks the record of schema {next_one.schema_id}" in (entry.why or "")
    assert "start walbridge produce again" in (entry.why or "")


@pytest.mark.soak
def test_a_table_without_a_key_that_loses_a_row_it_does_not_hold_is_stale_until_it_is_copied(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I8: the other table of the transaction has its change, and readers of all are refused."""
    bag = writer.relation("bag", [ColumnSpec("n", "int4")], relation_id=4, replica_identity="f")
    writer.copy([(history, []), (bag, [{"n": 1}, {"n": 2}])])
    run()
    certain = newest(lake).end_lsn
    writer.send(
        [
            Event(bag, "d", 0x2000, 0, before={"n": 9}, before_image="full"),
            Event(history, "c", 0x2000, 1, after={"id": 1, "delta": 1}),
        ]
    )
    run()
    (entry,) = (entry for entry in newest(lake).tables if entry.name == "bag")
    assert (entry.state, entry.since) == ("stale", certain)
    assert "loses 1 different rows that the lake does not hold often enough" in (entry.why or "")
    with pytest.raises(OperatorError, match=r"public\.bag is stale since .* often enough"):
        tables_at(spark, str(lake))
    assert tables_at(spark, str(lake), tables=["public.history"])["public.history"].count() == 1

    marker, begin = copy_begin(bag, 0x3000)
    writer.send([marker, *copied(bag, 0x3000, {"n": 1}, {"n": 3})], barriers=[begin], end_lsn=0x3000)
    marker, end = copy_end(bag, 0x3000)
    writer.send([marker], barriers=[end])
    run()
    assert rows(lake, "bag") == [(1,), (3,)]
