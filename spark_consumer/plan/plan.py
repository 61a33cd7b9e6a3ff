"""From consecutive cuts to a plan: which events of which table, in which segments.

In: cuts whose chain is unbroken; the tables' heads and pending copies, as the newest row of ``_cuts``
has them. Out: a ``Plan``, the unit of idempotence. Pure: no Spark, no clock.

Barriers split a table's events into segments (``segments/table_walk.py``); a fold never crosses one. A segment's
events are those with start <= position < end. Where a copy beside the stream ends in the plan, its
records are read from where it began, so they were in the cuts of earlier plans; records of a table
that has no part in the plan are not read.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from walbridge.schemas.control.cut import (
    Cut,
    Epoch,
    PartitionId,
    PartitionRange,
    TableChanges,
)
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.plan.pending_copy import PendingCopy, has_copy_begin_beside
from walbridge.spark_consumer.plan.read_ranges import read_ranges
from walbridge.spark_consumer.plan.segments.segment import Segment
from walbridge.spark_consumer.plan.segments.table_walk import TableWalk
from walbridge.spark_consumer.plan.table_head import SUPERSEDED, TableHead
from walbridge.spark_consumer.plan.table_trouble import TableTrouble

# Whoever carries out a plan needs what it is made of.
__all__ = [
    "SUPERSEDED",
    "ByteLimit",
    "Plan",
    "Segment",
    "TableHead",
    "TablePlan",
    "make_plan",
    "take_cuts",
]

SEGMENTS_MAX = 16
"""What a plan of several cuts may need for one table; each segment costs a commit."""
TXN_STRIDE = 4096
"""Transaction versions of one plan on one table: ``to_cut * 4096 + segment``. One cut alone may
need more than SEGMENTS_MAX (a transaction with many ALTERs), and versions must never meet."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What one plan does to one table. ``base`` is None where the lake has no such table yet."""

    relation_id: int
    topic: str
    base: TableHead | None
    segments: tuple[Segment, ...]
    state: str
    """After the plan: copying, current or stale."""
    swapped: PendingCopy | None = None
    """The copy beside the stream that ends in this plan, and replaces the table."""
    path: str = ""
    """The table's folder; empty for a new table until ``LakeState.with_folders`` has chosen one."""
    beside: bool = False
    """It is written beside the plans (``ended_copies.py``)."""
    unread: frozenset[int] = frozenset()
    """Numbers of the cuts whose records of it are rows of a copy that goes on."""

    @property
    def follows_source(self) -> bool:
        """Whether the table equals the source where the plan begins, and gets nothing but changes of it.

        Then the first event of a key in a segment tells whether the lake holds its row: ``c`` means that it does not,
        any other operation that it does. The producer makes sure that all four operations are published.
        """
        is_copied = self.swapped is not None or any(segment.is_copied for segment in self.segments)
        return self.base is not None and self.base.state == self.state == "current" and not is_copied


@dataclass(frozen=True, slots=True)
class Plan:
    """Cuts from_cut … to_cut of one epoch, with the exact ranges to read."""

    epoch: Epoch
    from_cut: int
    to_cut: int
    end_lsn: int
    commit_time_us: int | None
    complete: bool
    metadata_end_offset: int
    next_offset: int
    """Offset in the cuts topic after the plan's last cut."""
    ranges: Mapping[PartitionId, PartitionRange]
    tables: tuple[TablePlan, ...]
    copies: Mapping[int, PendingCopy] = field(default_factory=dict)
    """The copies that are pending after the plan, by relation id."""
    troubles: tuple[TableTrouble, ...] = ()
    """Tables of its cuts that are not in the plan, since the cuts alone show that their changes cannot be applied."""
    gaps: Mapping[PartitionId, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Offsets in its ranges that are passed over (``read_ranges.py``)."""

    @property
    def rows(self) -> int:
        """Records to read, over all partitions."""
        return sum(part.records for part in self.ranges.values())

    def txn_version(self, segment: int) -> int:
        """The Delta transaction version of a segment's commit."""
        return self.to_cut * TXN_STRIDE + segment


def _without_messages(cut: Cut) -> Cut:
    """The cut without logical messages: it counts them like all records, but they belong to no table."""
    topics = {table.topic for table in cut.tables if table.relation_id == MESSAGES_RELATION_ID}
    if not topics:
        return cut
    return replace(
        cut,
        partitions=tuple(part for part in cut.partitions if part.topic not in topics),
        tables=tuple(table for table in cut.tables if table.topic not in topics),
    )


@dataclass(frozen=True, slots=True)
class ByteLimit:
    """How many bytes the records of a plan may have. Cuts carry no sizes, so each counts for the most that it can hold.

    Args:
        plan: the limit.
        cut: what the producer puts into one Kafka transaction at the most.
        row: the most that one record takes where all records of a plan are held.
    """

    plan: int
    cut: int
    row: int

    def most(self, records: int) -> int:
        """The most that a plan may hold of a cut of so many records."""
        return min(records * self.row, self.cut)


def take_cuts(cuts: Sequence[tuple[int, Cut]], rows_max: int, limit: ByteLimit | None = None) -> int:
    """How many of the (offset, cut) pairs go into the next plan: at least one, and all of one epoch.

    A plan ends before the cut with which it would have more than ``rows_max`` rows, or may have more bytes than the
    ``limit``, or with which

    - a table would need more than SEGMENTS_MAX segments;
    - a topic passes to another relation (a table was made anew under its name);
    - a relation passes to another topic (a table was renamed);
    - the copy of a table begins that has changes in the plan.
    """
    rows = size = 0
    barriers = Counter[int]()
    relations: dict[str, int] = {}
    topics: dict[int, str] = {}
    for count, (_, cut) in enumerate((offset, _without_messages(cut)) for offset, cut in cuts):
        records = sum(part.records for part in cut.partitions)
        rows += records
        is_full = rows > rows_max or cut.epoch != cuts[0][1].epoch
        if limit is not None:
            size += limit.most(records)
            is_full |= size > limit.plan
        for table in cut.tables:
            barriers[table.relation_id] += len(table.barriers)
            is_full = is_full or barriers[table.relation_id] >= SEGMENTS_MAX
            is_full = is_full or relations.setdefault(table.topic, table.relation_id) != table.relation_id
            is_full = is_full or (table.relation_id in topics and has_copy_begin_beside(cut, table))
            is_full = is_full or topics.setdefault(table.relation_id, table.topic) != table.topic
        # One cut alone is never too much: it cannot be applied in parts, since only its end is a state of the source.
        if count and is_full:
            return count
    return len(cuts)


def make_plan(
    cuts: Sequence[tuple[int, Cut]],
    heads: Mapping[int, TableHead],
    copies: Mapping[int, PendingCopy] | None = None,
    awaiting_copy: Collection[int] = (),
    faults: Mapping[str, str] | None = None,
    deferred_from: int | None = None,
) -> Plan:
    """The plan of these (offset, cut) pairs.

    Args:
        heads: the lake's tables by relation id; ``copies``: the pending copies likewise.
        awaiting_copy: relations whose tables take no changes until a copy of them ends.
        faults: ``topic_faults`` of the cuts.
        deferred_from: a copy that ends with at least this many records is deferred (``ended_copies.py``);
            None: no copy is.
    """
    first, last = cuts[0][1], cuts[-1][1]
    table_cuts = [_without_messages(cut) for _, cut in cuts]
    timed = [cut.commit_time_us for _, cut in cuts if cut.commit_time_us is not None]
    tables, going_on, troubles = _table_plans(
        table_cuts, heads, copies or {}, awaiting_copy, faults or {}, deferred_from
    )
    read = read_ranges(
        table_cuts,
        {table.topic: table.unread for table in tables},
        [table.swapped for table in tables if table.swapped is not None],
    )
    return Plan(
        epoch=last.epoch,
        from_cut=first.cut_id,
        to_cut=last.cut_id,
        end_lsn=last.end_lsn,
        commit_time_us=timed[-1] if timed else None,
        complete=last.complete,
        metadata_end_offset=last.metadata_end_offset,
        next_offset=cuts[-1][0] + 1,
        ranges=read.ranges,
        tables=tuple(tables),
        copies=going_on,
        troubles=tuple(troubles),
        gaps=read.gaps,
    )


TableCuts = list[tuple[Cut, TableChanges]]


def _table_plans(
    cuts: Iterable[Cut],
    heads: Mapping[int, TableHead],
    copies: Mapping[int, PendingCopy],
    awaiting_copy: Collection[int],
    faults: Mapping[str, str],
    deferred_from: int | None,
) -> tuple[list[TablePlan], dict[int, PendingCopy], list[TableTrouble]]:
    changes: dict[int, TableCuts] = {}
    for cut in cuts:
        for table in cut.tables:
            changes.setdefault(table.relation_id, []).append((cut, table))
    changes, troubles = _without_replaced_relations(changes)
    # A table made anew under its name has another relation id: its copy replaces what is at its path,
    # and the path is no more that of the table which had the name in the copy before.
    by_topic = {head.topic: replace(head, state=SUPERSEDED) for head in heads.values()}
    plans: list[TablePlan] = []
    # A copy whose topic two relations send to would take records of the other one.
    in_trouble = {trouble.topic for trouble in troubles}
    going_on = {relation_id: copy for relation_id, copy in copies.items() if copy.topic not in in_trouble}
    for relation_id, of_table in changes.items():
        topic = of_table[-1][1].topic
        base = heads.get(relation_id)
        # On another server a relation may have the id of another table of before by chance: topics tell them apart.
        is_elsewhere = base is not None and base.topic != topic and base.state == SUPERSEDED
        start = by_topic.get(topic) if base is None or is_elsewhere else base
        walk = TableWalk(start, going_on.pop(relation_id, None), relation_id in awaiting_copy, deferred_from)
        try:
            # A table that takes no changes is not harmed by faults in them.
            if topic in faults and not (walk.awaits_copy and walk.copy is None):
                raise TableError(faults[topic])
            table_plan = _table_plan(relation_id, topic, walk, of_table)
        except TableError as error:
            troubles.append(_trouble(relation_id, of_table, error))
            continue
        if table_plan is not None:
            plans.append(table_plan)
        if walk.copy is not None:
            # A topic holds one copy at a time: any other relation's copy in it is void.
            going_on = {other: copy for other, copy in going_on.items() if copy.topic != topic}
            going_on[relation_id] = walk.copy
    return plans, going_on, troubles


def _trouble(relation_id: int, changes: TableCuts, error: TableError) -> TableTrouble:
    schema_ids = [schema_id for _, table in changes for schema_id in table.schema_ids]
    return TableTrouble(relation_id, changes[-1][1].topic, schema_ids[-1] if schema_ids else "", error)


def _has_copy_begin(changes: TableCuts) -> bool:
    return any(has_copy_begin_beside(cut, table) for cut, table in changes)


def _without_replaced_relations(changes: Mapping[int, TableCuts]) -> tuple[dict[int, TableCuts], list[TableTrouble]]:
    """Drop the changes of each relation whose topic another relation takes over with a copy: they are void.

    Where two relations send to one topic and neither begins a copy, both are dropped, and the topic is in trouble.
    """
    by_topic: dict[str, list[int]] = {}
    for relation_id, of_table in changes.items():
        by_topic.setdefault(of_table[-1][1].topic, []).append(relation_id)
    kept = dict(changes)
    troubles = []
    for topic, relation_ids in by_topic.items():
        begun = [relation_id for relation_id in relation_ids if _has_copy_begin(changes[relation_id])]
        if len(relation_ids) > 1 and len(begun) != 1:
            error = TableError(f"topic {topic} holds records of two relations in one plan")
            troubles.append(_trouble(relation_ids[-1], changes[relation_ids[-1]], error))
            begun = []
        for relation_id in relation_ids:
            if len(relation_ids) > 1 and relation_id not in begun:
                del kept[relation_id]
    return kept, troubles


def _table_plan(relation_id: int, topic: str, walk: TableWalk, changes: TableCuts) -> TablePlan | None:
    """The table's part of the plan; None where the table only waits for the end of a copy.

    Raises:
        TableError: its changes cannot be applied.
    """
    if walk.copy is None and not walk.awaits_copy and (walk.base is None or walk.base.state == SUPERSEDED):
        barriers = [barrier.kind for _, table in changes for barrier in table.barriers]
        # It left before the lake had anything of it.
        if {*barriers} == {"dropped"} and not any(table.row_count for _, table in changes):
            return None
        if "copy_begin" not in barriers:
            raise TableError(f"topic {topic} has changes of a table that this lake holds no copy of")
    for cut, table in changes:
        walk.pass_cut(cut, table)
    walk.end()
    if len(walk.segments) > TXN_STRIDE:
        raise TableError(
            f"one cut changes the shape of the table of topic {topic} {len(walk.segments)} times, "
            f"more than the {TXN_STRIDE} that one plan can apply"
        )
    if not walk.segments:
        return None
    path = walk.base.path if walk.base is not None else ""
    segments, unread = tuple(walk.segments), frozenset(walk.unread)
    return TablePlan(relation_id, topic, walk.base, segments, walk.state, walk.swapped, path, unread=unread)
