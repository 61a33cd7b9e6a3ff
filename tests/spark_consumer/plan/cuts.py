"""Cuts of one pipeline, in short."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from walbridge.schemas.control.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.plan.plan import (
    TableHead,
)

EPOCH = Epoch("7", 1, "s", 100)
HEAD = TableHead(1, "p.a", "public/a", 5, "v1", "current")


def at(lsn: int, ordinal: int = 0) -> Position:
    return Position(Lsn(lsn), ordinal)


def part(start: int, end: int, topic: str = "p.a", partition: int = 0) -> PartitionRange:
    return PartitionRange(topic, partition, start, end, end - start)


def changes(*barriers: Barrier, rows: int = 0, relation_id: int = 1, topic: str = "p.a") -> TableChanges:
    return TableChanges(relation_id, topic, (), rows, barriers)


def cut(cut_id: int = 1, *tables: TableChanges, parts: Sequence[PartitionRange] = (), **fields: Any) -> Cut:
    end_lsn = 101 + cut_id
    plain = Cut(EPOCH, cut_id, end_lsn - 1, end_lsn, end_lsn - 1, None, 1, True, 0, tuple(parts), tables)
    return replace(plain, **fields)


def numbered(*cuts: Cut) -> list[tuple[int, Cut]]:
    return [(2 * n, each) for n, each in enumerate(cuts)]
