"""Columns of a lake table, as Delta's protocol and as Arrow describe them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import Schema

Json = Any


@dataclass(frozen=True, slots=True)
class LakeField:
    """A column of a lake table: Delta type in the protocol's JSON form, and the field's metadata."""

    name: str
    type: Json
    metadata: Mapping[str, Json]

    def json(self) -> Json:
        return {"name": self.name, "type": self.type, "nullable": True, "metadata": dict(self.metadata)}


def delta_schema(fields: Sequence[LakeField]) -> Schema:
    """The Delta schema of these columns."""
    return Schema.from_json(json.dumps({"type": "struct", "fields": [field.json() for field in fields]}))


def lake_fields(schema: Schema) -> list[LakeField]:
    """The columns of a Delta schema."""
    found = json.loads(schema.to_json())["fields"]
    return [LakeField(field["name"], field["type"], field["metadata"]) for field in found]


def arrow_schema(fields: Sequence[LakeField]) -> pa.Schema:
    """The Arrow schema of these columns, field metadata included."""
    return pa.schema(delta_schema(fields).to_arrow())


@dataclass(frozen=True)
class Rewrite:
    """How all rows of a table are rewritten: its columns, and the exceptional texts in our struct.

    Args:
        columns: each new column with the name of the old one that it comes from. None for an added column: all rows
            have its value in ``values``, or null.
        struct: our own column, which comes last.
        renames: old and new Postgres names of the columns that stay.
        into_text: names of decimals that become text, each with its Postgres name; their exceptional texts, such
            as NaN, become values.
        texts: exceptional texts that all rows get in ``struct``, by the column's Postgres name.
    """

    columns: Sequence[tuple[LakeField, str | None]]
    struct: LakeField
    values: Mapping[str, Any]
    renames: Mapping[str, str]
    into_text: Mapping[str, str]
    texts: Mapping[str, str]

    @property
    def fields(self) -> list[LakeField]:
        """The new columns, without our own."""
        return [field for field, _ in self.columns]

    @property
    def added(self) -> list[LakeField]:
        """The new columns that come from no old one."""
        return [field for field, origin in self.columns if origin is None]
