"""Relation records, read as far as plans need them (I2)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from tests.spark_consumer.events import column, plan_of, relation, table_plan
from tests.spark_consumer.memory_topics import MemoryTopics
from walbridge.schemas.control.metadata_record import RelationRecord, encode_metadata
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.topics import metadata_topic
from walbridge.spark_consumer.kafka.control.metadata_topic import MetadataTopic
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.plan.plan import Plan, TablePlan

TOPIC = metadata_topic("p")
PLACE = TOPIC, 0
A, B = (relation([column("id", name, is_key=True)], name="t") for name in ("int4", "int8"))


@pytest.fixture
def topics() -> MemoryTopics:
    return MemoryTopics()


@pytest.fixture
def metadata(topics: MemoryTopics) -> MetadataTopic:
    return MetadataTopic(cast(KafkaLog, topics), "p")


def announce(topics: MemoryTopics, *relations: RelationRecord) -> int:
    """Where a reader stops that has read them."""
    for each in relations:
        topics.add(TOPIC, encode_metadata(each))
    return topics.records[PLACE][-1].offset + 1


def plan(metadata_end_offset: int, tables: Sequence[TablePlan] = ()) -> Plan:
    return replace(plan_of(1, tables), metadata_end_offset=metadata_end_offset)


def test_records_are_read_up_to_where_a_plan_needs_them_and_once(topics: MemoryTopics, metadata: MetadataTopic) -> None:
    first, second = announce(topics, A), announce(topics, B)

    assert set(metadata.relations(plan(first))) == {A.schema_id}
    assert set(metadata.relations(plan(first, [table_plan(A, None)]))) == {A.schema_id}
    assert metadata.relations(plan(second)) == {A.schema_id: A, B.schema_id: B}
    assert topics.reads == topics.visible == [{PLACE: (0, first)}, {PLACE: (first, second)}]


def test_record_at_the_very_end_of_what_was_read_is_not_missed(topics: MemoryTopics, metadata: MetadataTopic) -> None:
    """The cut names the offset after the last record it needs, which may be that of the next one."""
    announce(topics, A)
    metadata.relations(plan(2))
    end = announce(topics, B)

    assert set(metadata.relations(plan(end))) == {A.schema_id, B.schema_id}


def test_record_of_newer_code_stops_the_job(topics: MemoryTopics, metadata: MetadataTopic) -> None:
    """I7."""
    topics.add(TOPIC, b"\xc3\x01" + bytes(8))

    with pytest.raises(OperatorError, match="cannot read"):
        metadata.relations(plan(1))


@pytest.mark.parametrize("value", [b"not ours", b"", None])
def test_record_of_another_program_is_left_out(
    topics: MemoryTopics, metadata: MetadataTopic, value: bytes | None
) -> None:
    """What is missing is told by its schema id; a value that is missing was taken for a bug of ours."""
    topics.add(TOPIC, value)  # type: ignore[arg-type]

    assert set(metadata.relations(plan(announce(topics, A)))) == {A.schema_id}


def test_log_that_begins_later_is_read_from_there(topics: MemoryTopics, metadata: MetadataTopic) -> None:
    """What is missing then is told by its schema id."""
    end = announce(topics, A, B)
    topics.begins[PLACE] = 2

    assert set(metadata.relations(plan(end))) == {B.schema_id}
    assert topics.reads == [{PLACE: (2, end)}]
