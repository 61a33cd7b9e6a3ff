"""Folds events in which a key change left columns out: their values are under an earlier key of the row (I6).

In: a segment's events of a keyed table. Out: rows as ``fold.fold_by_key`` gives them, one a key.

A key's events are divided into lifetimes: a ``c`` begins one, and so does a copied event after a ``d``. A key change is
a ``d`` of the old key and a ``c`` of the new one, with the next ordinal of the same commit. It ends a lifetime of the
old key and begins one of the new key, and both belong to one row. Linked so, also over k1→k2→k3 and swaps, lifetimes
form chains without branches, and a row's last known values are those of its chain. A column that no event of the chain
holds was not written in it, so the lake still has its value, in the row of the chain's first key.
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
"""A key, and the number of one of its lifetimes in the segment."""


def fold_by_chain(events: DataFrame, shape: TableShape, *, has_large: bool = False) -> DataFrame:
    """One row a key: the fold of the chain that ends at this key, or the key's delete.

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
    # By key, not by chain: the lake's row of the old key is deleted although the source's row has another key now.
    gone = fold_by_key(events, shape).where("change.op = 'd'")
    return alive.unionByName(gone)


def _begins_life() -> Column:
    """A copied event after a ``d`` of its key is of another row than the one that was deleted, or moved to another
    key."""
    is_apart = (F.col("ordinal") == COPIED_ORDINAL) & (F.col("op_before") == "d")
    return (F.col("op") == "c") | F.coalesce(is_apart, F.lit(False))


def _links(lives: DataFrame, shape: TableShape) -> dict[Lifetime, Lifetime]:
    """For each lifetime that a key change began, the lifetime that it ended."""
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
    """The first lifetime of each linked lifetime's chain. Links lead to earlier events, so no chain is a circle."""
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
