"""Key changes that left columns out: which row had the values (I6).

In: a segment's events of a keyed table. Out: rows as ``fold.fold_by_key`` gives them, one a key.

A key's events split into lifetimes: a ``c`` begins one, and so does a copied event behind a ``d``. A key change
ends a lifetime of the old key (its ``d``) and begins one of the new key (its ``c``, the next ordinal of the same
commit), so the two are one row's life under two keys. Linked over any number of changes, also k1→k2→k3 and
swaps, lifetimes form chains without branches; a row's last known values are those of its chain.
What a whole chain does not know stands in the lake, in the row of the chain's first key before
this segment: nothing in the chain wrote that column.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from walbridge.schemas.errors import TableError
from walbridge.schemas.position import COPIED_ORDINAL
from walbridge.spark_consumer.fold.fold import fold_by_key
from walbridge.spark_consumer.fold.shape import TableShape

Lifetime = tuple[bytes, int]
"""A key, and the number of the lifetime among those of that key in the segment."""


def fold_by_chain(events: DataFrame, shape: TableShape, *, has_large: bool = False) -> DataFrame:
    """One row a key: the end of its row's chain, or its delete.

    Raises:
        TableError: a key change whose other half is not in the segment.
    """
    in_order = Window.partitionBy("key").orderBy("commit_lsn", "ordinal")
    lives = events.withColumn("op_before", F.lag("op").over(in_order))
    lives = lives.withColumn("life", F.sum(F.when(_begins_life(), 1).otherwise(0)).over(in_order))
    beginnings = chain_beginnings(_links(lives, shape))
    chained = lives.join(F.broadcast(_as_frame(lives, beginnings)), ["key", "life"], "left").withColumn(
        "chain", F.struct(F.coalesce("first_key", "key"), F.coalesce("first_life", "life"))
    )
    alive = fold_by_key(chained, shape, group="chain", has_large=has_large).where("change.op <> 'd'")
    # By key, not by chain: the lake's row of a key goes also where the source's row lives on under another one.
    gone = fold_by_key(events, shape).where("change.op = 'd'")
    return alive.unionByName(gone)


def _begins_life() -> Column:
    """A row that was read again by its key, or a key that has none, says nothing of a row that left that key before."""
    is_apart = (F.col("ordinal") == COPIED_ORDINAL) & (F.col("op_before") == "d")
    return (F.col("op") == "c") | F.coalesce(is_apart, F.lit(False))


def _links(lives: DataFrame, shape: TableShape) -> dict[Lifetime, Lifetime]:
    """Lifetime that a key change began → lifetime that it ended."""
    # The delete of the old key has the ordinal before that of the new key's create, in the same commit.
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
            raise TableError(f"topic {shape.relation.topic} holds a key change without the delete of the old key")
        links[row["key"], row["life"]] = row["old_key"], row["old_life"]
    return links


def chain_beginnings(links: Mapping[Lifetime, Lifetime]) -> dict[Lifetime, Lifetime]:
    """Each linked lifetime's first one. A change ends before it begins, so no chain is a circle."""
    beginnings: dict[Lifetime, Lifetime] = {}
    for lifetime in links:
        # From here back to a lifetime whose beginning is known, or that no change began: each link is followed once.
        path = []
        while lifetime in links and lifetime not in beginnings:
            path.append(lifetime)
            lifetime = links[lifetime]
        first = beginnings.get(lifetime, lifetime)
        beginnings.update(dict.fromkeys(path, first))
    return beginnings


def _as_frame(like: DataFrame, beginnings: Mapping[Lifetime, Lifetime]) -> DataFrame:
    rows = pa.table(
        {
            "key": pa.array([key for key, _ in beginnings], pa.binary()),
            "life": pa.array([life for _, life in beginnings], pa.int64()),
            "first_key": pa.array([key for key, _ in beginnings.values()], pa.binary()),
            "first_life": pa.array([life for _, life in beginnings.values()], pa.int64()),
        }
    )
    return like.sparkSession.createDataFrame(rows)
