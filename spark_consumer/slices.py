"""How much a plan holds of each table, and in how many pieces it crosses to the driver.

In: the plan's records. Out: rows and bytes per topic and schema id (one small job a plan, shared by
the tables' threads); Arrow slices that are bounded by rows and bytes (I9).
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from schemas.avro_codec import HEADER_BYTES, MARKER
from spark_consumer.spool import SLICE_BYTES_MAX, SLICE_ROWS_MAX

ONE_TASK_ROWS_MAX = 20_000
"""Up to here one task is quicker than a shuffle between two."""


@dataclass(frozen=True, slots=True)
class Volume:
    """Records of one topic and schema id in a plan."""

    rows: int = 0
    bytes: int = 0

    @property
    def slices(self) -> int:
        """Pieces of at most SLICE_ROWS_MAX rows and about SLICE_BYTES_MAX bytes."""
        return max(-(-self.rows // SLICE_ROWS_MAX), -(-self.bytes // SLICE_BYTES_MAX), 1)


Volumes = Mapping[tuple[str, str | None], Volume]
_measured: WeakKeyDictionary[DataFrame, Volumes] = WeakKeyDictionary()
_measuring = threading.Lock()


def volumes(records: DataFrame) -> Volumes:
    """By topic and schema id; None stands for values that are not Avro single-object encoding."""
    with _measuring:
        found = _measured.get(records)
        if found is None:
            found = _measured[records] = _measure(records)
    return found


def _measure(records: DataFrame) -> Volumes:
    framed = (F.substring("value", 1, len(MARKER)) == F.lit(bytearray(MARKER))) & (F.length("value") > HEADER_BYTES)
    schema_id = F.when(framed, F.lower(F.hex(F.substring("value", len(MARKER) + 1, 8))))
    counted = records.groupBy("topic", schema_id.alias("schema_id")).agg(
        F.count(F.lit(1)).alias("rows"), F.sum(F.coalesce(F.length("value"), F.lit(0))).alias("bytes")
    )
    return {(row.topic, row.schema_id): Volume(row["rows"], row["bytes"]) for row in counted.collect()}


def in_slice(by: Column, place: int, slices: int) -> Column:
    """Whether a row is in one of several slices."""
    return F.pmod(F.xxhash64(by), F.lit(slices)) == F.lit(place)


def slices_of(frame: DataFrame, by: Column, slices: int) -> Iterator[pa.Table]:
    """The frame in slices; held in Spark meanwhile, so that it is computed once."""
    if slices == 1:
        yield frame.toArrow()
        return
    held = frame.persist()
    try:
        for place in range(slices):
            yield held.where(in_slice(by, place, slices)).toArrow()
    finally:
        held.unpersist()
