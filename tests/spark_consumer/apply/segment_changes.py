"""A lake's table, and a segment's changes to it as the fold would give them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from tests.spark_consumer.events import column, relation
from tests.spark_consumer.world import Row, plain, texts
from walbridge.spark_consumer.apply.changes import SegmentChanges
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import STRUCT, TableShape
from walbridge.spark_consumer.plan.plan import Segment

LSN = 0x1100
COMMIT = Commit("p")
ITEMS = relation([column("id", "int4", is_key=True), column("body"), column("tags", "_int4"), column("n", "int4")])


def segment(*, empties: bool = False, copies: bool = False) -> Segment:
    return Segment(0, "", None, None, empties, copies)


@dataclass(frozen=True)
class Rows:
    """What ``SegmentRows`` says, without records: slices of rows, ready made."""

    by_key: Sequence[pa.Table] = ()
    by_chain: Sequence[pa.Table] = ()
    net: Sequence[pa.Table] = field(default=())
    has_no_large_values: ClassVar[bool] = False

    def folded_by_key(self, _schema: pa.Schema) -> Iterator[pa.Table]:
        return iter(self.by_key)

    def folded_by_chain(self, _schema: pa.Schema) -> Iterator[pa.Table]:
        return iter(self.by_chain)

    def row_deltas(self, _schema: pa.Schema) -> Iterator[pa.Table]:
        return iter(self.net)


def changes(table: LakeTable, rows: Rows, shape: TableShape, part: Segment) -> SegmentChanges:
    return SegmentChanges(table, rows, shape, part, COMMIT)  # type: ignore[arg-type]


def row_schema(shape: TableShape) -> pa.Schema:
    fields = [LakeField(place_name(place), of.column_type.lake, {}) for place, of in enumerate(shape.columns)]
    return arrow_schema([*fields, LakeField("change", STRUCT.type, {})])


def table_of(lake: Path, shape: TableShape, rows: Sequence[Row]) -> LakeTable:
    table = LakeTable.create(f"{lake}/t", shape.fields, COMMIT, {})
    found = [
        dict(zip(shape.lake_names, plain(row).values(), strict=True))
        | {"_walbridge": {"commit_lsn": n, "ordinal": 0, "op": "c", "exceptional": texts(row)}}
        for n, row in enumerate(rows)
    ]
    table.append(pa.Table.from_pylist(found, arrow_schema(shape.fields)).to_reader(), COMMIT)
    return table
