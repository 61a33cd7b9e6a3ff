"""Events of a table, and what the driver makes of them."""

import datetime
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, column, relation
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.fold.fold import first_key_name
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import STRUCT, TableShape

UTC = datetime.UTC
VALUES: Mapping[tuple[str, int], list[Any]] = {
    ("bool", -1): [True, False, None],
    ("int2", -1): [-(2**15), 2**15 - 1, None],
    ("int8", -1): [-(2**63), 2**63 - 1, None],
    ("float4", -1): [0.5, -0.0, float("inf"), None],
    ("float8", -1): [1e-300, float("-inf"), -0.0, None],
    ("numeric", (38 << 16 | 10) + 4): [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10"), None],
    ("numeric", (10 << 16 | 2) + 4): [Decimal("1.50"), Decimal("-0.01"), "NaN", None],
    ("text", -1): ["", "ä€😀\\'\"\n", "x" * 3_000, None],
    ("bytea", -1): [b"", b"\x00\xff", None],
    ("date", -1): [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), "infinity", None],
    ("timestamp", -1): [datetime.datetime(1582, 10, 10, 23, 59, 59, 999999), "-infinity", None],
    ("timestamptz", -1): [datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(9999, 12, 31, tzinfo=UTC), None],
    ("_int4", -1): [[], [1, None], "{{1,2},{3,4}}", None],
    ("_text", -1): [[], ["", None, "ä"], None],
    ("_numeric", (10 << 16 | 2) + 4): [[Decimal("1.50"), None], "{NaN}", None],
    ("_timestamptz", -1): [[datetime.datetime(2024, 2, 29, tzinfo=UTC), None], None],
    ("_float8", -1): [[-0.0, None, float("inf")], None],
    ("point", -1): ["(1,2)", None],
    ("hstore", -1): [{}, {"a": None}, {"": "ä", "b": "x" * 300}, None],
    ("vector", -1): [[0.5, -0.0], [1e-30], None],
    ("price", -1): [Decimal("1.50"), "NaN", None],
    ("counts", -1): [[1, None], "{{1}}", None],
}
"""Values by type; a text of a type that is not textual is one its Avro type cannot hold."""
ITEMS = relation(
    [
        column("id", "int4", is_key=True),
        column("on", "date", is_key=True),
        *[column(f"c{at}", name, typmod=typmod) for at, (name, typmod) in enumerate(VALUES)],
    ]
)


def logged(events: list[Event], seed: int) -> Log:
    chooser = random.Random(seed)
    log = Log()
    for event in events:
        for _ in range(chooser.choice([1, 1, 1, 2])):
            log.add(event, partition=chooser.randrange(2))
    chooser.shuffle(log.rows)
    return log


def schema_of(shape: TableShape, *, folded: bool) -> pa.Schema:
    fields = [LakeField(place_name(place), each.column_type.lake, {}) for place, each in enumerate(shape.columns)]
    plain = arrow_schema([*fields, LakeField("change", STRUCT.type, {})])
    first_keys = [pa.field(first_key_name(place), plain.field(place).type) for place in shape.key_places]
    more = [pa.field("unknown", pa.list_(pa.int32())), pa.field("moved", pa.bool_()), *first_keys]
    more += [pa.field("first_key_text", pa.string()), pa.field("is_new", pa.bool_())]
    return pa.schema([*plain, *more]) if folded else plain
