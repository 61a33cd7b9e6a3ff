"""Takes tables out of a plan whose schemas the metadata topic lacks.

In: a plan, and all relation records of the metadata topic up to the plan's end. Out: the plan without
these tables, each with its trouble: a schema is never guessed (I7). Pure.
"""

from collections.abc import Iterator
from dataclasses import replace

from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.plan.next_entries import Relations
from walbridge.spark_consumer.plan.plan import Plan
from walbridge.spark_consumer.plan.table_trouble import TableTrouble


def without_missing_schemas(plan: Plan, relations: Relations, metadata: str) -> Plan:
    """The plan of the tables whose schemas are known.

    Args:
        metadata: the topic's name.
    """
    missing = {relation_id: (topic, an_id) for relation_id, topic, an_id in _needed(plan) if an_id not in relations}
    if not missing:
        return plan
    troubles = [
        TableTrouble(relation_id, topic, an_id, _lacking(metadata, topic, an_id))
        for relation_id, (topic, an_id) in missing.items()
    ]
    topics = {topic for topic, _ in missing.values()}
    return replace(
        plan,
        tables=tuple(table for table in plan.tables if table.relation_id not in missing),
        copies={relation_id: copy for relation_id, copy in plan.copies.items() if relation_id not in missing},
        ranges={partition_id: part for partition_id, part in plan.ranges.items() if part.topic not in topics},
        troubles=(*plan.troubles, *troubles),
    )


def _needed(plan: Plan) -> Iterator[tuple[int, str, str]]:
    for table in plan.tables:
        for segment in table.segments:
            yield table.relation_id, table.topic, segment.schema_id
    for relation_id, copy in plan.copies.items():
        yield relation_id, copy.topic, copy.schema_id


def _lacking(metadata: str, topic: str, schema_id: str) -> TableError:
    return TableError(
        f"{metadata} lacks the record of schema {schema_id} of topic {topic}: it was removed from outside (that topic "
        "must be compacted, never deleted from)",
        first="start walbridge produce again, which writes the record again",
    )
