"""Give a table the shape of a segment: ADD COLUMN in place, anything else by a rewrite.

In: a table at its head, the shape that the next segment needs. Out: the table in that shape, old
values kept, new columns in old rows null, or what the source has there. Column and values are one
commit, so that repeating it changes nothing (I5). Values that stand as texts in our struct are under
their column's name, so they follow its rename and go with it.

A value that older rows have is right for every row that is there: who adds a column keeps all others
from the table, so what was written before it was committed before it, and what is written after it
comes behind the barrier that begins the shape (I8).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from walbridge.schemas.errors import TableError
from walbridge.schemas.topics import LAKE_STRUCT
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.dialect import DELTA_RS
from walbridge.spark_consumer.delta.spark_rewrite import rewrite_by_spark, takes_types
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.older_values import OlderValue, older_values
from walbridge.spark_consumer.fold.shape import STRUCT, TableShape, shape_steps


def reshape(
    table: LakeTable, shape: TableShape, before: TableShape | None, commit: Commit, appliers: Appliers | None = None
) -> None:
    """Make the table's columns those of ``shape``.

    Args:
        before: the relation version that the table's rows follow, None if it is not known.
        commit: what the steps' commits say of themselves.
        appliers: delta-rs alone, unless others are given.

    Raises:
        TableError: the change altered values, or keys, that Postgres did not send.
    """
    older = older_values(shape)
    steps = shape_steps(table.fields, shape.fields, shape.relation.table.qualified_name, older)
    if steps.rewrite is not None:
        _rewrite(table, steps.rewrite, older, commit, appliers or Appliers())
    if steps.add:
        table.add_columns(steps.add, commit)
    for field in steps.describe:
        table.describe_column(field, commit)
    # Last, because texts stand under the columns' new names only now.
    if before is not None and before.key_names != shape.key_names:
        _refuse_stale_key_text(table, before, shape)


def _rewrite(
    table: LakeTable,
    columns: Sequence[tuple[LakeField, str | None]],
    older: Mapping[str, OlderValue],
    commit: Commit,
    appliers: Appliers,
) -> None:
    names = {field.name: str(field.metadata.get("pg.name", field.name)) for field in table.fields}
    renames = {names[origin]: str(field.metadata["pg.name"]) for field, origin in columns if origin is not None}
    new = {field.name: str(field.metadata["pg.name"]) for field, origin in columns if origin is None}
    values = {name: older[name].value for name in new if name in older}
    texts = {new[name]: text for name in values if (text := older[name].text) is not None}
    spark = appliers.rewrites(table)
    if spark is not None and takes_types(table, [field for field, _ in columns]):
        rewrite_by_spark(spark, table, columns, STRUCT, values, renames, texts, commit)
        return
    schema = arrow_schema([*[field for field, _ in columns], STRUCT])
    origins = [origin for _, origin in columns if origin is not None]
    # Aliases, because a name may be another column's in the other shape.
    selected = [f"{DELTA_RS.quoted(name)} AS o{place}" for place, name in enumerate(origins)]
    rows = table.query(f"SELECT {', '.join([*selected, f'{DELTA_RS.quoted(LAKE_STRUCT)} AS w'])} FROM target")
    batches = _rewritten(rows, columns, schema, values, renames, texts)
    table.overwrite(pa.RecordBatchReader.from_batches(schema, batches), commit)


def _rewritten(
    rows: pa.RecordBatchReader,
    columns: Sequence[tuple[LakeField, str | None]],
    schema: pa.Schema,
    values: Mapping[str, Any],
    renames: Mapping[str, str],
    texts: Mapping[str, str],
) -> Iterator[pa.RecordBatch]:
    new = {
        field.name: pa.scalar(values.get(field.name), schema.field(field.name).type)
        for field, origin in columns
        if origin is None
    }
    for batch in rows:
        old = iter(batch.columns)
        arrays = [
            pa.repeat(new[field.name], batch.num_rows) if origin is None else next(old).cast(schema.field(place).type)
            for place, (field, origin) in enumerate(columns)
        ]
        struct = _with_texts(next(old).cast(schema.field(-1).type), renames, texts)
        yield pa.RecordBatch.from_arrays([*arrays, struct], schema=schema)


def _with_texts(struct: pa.StructArray, renames: Mapping[str, str], came: Mapping[str, str]) -> pa.StructArray:
    """Our struct: texts under the columns' new names, without those of columns that are gone, with those that came."""
    fields = list(struct.type)
    values = {field.name: pc.struct_field(struct, field.name) for field in fields}
    texts = values["exceptional"]
    if texts.null_count == len(texts) and not came:
        return struct
    kept = [
        sorted([*came.items(), *((renames[name], text) for name, text in of or () if name in renames)])
        for of in texts.to_pylist()
    ]
    values["exceptional"] = pa.array([of or None for of in kept], texts.type)
    return pa.StructArray.from_arrays(list(values.values()), fields=fields)


def _refuse_stale_key_text(table: LakeTable, before: TableShape, shape: TableShape) -> None:
    """Refuse a new key where a row has a text for a key column: old rows keep the key text of the old key."""
    if not before.has_exceptional_key and not shape.has_exceptional_key:
        return
    text = f"{DELTA_RS.quoted(LAKE_STRUCT)}['exceptional']"
    names = [name.replace("'", "''") for name in shape.key_names]
    affected = [f"{DELTA_RS.quoted(LAKE_STRUCT)}['key_text'] IS NOT NULL"]
    affected += [f"map_extract({text}, '{name}')[1] IS NOT NULL" for name in names]
    found = table.query(f"SELECT count(*) AS n FROM target WHERE {' OR '.join(affected)}").read_all()
    if found.column(0)[0].as_py():
        name = shape.relation.table.qualified_name
        raise TableError(f"the key of table {name} changed while keys hold values such as infinity")
