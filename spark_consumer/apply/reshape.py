"""Gives a table the shape of a segment: ADD COLUMN in place, anything else by a rewrite.

In: a table at its head, the shape that the next segment needs. Out: the table in that shape. Old values stay; a new
column is null in old rows, or has the value that older rows have in the source. A column and its values are one
commit, so that repeating it changes nothing (I5). Exceptional texts in our struct are stored by the column's name: they
are renamed and removed with their column, and become values of it where the column is text from now on.

All rows that are in the table get the value of an added column, and that is right: ADD COLUMN locks the table, so what
was written before it was committed before it, and what is written after it comes behind the ``shape`` barrier (I8).
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from walbridge.schemas.errors import TableError
from walbridge.schemas.topics import LAKE_STRUCT
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.delta.by_spark.rewrite import prints_as_postgres, rewrite_by_spark, takes_types
from walbridge.spark_consumer.delta.columns import LakeField, Rewrite, arrow_schema
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.dialect import DELTA_RS
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.kept_values import becomes_text, changes_zone
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
    labels = before.labels if before is not None else ()
    steps = shape_steps(table.fields, shape.fields, shape.relation.table.qualified_name, older, labels)
    if steps.rewrite is not None:
        _rewrite(table, steps.rewrite, older, commit, appliers or Appliers(), shape.relation.table.qualified_name)
    if steps.add:
        table.add_columns(steps.add, commit)
    for field in steps.describe:
        table.describe_column(field, commit)
    # Last, because texts stand under the columns' new names only now.
    if before is not None and _key_columns(before) != _key_columns(shape):
        _refuse_stale_key_text(table, before, shape)


def _key_columns(shape: TableShape) -> list[tuple[str, bool]]:
    """The name of each key column, and whether it may have exceptional texts."""
    columns = [shape.columns[place] for place in shape.key_places]
    return [(each.name, each.column_type.may_be_exceptional) for each in columns]


def _rewrite(
    table: LakeTable,
    columns: Sequence[tuple[LakeField, str | None]],
    older: Mapping[str, OlderValue],
    commit: Commit,
    appliers: Appliers,
    table_name: str,
) -> None:
    found = {field.name: field for field in table.fields}
    names = {name: str(field.metadata.get("pg.name", name)) for name, field in found.items()}
    stay = [(field, found[origin]) for field, origin in columns if origin is not None]
    into_text = {origin.name: names[origin.name] for field, origin in stay if becomes_text(origin, field)}
    zoned = [names[origin.name] for field, origin in stay if changes_zone(origin, field)]
    _refuse_zoned_texts(table, zoned, table_name)
    renames = {
        names[origin.name]: str(field.metadata["pg.name"]) for field, origin in stay if origin.name not in into_text
    }
    new = {field.name: str(field.metadata["pg.name"]) for field, origin in columns if origin is None}
    values = {name: older[name].value for name in new if name in older}
    texts = {new[name]: text for name in values if (text := older[name].text) is not None}
    spark = appliers.session_for_rewrite(table)
    rewrite = Rewrite(columns, STRUCT, values, renames, into_text, texts)
    is_spark_able = takes_types(table, rewrite.fields) and prints_as_postgres(table, into_text)
    if spark is not None and is_spark_able:
        rewrite_by_spark(spark, table, rewrite, commit)
        return
    schema = arrow_schema([*rewrite.fields, STRUCT])
    # Aliases, because a name may be another column's in the other shape.
    selected = [f"{_selected(origin.name, into_text)} AS o{place}" for place, (_, origin) in enumerate(stay)]
    rows = table.query(f"SELECT {', '.join([*selected, f'{DELTA_RS.quoted(LAKE_STRUCT)} AS own'])} FROM target")
    batches = _rewritten(rows, rewrite, schema)
    table.overwrite(pa.RecordBatchReader.from_batches(schema, batches), commit)


def _selected(name: str, into_text: Mapping[str, str]) -> str:
    """SQL of an old column; a decimal that becomes text is printed as Postgres does, with all digits of its scale."""
    column = DELTA_RS.quoted(name)
    if name not in into_text:
        return column
    return f"coalesce(CAST({column} AS VARCHAR), {_text_of(into_text[name])})"


def _text_of(name: str) -> str:
    """SQL of a column's exceptional text, by the column's name in Postgres."""
    return f"map_extract({DELTA_RS.quoted(LAKE_STRUCT)}['exceptional'], {DELTA_RS.literal(name)})[1]"


def _rewritten(rows: pa.RecordBatchReader, rewrite: Rewrite, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    values = rewrite.values
    new = {field.name: pa.scalar(values.get(field.name), schema.field(field.name).type) for field in rewrite.added}
    for batch in rows:
        old = iter(batch.columns)
        arrays = [
            pa.repeat(new[field.name], batch.num_rows) if origin is None else next(old).cast(schema.field(place).type)
            for place, (field, origin) in enumerate(rewrite.columns)
        ]
        struct = _with_texts(next(old).cast(schema.field(-1).type), rewrite.renames, rewrite.texts)
        yield pa.RecordBatch.from_arrays([*arrays, struct], schema=schema)


def _with_texts(struct: pa.StructArray, renames: Mapping[str, str], came: Mapping[str, str]) -> pa.StructArray:
    """Our struct, with texts under the columns' new names: those of dropped columns removed, those in ``came``
    added."""
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
    """Refuse a new key where a row has an exceptional text in a key column: its ``key_text`` is that of the old key."""
    if not before.has_exceptional_key and not shape.has_exceptional_key:
        return
    affected = [f"{DELTA_RS.quoted(LAKE_STRUCT)}['key_text'] IS NOT NULL"]
    affected += [f"{_text_of(name)} IS NOT NULL" for name in shape.key_names]
    name = shape.relation.table.qualified_name
    _refuse_rows(table, affected, f"the key of table {name} changed while keys hold values such as infinity")


def _refuse_zoned_texts(table: LakeTable, columns: Sequence[str], table_name: str) -> None:
    """Refuse texts of years that no timestamp holds: they are printed with a time zone, or without one now."""
    affected = [f"coalesce({_text_of(name)}, 'infinity') NOT IN ('infinity', '-infinity')" for name in columns]
    what = f"columns {', '.join(columns)} of table {table_name} got or lost their time zone, and hold years beyond 9999"
    _refuse_rows(table, affected, what)


def _refuse_rows(table: LakeTable, affected: Sequence[str], what: str) -> None:
    if not affected:
        return
    found = table.query(f"SELECT count(*) AS n FROM target WHERE {' OR '.join(affected)}").read_all()
    if found.column(0)[0].as_py():
        raise TableError(what)
