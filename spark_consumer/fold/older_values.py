"""The value that older rows have in a column that was added with a default: Postgres keeps it once, in its catalogue.

In: a shape, whose relation version holds such values as Postgres' text. Out: each value in the form in which a change
of the row would bring it, so that a later old row of a table without a key equals the lake's row (I8).
"""

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro

from walbridge.schemas.avro.value_encoders import encoder_of
from walbridge.schemas.table_schema import Column
from walbridge.spark_consumer.fold.local_events import arrow_value, times_as_numbers
from walbridge.spark_consumer.fold.shape import TableShape


@dataclass(frozen=True, slots=True)
class OlderValue:
    """``value`` as Arrow takes it; null with its ``text`` where the column's Avro type cannot hold it."""

    value: Any
    text: str | None = None


def older_values(shape: TableShape) -> dict[str, OlderValue]:
    """The values that are not null, by the column's name in the lake."""
    named = zip(shape.lake_names, shape.columns, strict=True)
    return {
        name: _older_value(column, column.missing_value) for name, column in named if column.missing_value is not None
    }


def _older_value(column: Column, text: str) -> OlderValue:
    encoded = encoder_of(column.column_type)(text.encode())
    if encoded is None:
        return OlderValue(None, text)
    union = fastavro.parse_schema(["null", times_as_numbers(column.column_type.avro)])
    value = fastavro.schemaless_reader(BytesIO(encoded), union, None)
    return OlderValue(arrow_value(value, column.column_type))
