"""Cuts: the record that ends each batch, and the chain they form.

A reader reads exactly [start, end) of each partition, checks the counts, and that ``cut_id`` and
``previous_end_lsn`` are unbroken: so it notices a lost, repeated or torn batch without trusting
the broker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from walbridge.schemas.avro.codec import decode_control, encode_control
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.position import Position, format_lsn


class Epoch(NamedTuple):
    """One copy and the stream that follows it."""

    system_id: str
    timeline: int
    slot: str
    consistent_point: int

    def __str__(self) -> str:
        return f"{self.system_id}-{self.timeline}-{self.slot}-{format_lsn(self.consistent_point)}"


PartitionId = tuple[str, int]
"""A topic, and the number of one of its partitions."""


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """``end_offset`` is the last record's offset + 1, without the transaction marker."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """A place in a table's events that a fold must not cross.

    kind: copy_begin, copy_end, truncate, shape or dropped; ``key`` is in the frozen schema and
    never sent. ``schema_id`` holds from ``position`` on, for copy_begin and shape.
    """

    kind: str
    position: Position
    schema_id: str | None = None


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What a cut holds of one table; ``row_count`` counts records over its partitions."""

    relation_id: int
    topic: str
    schema_ids: tuple[str, ...]
    row_count: int
    barriers: tuple[Barrier, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """Up to ``end_lsn`` the topics hold everything, if ``complete``."""

    epoch: Epoch
    cut_id: int
    previous_end_lsn: int
    end_lsn: int
    commit_lsn: int | None
    commit_time_us: int | None
    transactions: int
    complete: bool
    metadata_end_offset: int
    partitions: tuple[PartitionRange, ...] = ()
    tables: tuple[TableChanges, ...] = ()


def encode_cut(cut: Cut) -> bytes:
    """The Kafka value of a cut."""
    record = _fields_of(cut)  # asdict copies each value deeply, which with hundreds of tables takes long
    record["epoch"] = cut.epoch._asdict()
    record["partitions"] = [_fields_of(each) for each in cut.partitions]
    record["tables"] = [
        _fields_of(table) | {"barriers": [*map(_barrier_fields, table.barriers)]} for table in cut.tables
    ]
    return encode_control("Cut", record)


def _fields_of(value: Cut | PartitionRange | TableChanges) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def _barrier_fields(barrier: Barrier) -> dict[str, Any]:
    return {"kind": barrier.kind, "schema_id": barrier.schema_id} | barrier.position._asdict()


def decode_cut(value: bytes) -> Cut:
    """Decode a value of the cuts topic.

    Raises:
        ProtocolError: not a cut.
    """
    _, record = decode_control(value, ("Cut",))
    record["epoch"] = Epoch(**record["epoch"])
    record["partitions"] = tuple(PartitionRange(**entry) for entry in record["partitions"])
    record["tables"] = tuple(_table_changes(entry) for entry in record["tables"])
    return Cut(**record)


def _table_changes(entry: dict[str, Any]) -> TableChanges:
    barriers = tuple(
        Barrier(barrier["kind"], Position(barrier["commit_lsn"], barrier["ordinal"]), barrier["schema_id"])
        for barrier in entry["barriers"]
    )
    return TableChanges(entry["relation_id"], entry["topic"], tuple(entry["schema_ids"]), entry["row_count"], barriers)


def chain_break(previous: Cut | None, cut: Cut) -> str | None:
    """Why ``cut`` cannot follow ``previous`` (None: nothing yet), or None when it can.

    A new epoch starts over with cut 1: its copy replaces every table.
    """
    if previous is None or previous.epoch != cut.epoch:
        return None if cut.cut_id == 1 else f"epoch {cut.epoch} begins with cut {cut.cut_id}, not 1"
    if cut.cut_id != previous.cut_id + 1:
        return f"cut {cut.cut_id} follows cut {previous.cut_id}"
    if cut.previous_end_lsn != previous.end_lsn:
        return (
            f"cut {cut.cut_id} continues at {format_lsn(cut.previous_end_lsn)}, "
            f"but cut {previous.cut_id} ended at {format_lsn(previous.end_lsn)}"
        )
    if cut.end_lsn < cut.previous_end_lsn:
        return f"cut {cut.cut_id} ends before it begins"
    return None


def changes_tables(cut: Cut) -> bool:
    """Whether the state of a table at its end may be another than before it; logical messages are of no table."""
    return not cut.complete or any(table.relation_id != MESSAGES_RELATION_ID for table in cut.tables)


def count_mismatch(cut: Cut) -> PartitionRange | None:
    """The first range whose length is not its count: a hole that another writer left, or a lost record."""
    return next((r for r in cut.partitions if r.end_offset - r.start_offset != r.records), None)


def merge_ranges(cuts: Iterable[Cut]) -> dict[tuple[str, int], PartitionRange]:
    """The ranges of consecutive cuts, joined per partition; ``records`` is the sum.

    Between the ranges lie transaction markers and aborted records only, which no
    read_committed reader sees.
    """
    merged: dict[tuple[str, int], PartitionRange] = {}
    for cut in cuts:
        for part in cut.partitions:
            place = part.topic, part.partition
            before = merged.get(place)
            start, records = (before.start_offset, before.records) if before else (part.start_offset, 0)
            merged[place] = PartitionRange(*place, start, part.end_offset, records + part.records)
    return merged
