"""Change events as the job reads them, without Kafka: values encoded against the real contract.

``relation`` makes a relation version, ``Log`` collects records of several tables, gives positions
and offsets, and becomes the ``records`` frame and the ``Plan`` that ``apply_table`` takes. Where a
test gives no Spark, the records are on the driver as those of a small table are, and a step that
needs Spark after all fails.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.contract_writer import Event, encode_event, encode_key
from walbridge.schemas.avro.codec import schema_id
from walbridge.schemas.avro.framing import frame_id_if_known
from walbridge.schemas.avro.schema import key_schema, value_schema
from walbridge.schemas.control.cut import Epoch, PartitionRange
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import BUILTIN_NAMES, TypeFacts, column_type, domain_base
from walbridge.schemas.table_schema import Column, TableSchema
from walbridge.schemas.topics import data_topic, table_path
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.apply.apply import apply_table
from walbridge.spark_consumer.apply.job_lake import JobLake
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.kafka.change_reader import PlannedRecords, TableRecords
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.many.spooled_records import Part, SpooledRecords
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import Plan, Segment, TableHead, TablePlan

PIPELINE = "p"
EPOCH = Epoch("7000000000000000001", 1, "walbridge", 0x1000)
USER_TYPES = {
    facts.oid: facts
    for facts in (
        TypeFacts(600_001, "public", "hstore", "b", extension="hstore"),
        TypeFacts(600_002, "public", "vector", "b", extension="vector"),
        TypeFacts(600_003, "public", "price", "d", base_type=1700, typmod=(10 << 16 | 2) + 4),
        TypeFacts(600_004, "public", "counts", "d", base_type=1007),
        TypeFacts(600_005, "public", "whole", "d", base_type=23),
        TypeFacts(600_006, "public", "note", "d", base_type=25),
        TypeFacts(600_007, "public", "mood", "e"),
        TypeFacts(600_008, "public", "_mood", "a", element_type=600_007),
        TypeFacts(600_009, "public", "feeling", "d", base_type=600_007),
    )
}
_OIDS = {name: oid for oid, name in BUILTIN_NAMES.items()} | {of.name: oid for oid, of in USER_TYPES.items()}
_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
)


def column(
    name: str, type_name: str = "text", *, is_key: bool = False, typmod: int = -1, attnum: int | None = None
) -> Column:
    """A column of a built-in type, of one of USER_TYPES, or of one that travels as text."""
    oid = _OIDS.get(type_name, 600_000)
    of = column_type(oid, typmod, USER_TYPES)
    base, base_typmod = domain_base(oid, typmod, USER_TYPES)
    base_type = (BUILTIN_NAMES.get(base) or USER_TYPES[base].name) if base != oid else None
    return Column(
        name, oid, type_name, typmod, of, is_key=is_key, in_replica_identity=is_key, attnum=attnum,
        base_type=base_type, base_typmod=base_typmod if base_type else -1,
    )  # fmt: skip


def relation(
    columns: Sequence[Column],
    *,
    name: str = "t",
    identity: str = "d",
    relation_id: int = 16400,
    revision: int = 0,
    operations: tuple[str, ...] | None = None,
) -> RelationRecord:
    """A relation version; attnums count from 1 where a column has none."""
    numbered = tuple(each if each.attnum else replace(each, attnum=place) for place, each in enumerate(columns, 1))
    table = TableSchema(relation_id, "public", name, identity, numbered, operations=operations)
    value, key = value_schema(PIPELINE, table, revision), key_schema(PIPELINE, table, revision)
    return RelationRecord(
        table,
        data_topic(PIPELINE, "public", name),
        1,
        schema_id(value),
        json.dumps(value),
        schema_id(key) if key else None,
        json.dumps(key) if key else None,
        revision,
    )


@dataclass
class Log:
    """Records in the order they were written."""

    rows: list[dict[str, object]] = field(default_factory=list)

    def add(self, event: Event, *, partition: int = 0) -> None:
        """Append one event."""
        key = None if event.has_no_row else encode_key(event)
        self.add_bytes(event.relation.topic, encode_event(event, PIPELINE), key, partition=partition)

    def add_bytes(self, topic: str, value: bytes | None, key: bytes | None = None, *, partition: int = 0) -> None:
        """Append one record."""
        self.rows.append({"topic": topic, "partition": partition, "offset": len(self.rows), "key": key, "value": value})

    def frame(self, spark: SparkSession) -> DataFrame:
        """The ``records`` of a plan."""
        return records_frame(spark, self.rows)

    def on_driver(self, topic: str) -> TableRecords:
        """One topic's records, as a small table's are; its frame cannot be had."""
        mine = [row for row in self.rows if row["topic"] == topic]
        volumes: dict[str | None, Volume] = {}
        for row in mine:
            written_by = frame_id_if_known(cast("bytes | None", row["value"]))
            volumes[written_by] = volumes.get(written_by, Volume()) + Volume(1, 1)
        return TableRecords(_no_frame, volumes, pa.Table.from_pylist(mine, _SCHEMA))

    def on_disk(self) -> SpooledRecords:
        """The records as those of a large plan are: on the driver's disk, partition by partition."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 it goes with the records
        found, at = SpooledRecords(file), 0
        for topic, partition in sorted({(str(row["topic"]), cast("int", row["partition"])) for row in self.rows}):
            mine = [row for row in self.rows if (row["topic"], row["partition"]) == (topic, partition)]
            pairs = [(cast("bytes | None", row["key"]), cast("bytes | None", row["value"])) for row in mine]
            sizes = [[-1 if each is None else len(each) for each in pair] for pair in pairs]
            starts = at + np.cumsum([0, *(sum(max(size, 0) for size in pair) for pair in sizes)])
            keys, values = (np.array(of, np.int64) for of in zip(*sizes, strict=True))
            offsets = np.array([cast("int", row["offset"]) for row in mine])
            found.parts.append(Part((topic, partition), offsets, starts[:-1], keys, values))
            file.write(b"".join((key or b"") + (value or b"") for key, value in pairs))
            at = int(starts[-1])
        file.flush()
        return found


def _no_frame() -> DataFrame:
    raise AssertionError("this test runs without Spark, and its records were asked for as a frame")


def records_frame(spark: SparkSession, rows: Sequence[Mapping[str, object]]) -> DataFrame:
    """Records from memory; no Python on executors."""
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), _SCHEMA))


def table_records(frame: DataFrame, part: TablePlan) -> TableRecords:
    """The table's part of a plan's records."""
    return PlannedRecords(lambda: frame, {part.topic: frame.count()}, partial(values_of, frame)).of(part.topic)


def values_of(frame: DataFrame, records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
    """Values of single records, as Kafka would give them."""
    values = {(row.partition, row.offset): bytes(row.value) for row in frame.where("value is not null").collect()}
    return ((record, values[record.partition, record.offset]) for record in records)


def plan_of(to_cut: int, tables: Sequence[TablePlan], rows: int = 0, end_lsn: int = 0x2000) -> Plan:
    """A plan of one cut."""
    ranges = {(table.topic, 0): PartitionRange(table.topic, 0, 0, rows, rows) for table in tables}
    return Plan(EPOCH, to_cut, to_cut, end_lsn, None, True, 0, to_cut, ranges, tuple(tables))


def table_plan(of: RelationRecord, base: TableHead | None, segments: Sequence[Segment] | None = None) -> TablePlan:
    """A table's part; by default one segment that merges, or the first one of a copy."""
    if segments is None:
        segments = (
            [Segment(0, of.schema_id, None, None)] if base else [Segment(0, of.schema_id, None, None, True, True)]
        )
    path = base.path if base else table_path(of.table.namespace, of.table.name)
    return TablePlan(of.table.relation_id, of.topic, base, tuple(segments), "current", path=path)


def applied(
    spark: SparkSession | None,
    lake: object,
    log: Log,
    part: TablePlan,
    relations: Sequence[RelationRecord],
    *,
    to_cut: int = 1,
    source_sends_all: bool = True,
    appliers: Appliers | None = None,
) -> TableHead:
    """Apply one table's part of a plan; without Spark where none is given."""
    return apply_table(
        JobLake(str(lake), PIPELINE, source_sends_all=source_sends_all, appliers=appliers or Appliers()),
        log.on_driver(part.topic) if spark is None else table_records(log.frame(spark), part),
        {each.schema_id: each for each in relations},
        part,
        plan_of(to_cut, [part], len(log.rows)),
    )


def head_rows(lake: Path, head: TableHead) -> list[dict[str, Any]]:
    """The rows of the table that a plan left."""
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    assert table.version == head.version
    rows: list[dict[str, Any]] = table.query("SELECT * FROM target").read_all().to_pylist()
    return rows


def copied(spark: SparkSession | None, lake: Path, of: RelationRecord, *rows: dict[str, Any]) -> TableHead:
    log = Log()
    for row in rows:
        log.add(Event(of, "r", 0x1000, -1, after=row))
    return applied(spark, lake, log, table_plan(of, None), [of], to_cut=1)


def changed(
    spark: SparkSession | None,
    lake: Path,
    head: TableHead,
    *events: Event,
    to_cut: int = 2,
    known: Any = (),
    source_sends_all: bool = True,
    appliers: Appliers | None = None,
) -> TableHead:
    log = Log()
    for event in events:
        log.add(event)
    of = events[0].relation
    part = table_plan(of, head)
    return applied(
        spark, lake, log, part, [of, *known], to_cut=to_cut, source_sends_all=source_sends_all, appliers=appliers
    )


def values(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({name: value for name, value in row.items() if name != "_walbridge"} for row in rows), key=repr)
