"""From consecutive cuts to a plan: which events of which table, in which segments.

In: cuts whose chain is unbroken and the tables' heads as the newest ``_cuts`` row has them.
Out: a ``Plan``, the unit of idempotence. Pure: no Spark, no clock.

Barriers split a table's events into segments; a fold never crosses one. Everything before the
last truncate or copy_begin of the plan is void, so segments begin there and the first one
empties the table. A segment's events are those with start <= position < end.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from walbridge.schemas.cut import Barrier, Cut, Epoch, PartitionRange, chain_break, count_mismatch, merge_ranges
from walbridge.schemas.errors import COPY_AGAIN, OperatorError
from walbridge.schemas.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.position import Position

SEGMENTS_MAX = 16
"""What a plan of several cuts may need for one table; each segment costs a commit."""
TXN_STRIDE = 4096
"""Transaction versions of one plan on one table: ``to_cut * 4096 + segment``. One cut alone may
need more than SEGMENTS_MAX (a transaction with many ALTERs), and versions must never meet."""
SUPERSEDED = "superseded"
"""State of a table of an older epoch while the new one is not yet published: it must be copied."""
EMPTYING = frozenset({"truncate", "copy_begin"})
_STATE_AFTER = {"copy_begin": "copying", "copy_end": "current", "dropped": "stale"}
"""A table that left the publication keeps its rows, but equals the source no longer (I8)."""


@dataclass(frozen=True, slots=True)
class TableHead:
    """A table as the newest finished plan left it.

    ``version`` is the Delta version; ``schema_id`` the shape it has; ``state`` one of
    current, copying, stale, superseded; ``since`` the LSN at which the state began.
    """

    relation_id: int
    topic: str
    path: str
    version: int
    schema_id: str
    state: str
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Events between two barriers, all of one schema.

    ``empties``: the table holds nothing but this segment's rows afterwards.
    ``copies``: the events are copied rows (op r), appended as they are.
    """

    index: int
    schema_id: str
    start: Position | None
    end: Position | None
    empties: bool = False
    copies: bool = False


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What one plan does to one table. ``base`` is None where the lake has no such table yet."""

    relation_id: int
    topic: str
    base: TableHead | None
    segments: tuple[Segment, ...]
    state: str
    """After the plan: copying, current or stale."""


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
    ranges: Mapping[tuple[str, int], PartitionRange]
    tables: tuple[TablePlan, ...]

    @property
    def rows(self) -> int:
        """Records over all partitions."""
        return sum(part.records for part in self.ranges.values())

    def txn_version(self, segment: int) -> int:
        """The Delta transaction version of a segment's commit."""
        return self.to_cut * TXN_STRIDE + segment


def cut_fault(previous: Cut | None, cut: Cut) -> str | None:
    """Why ``cut`` cannot be applied after ``previous``: a broken chain, a hole in a range, or
    records that belong to no table and so would be dropped silently (I7)."""
    if broken := chain_break(previous, cut):
        return broken
    if torn := count_mismatch(cut):
        return (
            f"cut {cut.cut_id} names {torn.records} records in "
            f"{torn.topic}[{torn.partition}] from {torn.start_offset} to {torn.end_offset}"
        )
    in_partitions, in_tables = Counter[str](), Counter[str]()
    for part in cut.partitions:
        in_partitions[part.topic] += part.records
    for table in cut.tables:
        in_tables[table.topic] += table.row_count
    differing = [topic for topic in in_partitions | in_tables if in_partitions[topic] != in_tables[topic]]
    if differing:
        return f"cut {cut.cut_id} counts the records of {differing[0]} differently by table and by partition"
    return None


def _of_tables(cut: Cut) -> Cut:
    """Without logical messages: they are counted like all that a cut names, but they are of no table."""
    topics = {table.topic for table in cut.tables if table.relation_id == MESSAGES_RELATION_ID}
    if not topics:
        return cut
    return replace(
        cut,
        partitions=tuple(part for part in cut.partitions if part.topic not in topics),
        tables=tuple(table for table in cut.tables if table.topic not in topics),
    )


def take_cuts(cuts: Sequence[tuple[int, Cut]], rows_max: int) -> int:
    """How many of the (offset, cut) pairs go into the next plan: at least one, of one epoch,
    until ``rows_max`` rows are reached, a table would need more than SEGMENTS_MAX segments, or
    a topic passes from one relation to another (a table made anew under its name)."""
    rows = 0
    barriers = Counter[int]()
    relations: dict[str, int] = {}
    for count, (_, cut) in enumerate((offset, _of_tables(cut)) for offset, cut in cuts):
        rows += sum(part.records for part in cut.partitions)
        full = rows > rows_max or cut.epoch != cuts[0][1].epoch
        for table in cut.tables:
            barriers[table.relation_id] += len(table.barriers)
            full = full or barriers[table.relation_id] >= SEGMENTS_MAX
            full = full or relations.setdefault(table.topic, table.relation_id) != table.relation_id
        if count and full:
            return count
    return len(cuts)


def make_plan(cuts: Sequence[tuple[int, Cut]], heads: Mapping[int, TableHead]) -> Plan:
    """The plan of these (offset, cut) pairs over the lake's tables (by relation id).

    Raises:
        OperatorError: a table that this lake never copied (I7).
    """
    first, last = cuts[0][1], cuts[-1][1]
    of_tables = [_of_tables(cut) for _, cut in cuts]
    timed = [cut.commit_time_us for _, cut in cuts if cut.commit_time_us is not None]
    return Plan(
        epoch=last.epoch,
        from_cut=first.cut_id,
        to_cut=last.cut_id,
        end_lsn=last.end_lsn,
        commit_time_us=timed[-1] if timed else None,
        complete=last.complete,
        metadata_end_offset=last.metadata_end_offset,
        next_offset=cuts[-1][0] + 1,
        ranges=merge_ranges(of_tables),
        tables=tuple(_table_plans(of_tables, heads)),
    )


def _table_plans(cuts: Iterable[Cut], heads: Mapping[int, TableHead]) -> Iterable[TablePlan]:
    barriers: dict[int, list[Barrier]] = {}
    topics: dict[int, str] = {}
    for cut in cuts:
        for table in cut.tables:
            barriers.setdefault(table.relation_id, []).extend(table.barriers)
            topics[table.relation_id] = table.topic
    if shared := [topic for topic, count in Counter(topics.values()).items() if count > 1]:
        raise OperatorError(
            f"topic {shared[0]} holds records of two relations in one plan",
            remedy=COPY_AGAIN,
        )
    # A table made anew under its name has another relation id: its copy replaces what is at its path,
    # and the path is no more that of the table which had the name in the copy before.
    by_topic = {head.topic: replace(head, state=SUPERSEDED) for head in heads.values()}
    for relation_id, topic in topics.items():
        base = heads.get(relation_id)
        if base is None or (base.state == SUPERSEDED and base.topic != topic):
            base = by_topic.get(topic)
        yield _table_plan(relation_id, topic, base, barriers[relation_id])


def _table_plan(relation_id: int, topic: str, base: TableHead | None, barriers: Sequence[Barrier]) -> TablePlan:
    if (base is None or base.state == SUPERSEDED) and not any(b.kind == "copy_begin" for b in barriers):
        raise OperatorError(
            f"topic {topic} has changes of a table that this lake holds no copy of",
            remedy=COPY_AGAIN,
        )
    schema_id = base.schema_id if base else ""
    state = base.state if base else "copying"
    segments: list[Segment] = []
    start: Position | None = None
    empties, copies = False, state == "copying"
    for barrier in barriers:
        segments.append(Segment(len(segments), schema_id, start, barrier.position, empties, copies))
        start, empties, copies = barrier.position, False, copies and barrier.kind != "copy_end"
        schema_id = barrier.schema_id or schema_id
        if barrier.kind in EMPTYING:
            segments.clear()
            empties, copies = True, barrier.kind == "copy_begin"
        state = _STATE_AFTER.get(barrier.kind, state)
    segments.append(Segment(len(segments), schema_id, start, None, empties, copies))
    if len(segments) > TXN_STRIDE:
        raise OperatorError(
            f"one cut changes the shape of the table of topic {topic} {len(segments)} times, "
            f"more than the {TXN_STRIDE} that one plan can apply",
            remedy=COPY_AGAIN,
        )
    return TablePlan(relation_id, topic, base, tuple(segments), state)
