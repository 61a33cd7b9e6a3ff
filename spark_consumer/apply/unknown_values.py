"""Completes folded rows with the lake's values of columns that no event of the segment holds (I6).

In: folded rows with the places of their unknown columns, and the table as it was before the segment.
Out: the same rows, complete. The values are in the lake's row with the first key of the row's chain of key changes
(``fold/key_changes.py``): nothing in the chain wrote that column, so the lake's value is the newest.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.apply.arrow_spool import Spool
from walbridge.spark_consumer.apply.merge import same_first_key
from walbridge.spark_consumer.delta.dialect import DELTA_RS
from walbridge.spark_consumer.delta.scratch_table import scratch_table
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.fold import first_key_name
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape


def complete_unknown(
    table: LakeTable | None, folded: Spool, shape: TableShape, *, may_miss: bool = False
) -> Iterator[pa.Table]:
    """The folded rows; unknown columns have the values of the lake's row with the chain's first key.

    Args:
        may_miss: rows for which the lake has none are skipped: a copy goes on, in which they come again.

    Raises:
        TableError: the lake has no such row (I7).
    """
    incomplete = pc.greater(pc.list_value_length(pc.field("unknown")), 0)
    for batch in folded.batches():
        yield pa.Table.from_batches([batch]).filter(~incomplete)
    wanted = (pa.Table.from_batches([batch]).filter(incomplete) for batch in folded.batches())
    if table is None:
        if not may_miss:
            refuse_missing(sum(rows.num_rows for rows in wanted), shape)
        return
    with scratch_table(folded.schema, wanted) as source:
        for batch in table.query(_completing_sql(shape), source):
            found = pa.Table.from_batches([batch])
            if may_miss:
                found = found.filter(pc.is_valid(found.column("base_lsn")))
            yield _completed(found, folded.schema, shape)


def refuse_missing(rows: int, shape: TableShape) -> None:
    """Refuse changed rows that have unknown columns and are not in the lake.

    Raises:
        TableError: there are such rows.
    """
    if rows:
        name = shape.relation.table.qualified_name
        raise TableError(f"{rows} updates of table {name} leave out columns of rows that the lake does not hold")


def _completing_sql(shape: TableShape) -> str:
    toastable = set(shape.toastable_places)
    values = []
    for place, name in enumerate(shape.lake_names):
        ours = f"source.{place_name(place)}"
        if place in toastable:
            unknown = f"array_has(source.unknown, CAST({place} AS INT))"
            ours = f"CASE WHEN {unknown} THEN target.{DELTA_RS.quoted(name)} ELSE {ours} END"
        values.append(f"{ours} AS {place_name(place)}")
    first_keys = [f"source.{first_key_name(place)} AS {first_key_name(place)}" for place in shape.key_places]
    struct = 'target."_walbridge"'
    rest = [
        "source.change AS change",
        "source.unknown AS unknown",
        "source.moved AS moved",
        *first_keys,
        "source.first_key_text AS first_key_text",
        "source.is_new AS is_new",
        f"{struct}['commit_lsn'] AS base_lsn",
        f"{struct}['exceptional'] AS base_exceptional",
    ]
    return f"SELECT {', '.join(values + rest)} FROM source LEFT JOIN target ON {same_first_key(shape)}"


def _completed(rows: pa.Table, schema: pa.Schema, shape: TableShape) -> pa.Table:
    refuse_missing(rows.column("base_lsn").null_count, shape)
    if rows.column("base_exceptional").null_count < rows.num_rows:
        at = rows.schema.get_field_index("change")
        rows = rows.set_column(at, "change", pa.array(_structs(rows, shape), schema.field("change").type))
    nothing = pa.array([[]] * rows.num_rows, schema.field("unknown").type)
    rows = rows.set_column(rows.schema.get_field_index("unknown"), "unknown", nothing)
    return rows.select(schema.names)


def _structs(rows: pa.Table, shape: TableShape) -> Iterator[dict[str, object]]:
    """Our struct with the base row's exceptional texts of the columns that were unknown."""
    columns = (rows.column(name).to_pylist() for name in ("change", "unknown", "base_exceptional"))
    for struct, unknown, base in zip(*columns, strict=True):
        names = {shape.columns[place].name for place in unknown}
        texts = dict(struct["exceptional"] or ()) | {
            name: text for name, text in dict(base or ()).items() if name in names
        }
        yield struct | {"exceptional": sorted(texts.items()) or None}
