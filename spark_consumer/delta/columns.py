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


def arrow_schema(fields: Sequence[LakeField]) -> pa.Schema:
    """The Arrow schema of these columns, field metadata included."""
    return pa.schema(delta_schema(fields).to_arrow())
