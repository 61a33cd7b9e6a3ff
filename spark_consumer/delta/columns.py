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


@dataclass(frozen=True)
class Rewrite:
    """What becomes of a table's columns, and of the texts in our struct, where all its rows are written anew.

    Args:
        columns: each new one with the old one's name, None where rows have what ``values`` has for it, or null.
        struct: our own column, which comes last.
        renames: names of columns in Postgres, as they were and as they are, of those that stay.
        into_text: decimals of the table that are to be texts, each with its name in Postgres; their other texts, such
            as NaN, become values.
        texts: what all rows get among the texts of ``struct``, by the column's name in Postgres.
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
        """Those that come from no old one."""
        return [field for field, origin in self.columns if origin is None]
