"""What rows have in a column that came after them: Postgres keeps the value once, in its catalogue.

In: a shape, whose relation version tells such values as Postgres' text. Out: each as a change of a row would
bring it, so that a later old row of a table without a key equals what the lake holds (I8).
"""

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro

from walbridge.schemas.avro.value_encoders import encoder_of
from walbridge.schemas.table_schema import Column
from walbridge.spark_consumer.fold.local_events import as_arrow_takes, without_times
from walbridge.spark_consumer.fold.shape import TableShape


@dataclass(frozen=True, slots=True)
class OlderValue:
    """``value`` as Arrow takes it; null with its ``text`` where the column's Avro type cannot hold it."""

    value: Any
    text: str | None = None


def older_values(shape: TableShape) -> dict[str, OlderValue]:
    """By the lake's name of the column, where it is not null."""
    named = zip(shape.lake_names, shape.columns, strict=True)
    return {
        name: _older_value(column, column.missing_value) for name, column in named if column.missing_value is not None
    }


def _older_value(column: Column, text: str) -> OlderValue:
    encoded = encoder_of(column.column_type)(text.encode())
    if encoded is None:
        return OlderValue(None, text)
    union = fastavro.parse_schema(["null", without_times(column.column_type.avro)])
    value = fastavro.schemaless_reader(BytesIO(encoded), union, None)
    return OlderValue(as_arrow_takes(value, column.column_type))
