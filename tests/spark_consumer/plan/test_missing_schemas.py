"""Tables of whose schema there is no record are left, the others have their plan (I7)."""

from __future__ import annotations

from dataclasses import replace

from tests.spark_consumer.events import column, plan_of, relation, table_plan
from walbridge.schemas.control.cut import PartitionRange
from walbridge.schemas.control.table_progress import QUARANTINED
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.plan.missing_schemas import without_missing_schemas
from walbridge.spark_consumer.plan.pending_copy import CopyShape, PendingCopy

A, B = (
    relation([column("id", "int4", is_key=True)], name=name, relation_id=relation_id)
    for name, relation_id in (("a", 1), ("b", 2))
)
RANGES = {(each.topic, 0): PartitionRange(each.topic, 0, 5, 6, 1) for each in (A, B)}


def test_plan_of_known_schemas_is_as_it_was() -> None:
    plan = replace(plan_of(1, [table_plan(A, None)]), ranges=RANGES)

    assert without_missing_schemas(plan, {A.schema_id: A}, "p.metadata") == plan


def test_table_of_an_unknown_schema_is_left_and_nothing_of_it_is_read() -> None:
    plan = replace(plan_of(1, [table_plan(A, None), table_plan(B, None)]), ranges=RANGES)

    known = without_missing_schemas(plan, {A.schema_id: A}, "p.metadata")

    assert [table.topic for table in known.tables] == [A.topic]
    assert [*known.ranges] == [(A.topic, 0)]
    (trouble,) = known.troubles
    assert (trouble.relation_id, trouble.topic, trouble.state) == (B.table.relation_id, B.topic, QUARANTINED)
    assert trouble.why.startswith(f"p.metadata lacks the record of schema {B.schema_id} of topic {B.topic}: ")


def test_copy_that_begins_with_an_unknown_schema_is_none() -> None:
    copy = PendingCopy(B.topic, (CopyShape(*Position(Lsn(7), -1), B.schema_id),))
    plan = replace(plan_of(1, []), copies={B.table.relation_id: copy})

    known = without_missing_schemas(plan, {A.schema_id: A}, "p.metadata")

    assert (known.copies, [each.topic for each in known.troubles]) == ({}, [B.topic])
