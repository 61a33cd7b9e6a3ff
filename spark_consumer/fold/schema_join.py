"""Records to events: each is decoded with the very schema that wrote it.

In: the plan's records and a segment's relation version. Out: one row an event, columns named by
place inside ``before`` and ``after``, because source names may differ in case only or hold dots
and quotes; the lake's names return at the very end.

Decoding runs in the JVM (``from_avro`` on the bytes behind the framing; JSON: ``json_events``). Its reader schema
names the fields the job needs and gives the writer's column names as aliases, so Avro's own
schema resolution does the renaming.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.avro.schema import subset
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import TableError
from walbridge.schemas.position import Position
from walbridge.spark_consumer.errors import FIND_THE_WRITER
from walbridge.spark_consumer.fold import json_events
from walbridge.spark_consumer.plan.plan import Segment

_WANTED: Mapping[str, Any] = {
    "before": None,
    "after": None,
    "source": {"ts_us": None, "commit_lsn": None, "ordinal": None},
    "op": None,
    "unchanged": None,
    "exceptional": None,
    "before_exceptional": None,
}


BARRIERS = ("t", "m")
"""Operations without a row: truncates, and the markers where a copy begins and ends."""


def place_name(place: int) -> str:
    """The internal name of a table's column, by its place.

    It begins with an escaped ``c``. ``avro_name`` escapes no letter, so no column of a table has such a name. If one
    had, Avro would take one column for another, since it follows aliases more than once.
    """
    return f"_u0063{place}"


@lru_cache(maxsize=1024)
def reader_schema(value_schema: str, key_places: tuple[int, ...]) -> str:
    """The Avro schema to decode an envelope into, JSON.

    Where the table has a key, only the key columns of ``before`` are decoded (I9).
    """
    schema = subset(json.loads(value_schema), _WANTED)
    fields = {field["name"]: field for field in schema["fields"]}
    row = fields["before"]["type"][1]
    columns = [
        {"name": place_name(place), "aliases": [field["name"]], "type": field["type"], "default": None}
        for place, field in enumerate(row["fields"])
    ]
    row["fields"] = columns
    if key_places:
        # Aliases are looked up by the record's name in the writer's schema, so they stand in ``after`` for both.
        of_key = [{**columns[place], "aliases": []} for place in key_places]
        fields["before"]["type"] = ["null", row | {"name": _KEY_ROW, "fields": of_key}]
        fields["after"]["type"] = ["null", row]
    return json.dumps(schema)


_KEY_ROW = "_u0063Key"
"""A name that no table has, for the same reason as with ``place_name``."""


def events(records: DataFrame, relation: RelationRecord, segment: Segment) -> DataFrame:
    """The segment's events: key, before, after, op, unchanged, exceptional, before_exceptional,
    commit_lsn, ordinal, commit_time; with partition and offset of the record. In ``before`` are
    only the key columns, where there are any.

    Truncates and the markers of copies are left out: they are barriers of the plan.
    """
    # The event is put into an array and taken out again, because Spark pushes no filter through that.
    # A filter pushed below the decoding would decode every record a second time.
    mine = records_of_schema(records, relation)
    if relation.is_json:
        decoded = json_events.decoded(mine, relation, _key_places(relation), place_name)
    else:
        decoded = mine.select("partition", "offset", "key", F.inline(F.array(_decoded(relation, "FAILFAST"))))
    return decoded.where(_between(segment.start, segment.end) & ~F.col("op").isin(ignored_operations(segment))).select(
        "*",
        "source.commit_lsn",
        "source.ordinal",
        F.timestamp_micros("source.ts_us").alias("commit_time"),
    )


def ignored_operations(segment: Segment) -> list[str]:
    """Operations that change no row of the table in this segment."""
    return [*BARRIERS, "r"] if segment.ignores_copied_rows else [*BARRIERS]


def records_of_schema(records: DataFrame, relation: RelationRecord) -> DataFrame:
    """The records of the relation's topic that were written with this schema."""
    prefix = prefix_of(relation.frame_id)
    return records.where(
        (F.col("topic") == relation.topic) & (F.substring("value", 1, len(prefix)) == F.lit(bytearray(prefix)))
    )


def _decoded(relation: RelationRecord, mode: str) -> Column:
    body = F.substring("value", len(prefix_of(relation.frame_id)) + 1, 2**31 - 1)
    wanted = reader_schema(relation.value_schema, _key_places(relation))
    return from_avro(body, relation.value_schema, {"avroSchema": wanted, "mode": mode})


def _key_places(relation: RelationRecord) -> tuple[int, ...]:
    return tuple(place for place, column in enumerate(relation.table.columns) if column.is_key)


def _between(start: Position | None, end: Position | None) -> Column:
    lsn, ordinal = F.col("source.commit_lsn"), F.col("source.ordinal")
    inside = F.lit(True)
    if start is not None:
        inside &= (lsn > start.commit_lsn) | ((lsn == start.commit_lsn) & (ordinal >= start.ordinal))
    if end is not None:
        inside &= (lsn < end.commit_lsn) | ((lsn == end.commit_lsn) & (ordinal < end.ordinal))
    return inside


def refuse_malformed(records: DataFrame, relation: RelationRecord) -> None:
    """Name the records that do not decode; called once decoding them has failed.

    Raises:
        TableError: with partition and offsets, never with bytes (I10).
    """
    mine = records_of_schema(records, relation)
    if relation.is_json:
        broken = json_events.broken(mine, relation, _key_places(relation))
    else:
        decoded = mine.select("partition", "offset", _decoded(relation, "PERMISSIVE").alias("event"))
        # A permissive decoder makes the whole record null; op is never null in a sound one.
        broken = decoded.where(F.col("event").isNull() | F.col("event.op").isNull())
    ranges = broken.groupBy("partition").agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    found = [f"partition {row.partition} offsets {row.first} to {row.last}" for row in ranges.collect()]
    if found:
        raise malformed_records(relation, found)


def malformed_records(relation: RelationRecord, places: Sequence[str]) -> TableError:
    """Records that do not decode; ``places``: partitions and offsets."""
    return TableError(
        f"topic {relation.topic} holds records that are not of schema {relation.schema_id} "
        f"though they say so: {', '.join(sorted(places))}",
        first=FIND_THE_WRITER,
    )
