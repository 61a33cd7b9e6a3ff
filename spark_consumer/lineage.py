"""Key changes that left columns out: which row had the values (I6).

In: a segment's events of a keyed table. Out: rows as ``fold.fold_by_key`` gives them, one a key.

A key's events split into lifetimes: a ``c`` begins one. A key change ends a lifetime of the old
key (its ``d``) and begins one of the new key (its ``c``, the next ordinal of the same commit), so
the two are one row's life under two keys. Linked over any number of changes, also k1→k2→k3 and
swaps, lifetimes form chains without branches; a row's last known values are those of its chain.
What a whole chain does not know stands in the lake, in the row of the chain's first key before
this segment: nothing in the chain wrote that column.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from schemas.errors import COPY_AGAIN, OperatorError
from spark_consumer.fold import fold_by_key, root_name
from spark_consumer.merge import same_root
from spark_consumer.schema_join import place_name
from spark_consumer.shape import TableShape
from spark_consumer.spool import Spool
from spark_consumer.table import LakeTable, quoted, scratch_table

Lifetime = tuple[bytes, int]


def fold_by_chain(events: DataFrame, shape: TableShape) -> DataFrame:
    """One row a key: the end of its row's chain, or its delete.

    Raises:
        OperatorError: a key change whose other half is not in the segment.
    """
    in_order = Window.partitionBy("key").orderBy("commit_lsn", "ordinal")
    lives = events.withColumn("life", F.sum(F.when(F.col("op") == "c", 1).otherwise(0)).over(in_order))
    roots = chain_roots(_links(lives, shape))
    chained = lives.join(F.broadcast(_as_frame(lives, roots)), ["key", "life"], "left").withColumn(
        "chain", F.struct(F.coalesce("root_key", "key"), F.coalesce("root_life", "life"))
    )
    alive = fold_by_key(chained, shape, group="chain").where("w.op <> 'd'")
    gone = fold_by_key(events, shape).where("w.op = 'd'")
    return alive.unionByName(gone)


def _links(lives: DataFrame, shape: TableShape) -> dict[Lifetime, Lifetime]:
    """Lifetime that a key change began → lifetime that it ended."""
    begun = lives.where((F.col("op") == "c") & (F.size("unchanged") > 0)).select(
        "key", "life", "commit_lsn", (F.col("ordinal") - 1).alias("ordinal")
    )
    ended = lives.where("op = 'd'").select(
        F.col("key").alias("old_key"), F.col("life").alias("old_life"), "commit_lsn", "ordinal"
    )
    linked = begun.join(ended, ["commit_lsn", "ordinal"], "left")
    links: dict[Lifetime, Lifetime] = {}
    for row in linked.select("key", "life", "old_key", "old_life").toArrow().to_pylist():
        if row["old_key"] is None:
            raise OperatorError(
                f"topic {shape.relation.topic} holds a key change without the delete of the old key",
                remedy=COPY_AGAIN,
            )
        links[row["key"], row["life"]] = row["old_key"], row["old_life"]
    return links


def chain_roots(links: Mapping[Lifetime, Lifetime]) -> dict[Lifetime, Lifetime]:
    """Each linked lifetime's first one. A change ends before it begins, so no chain is a circle."""
    roots: dict[Lifetime, Lifetime] = {}
    for lifetime in links:
        path = []
        while lifetime in links and lifetime not in roots:
            path.append(lifetime)
            lifetime = links[lifetime]
        root = roots.get(lifetime, lifetime)
        roots.update(dict.fromkeys(path, root))
    return roots


def _as_frame(like: DataFrame, roots: Mapping[Lifetime, Lifetime]) -> DataFrame:
    rows = pa.table(
        {
            "key": pa.array([key for key, _ in roots], pa.binary()),
            "life": pa.array([life for _, life in roots], pa.int64()),
            "root_key": pa.array([key for key, _ in roots.values()], pa.binary()),
            "root_life": pa.array([life for _, life in roots.values()], pa.int64()),
        }
    )
    return like.sparkSession.createDataFrame(rows)


def complete_unknown(table: LakeTable | None, folded: Spool, shape: TableShape) -> Iterator[pa.Table]:
    """The folded rows, columns that are still unknown taken from the lake's row of the root key.

    Raises:
        OperatorError: the lake has no such row (I7).
    """
    incomplete = pc.greater(pc.list_value_length(pc.field("unknown")), 0)
    for batch in folded.batches():
        yield pa.Table.from_batches([batch]).filter(~incomplete)
    wanted = (pa.Table.from_batches([batch]).filter(incomplete) for batch in folded.batches())
    if table is None:
        refuse_missing(sum(rows.num_rows for rows in wanted), shape)
        return
    with scratch_table(folded.schema, wanted) as source:
        for batch in table.query(_completing_sql(shape), source):
            yield _completed(pa.Table.from_batches([batch]), folded.schema, shape)


def refuse_missing(rows: int, shape: TableShape) -> None:
    """Stop where changed rows are not in the lake and their values not in the topic.

    Raises:
        OperatorError: there are such rows.
    """
    if rows:
        name = shape.relation.table.qualified_name
        raise OperatorError(
            f"{rows} updates of table {name} leave out columns of rows that the lake does not hold",
            remedy=COPY_AGAIN,
        )


def _completing_sql(shape: TableShape) -> str:
    toastable = set(shape.toastable_places)
    values = []
    for place, name in enumerate(shape.lake_names):
        ours = f"source.{place_name(place)}"
        if place in toastable:
            unknown = f"array_has(source.unknown, CAST({place} AS INT))"
            ours = f"CASE WHEN {unknown} THEN target.{quoted(name)} ELSE {ours} END"
        values.append(f"{ours} AS {place_name(place)}")
    roots = [f"source.{root_name(place)} AS {root_name(place)}" for place in shape.key_places]
    struct = 'target."_walbridge"'
    rest = [
        "source.w AS w",
        "source.unknown AS unknown",
        "source.moved AS moved",
        *roots,
        "source.root_key_text AS root_key_text",
        f"{struct}['commit_lsn'] AS base_lsn",
        f"{struct}['exceptional'] AS base_exceptional",
    ]
    return f"SELECT {', '.join(values + rest)} FROM source LEFT JOIN target ON {same_root(shape)}"


def _completed(rows: pa.Table, schema: pa.Schema, shape: TableShape) -> pa.Table:
    refuse_missing(rows.column("base_lsn").null_count, shape)
    if rows.column("base_exceptional").null_count < rows.num_rows:
        at = rows.schema.get_field_index("w")
        rows = rows.set_column(at, "w", pa.array(_structs(rows, shape), schema.field("w").type))
    nothing = pa.array([[]] * rows.num_rows, schema.field("unknown").type)
    rows = rows.set_column(rows.schema.get_field_index("unknown"), "unknown", nothing)
    return rows.select(schema.names)


def _structs(rows: pa.Table, shape: TableShape) -> Iterator[dict[str, object]]:
    """Our struct with the base row's exceptional texts of the columns that were unknown."""
    columns = (rows.column(name).to_pylist() for name in ("w", "unknown", "base_exceptional"))
    for struct, unknown, base in zip(*columns, strict=True):
        names = {shape.columns[place].name for place in unknown}
        texts = dict(struct["exceptional"] or ()) | {
            name: text for name, text in dict(base or ()).items() if name in names
        }
        yield struct | {"exceptional": sorted(texts.items()) or None}
