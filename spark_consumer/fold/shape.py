"""What a relation version looks like in the lake: its columns, its key, and the steps from another shape.

In: a RelationRecord, the columns that a lake table has. Out: the columns that it must have, and the steps that
change it so. Pure.

Every column's metadata in the lake holds the Postgres name, type, typmod and attnum. So the steps are computed from the
table's real columns, not from what they should be, and computing them again after a crash gives what is still missing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import TableError
from walbridge.schemas.pg_types import FIRST_USER_OID
from walbridge.schemas.table_schema import Column
from walbridge.schemas.topics import LAKE_STRUCT, lake_column_names
from walbridge.spark_consumer.delta.columns import LakeField
from walbridge.spark_consumer.fold.kept_values import refuse_changed_values

Json = Any


def _field(name: str, lake_type: Json) -> Json:
    return {"name": name, "type": lake_type, "nullable": True, "metadata": {}}


_TEXT_BY_COLUMN = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
STRUCT_FIELDS: Mapping[str, Json] = {
    "commit_lsn": "long",
    "ordinal": "long",
    "commit_time": "timestamp",
    "op": "string",
    "exceptional": _TEXT_BY_COLUMN,
    "key_text": "string",
}
STRUCT = LakeField(
    LAKE_STRUCT, {"type": "struct", "fields": [_field(name, of) for name, of in STRUCT_FIELDS.items()]}, {}
)
_NUMBER = "pg.attnum"


@dataclass(frozen=True)
class TableShape:
    """A relation version, columns by place."""

    relation: RelationRecord

    def __hash__(self) -> int:
        return hash((self.relation.table.relation_id, self.relation.schema_id))

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.relation.table.columns

    @cached_property
    def lake_names(self) -> list[str]:
        return lake_column_names([column.name for column in self.columns])

    @cached_property
    def key_places(self) -> list[int]:
        """Places of the key columns."""
        return [place for place, column in enumerate(self.columns) if column.is_key]

    @property
    def key_names(self) -> list[str]:
        return [self.columns[place].name for place in self.key_places]

    @property
    def is_keyless(self) -> bool:
        """No key, but old rows are complete: each change removes one of several equal rows."""
        return not self.key_places and self.relation.table.replica_identity == "f"

    @property
    def has_exceptional_key(self) -> bool:
        """Whether a key may need its Postgres text to tell it from another."""
        return any(self.columns[place].column_type.may_be_exceptional for place in self.key_places)

    @property
    def has_map_key(self) -> bool:
        return any(self.columns[place].column_type.codec == "map" for place in self.key_places)

    @cached_property
    def labels(self) -> set[str]:
        """Lake names of the columns whose type is user-defined and stored as its text, such as an enum, or an array."""
        return {name for name, column in zip(self.lake_names, self.columns, strict=True) if _is_printed(column)}

    @cached_property
    def toastable_places(self) -> list[int]:
        """Places of the columns that Postgres may leave out of an update. Under FULL it leaves none out."""
        if self.relation.table.replica_identity == "f":
            return []
        return [
            place
            for place, column in enumerate(self.columns)
            if column.column_type.may_be_toasted and not column.is_key
        ]

    @cached_property
    def toastable_exceptional_places(self) -> list[int]:
        """Places of those columns that may hold an exceptional text besides; these are arrays."""
        return [place for place in self.toastable_places if self.columns[place].column_type.may_be_exceptional]

    @cached_property
    def fields(self) -> list[LakeField]:
        """The columns of the lake's table; our struct is the last."""
        described = [
            LakeField(name, column.column_type.lake, _metadata(column))
            for name, column in zip(self.lake_names, self.columns, strict=True)
        ]
        return [*described, STRUCT]


def _is_printed(column: Column) -> bool:
    of = column.column_type.item or column.column_type
    return column.type_oid >= FIRST_USER_OID and column.base_type is None and of.codec == "string" and not of.is_text


def _metadata(column: Column) -> dict[str, Json]:
    metadata = {"pg.name": column.name, "pg.type": column.type_name, "pg.typmod": str(column.typmod)}
    if column.base_type is not None:
        metadata |= {"pg.base": column.base_type, "pg.base_typmod": str(column.base_typmod)}
    return metadata if column.attnum is None else metadata | {_NUMBER: str(column.attnum)}


@dataclass(frozen=True, slots=True)
class ShapeSteps:
    """From the columns a table has to those it must have.

    ``rewrite``: if the table must be rewritten, each column of the new shape but our struct, with the old column that
    it comes from; None for an added column, which has null or one value in all rows. If ``rewrite`` itself is None,
    ``add`` (new columns) and ``describe`` (columns whose metadata changes) suffice.
    """

    add: Sequence[LakeField] = ()
    describe: Sequence[LakeField] = ()
    rewrite: Sequence[tuple[LakeField, str | None]] | None = None

    @property
    def is_empty(self) -> bool:
        return not self.add and not self.describe and self.rewrite is None


def shape_steps(
    found: Sequence[LakeField],
    wanted: Sequence[LakeField],
    table_name: str,
    filled: Collection[str] = (),
    labels: Collection[str] = (),
) -> ShapeSteps:
    """How a table with the columns ``found`` gets the columns ``wanted``; old values stay.

    Args:
        filled: names of columns that have a value in older rows. Adding such a column is a rewrite, since
            the table must never have the column without its values.
        labels: ``TableShape.labels`` of the shape before.

    Raises:
        TableError: a column's type changed in a way that changes values (I7).
    """
    old = [field for field in found if field.name != LAKE_STRUCT]
    new = [field for field in wanted if field.name != LAKE_STRUCT]
    origins = {field.name: _origin(field, old) for field in new}
    for field in new:
        origin = origins[field.name]
        if origin is not None:
            refuse_changed_values(origin, field, table_name, is_label=origin.name in labels)
    kept = {origin.name for origin in origins.values() if origin is not None}
    _refuse_renamed(
        [field for field in new if not origins[field.name]], [f for f in old if f.name not in kept], table_name
    )
    in_place = all(_same_column(origins[field.name], field) for field in new if origins[field.name])
    occupied = {field.name.lower() for field in old}
    added = [field for field in new if origins[field.name] is None]
    is_filled = any(field.name in filled for field in added)
    if not in_place or is_filled or len(kept) != len(old) or any(field.name.lower() in occupied for field in added):
        return ShapeSteps(rewrite=[_rewritten(field, origins[field.name]) for field in new])
    described = [_described(field, origin.metadata) for field in new if (origin := origins[field.name])]
    changed = [field for field in described if _differ(origins[field.name].metadata, field.metadata)]  # type: ignore[union-attr]
    return ShapeSteps(add=added, describe=changed)


def _rewritten(field: LakeField, origin: LakeField | None) -> tuple[LakeField, str | None]:
    """The field and its old column's name. The old attnum is kept if none is known now: it tells later renames."""
    if origin is None:
        return field, None
    number = {name: value for name, value in origin.metadata.items() if name == _NUMBER}
    return replace(field, metadata=number | dict(field.metadata)), origin.name


def _refuse_renamed(came: Sequence[LakeField], left: Sequence[LakeField], table_name: str) -> None:
    """Refuse a new column that may be a renamed old one: without both attnums nobody can tell."""
    for new in came:
        for old in left:
            if _NUMBER not in new.metadata or _NUMBER not in old.metadata:
                raise TableError(
                    f"column {new.metadata['pg.name']} of table {table_name} may be what "
                    f"{old.metadata.get('pg.name', old.name)} was: the producer was told of both when the catalogue "
                    "knew one of them no more, and Postgres sends no rows for a RENAME"
                )


def _described(field: LakeField, found: Mapping[str, Json]) -> LakeField:
    """The field; metadata of a domain that it no longer has is "", since Delta can set metadata but not remove it."""
    return replace(field, metadata={name: "" for name in _OF_DOMAINS if found.get(name)} | dict(field.metadata))


def _origin(field: LakeField, old: Sequence[LakeField]) -> LakeField | None:
    """The old column that became this one, found by attnum where both are known, else by name."""
    attnum = field.metadata.get(_NUMBER)
    for candidate in old:
        known = candidate.metadata.get(_NUMBER)
        if attnum is not None and known is not None:
            if str(known) == str(attnum):
                return candidate
        elif candidate.metadata.get("pg.name", candidate.name) == field.metadata["pg.name"]:
            return candidate
    return None


def _same_column(origin: LakeField | None, field: LakeField) -> bool:
    return origin is not None and (origin.name, origin.type) == (field.name, field.type)


def _differ(found: Mapping[str, Json], wanted: Mapping[str, Json]) -> bool:
    return any(str(found.get(name)) != str(value) for name, value in wanted.items())


_OF_DOMAINS = ("pg.base", "pg.base_typmod")
