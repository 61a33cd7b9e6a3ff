"""Counts records and their bytes, by partition and frame id.

In: records in Spark, or on the driver. Out: the records with their sizes, large values left out (I9);
``Measure``s of them, by one aggregation in Spark or on the driver; and sums of these.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from walbridge.schemas.avro.framing import FRAMINGS, TOMBSTONE, Framing
from walbridge.schemas.control.cut import PartitionId
from walbridge.spark_consumer.errors import classifying_errors
from walbridge.spark_consumer.kafka.slices import Volume


@dataclass(frozen=True, slots=True)
class Measure:
    """The records of one partition and frame id. ``frame_id``: None for an unknown framing, ``TOMBSTONE`` for null
    values."""

    topic: str
    partition: int
    frame_id: str | None
    volume: Volume
    first_offset: int
    last_offset: int
    large: int = 0
    """How many of them are large; their bytes are not in ``volume``."""


def volumes_by_topic(measures: Iterable[Measure]) -> dict[str, dict[str | None, Volume]]:
    """Number and bytes of the records, by topic and frame id."""
    volumes: dict[str, dict[str | None, Volume]] = defaultdict(lambda: defaultdict(Volume))
    for each in measures:
        volumes[each.topic][each.frame_id] += each.volume
    return volumes


def sized(records: DataFrame) -> DataFrame:
    """The records, each with its frame id and the bytes of its value."""
    tombstone = F.when(F.col("value").isNull(), TOMBSTONE)
    frame_id = F.coalesce(tombstone, *(_frame_id(framing) for framing in FRAMINGS))
    return records.select("*", frame_id.alias("frame_id"), F.coalesce(F.length("value"), F.lit(0)).alias("size"))


def _frame_id(framing: Framing) -> Column:
    """The frame id of values in this framing (``schemas.avro.framing``); null of others, and of those without a
    body."""
    marker, id_bytes = framing.marker, framing.body_at - len(framing.marker)
    framed = (F.substring("value", 1, len(marker)) == F.lit(bytearray(marker))) & (F.length("value") > framing.body_at)
    return F.when(framed, F.lower(F.hex(F.substring("value", len(marker) + 1, id_bytes))))


def without_large(records: DataFrame, value_bytes_max: int) -> DataFrame:
    """The sized records, with null for values of more bytes. ``large``: the size of such a value, else null; its
    ``size`` is then 0."""
    is_large = F.col("size") > value_bytes_max
    return records.select(
        *["topic", "partition", "offset", "key", "frame_id"],
        F.when(~is_large, F.col("value")).alias("value"),
        F.when(is_large, 0).otherwise(F.col("size")).alias("size"),
        F.when(is_large, F.col("size")).alias("large"),
    )


_GROUP = ("topic", "partition", "frame_id")


def _aggregates() -> list[Column]:
    return [F.count("size"), F.sum("size"), F.min("offset"), F.max("offset"), F.count("large")]


def _grouped(records: pa.Table) -> pa.Table:
    """As ``_aggregates`` in Spark, computed on the driver from records that are there."""
    wanted = [("size", "count"), ("size", "sum"), ("offset", "min"), ("offset", "max"), ("large", "count")]
    found = records.group_by(list(_GROUP)).aggregate(wanted)
    return found.select([*_GROUP, *(f"{column}_{function}" for column, function in wanted)])


def measured(records: DataFrame) -> list[Measure]:
    """The measures of records in Spark."""
    return _measures(to_arrow(records.groupBy(*_GROUP).agg(*_aggregates())))


def measured_here(records: pa.Table) -> list[Measure]:
    """The measures of records on the driver."""
    return _measures(_grouped(records))


def _measures(found: pa.Table) -> list[Measure]:
    return [
        Measure(topic, partition, of, Volume(rows, size), first, last, large)
        for topic, partition, of, rows, size, first, last, large in zip(
            *(each.to_pylist() for each in found.columns), strict=True
        )
    ]


def to_arrow(frame: DataFrame) -> pa.Table:
    """The frame as Arrow on the driver; errors are sorted by who must act."""
    with classifying_errors():
        return frame.toArrow()


def counted_by_partition(measures: Iterable[Measure]) -> dict[PartitionId, tuple[int, int, int]]:
    """Number of records, first and last offset, by partition."""
    counted: dict[PartitionId, tuple[int, int, int]] = {}
    for each in measures:
        partition_id = each.topic, each.partition
        count, first, last = counted.get(partition_id, (0, each.first_offset, each.last_offset))
        counted[partition_id] = count + each.volume.rows, min(first, each.first_offset), max(last, each.last_offset)
    return counted
