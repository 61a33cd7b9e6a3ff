"""Large copies that have ended are deferred: plans skip them, and a thread writes them beside the plans.

In: the lake's entries between two plans. Out: a ``Plan`` of one table, which no row of ``_cuts`` names, that writes a
copy so that its table equals the source at the lake's LSN. Pure.

    plan with copy_end ──▶ deferred: the entry stays as it is ──▶ written up to a cut W, beside the plans
                               └─ every later plan adds the ranges and shapes of the table to its ``copy_from``
    written up to W ──▶ what came behind W is written on it ──▶ a row of the same LSN names it: current

A table that is current when its copy ends is **fed**: plans go on to write to its folder, and readers have its rows.
Its copy is written **aside**, in a folder that no row names, and enters the table's folder before what came behind W is
applied (``apply/copies/copy_entry.py``).

Which records belong where, and why the table is right in the end (I8):

- **All records of the table since its ``copy_begin`` belong to the copy**: copied rows, and changes of the table,
  before its end and after it. ``PendingCopy`` has exactly these, partition by partition, as the plans pass them, and
  the position from which each shape holds. So the records that it has at a cut W, folded into an empty table, are the
  table at W. At which cut after the end that is done, and how often, makes no difference. A build that was killed
  begins again from what ``_cuts`` has by then, and first empties the table.
- **The records that it has got since W come after W**: in each partition their offsets are at or behind the end at W,
  and no record of one cut is in another. There are no copied rows among them, since the copy had ended before W. So
  they are changes of a table that equals the source at W, and are applied as those of any current table, with the
  shapes that the copy has got since.
- **Nothing else writes where the copy is written.** Either its table is not current, so that no plan writes to it
  before a row names it. Or the copy is aside. Then plans apply to the table what they add to the copy, so that both
  equal the source at each published cut, and at which of them one takes the other's place makes no difference.
- **A copy that is aside enters between two plans**, and a row of the lake's LSN names what the table has become. If the
  job is killed before that row, the table's next plan finds commits that are none of its own, and takes them back.
- **What was written is void if the copy is not the same any more**: it began anew after a TRUNCATE or a new
  ``copy_begin``, the table was dropped, or it is in trouble. Then ``continues`` is false. No row of ``_cuts`` has named
  what was written, so nobody has seen it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from walbridge.schemas.control.cut import PartitionId, PartitionRange
from walbridge.schemas.control.table_progress import ARCHIVE, CURRENT
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.plan.pending_copy import PendingCopy
from walbridge.spark_consumer.plan.plan import Plan, TablePlan
from walbridge.spark_consumer.plan.segments.segment import Segment
from walbridge.spark_consumer.plan.segments.table_walk import TableWalk
from walbridge.spark_consumer.plan.table_head import TableHead

DEFERRED_RECORDS_MIN = 200_000
"""A copy with at least this many records is deferred. A plan folds fewer of them in some ten seconds of two cores."""
ASIDE = "_copies"
"""The folder of the lake below which copies of fed tables are written. No schema's folder has a name like it."""


@dataclass(frozen=True, slots=True)
class Written:
    """How far a copy is written: the table's head, and the copy as it was at that cut."""

    head: TableHead
    copy: PendingCopy


def ended_copies(state: LakeState) -> list[int]:
    """Relation ids of the tables whose ended copies are not in the lake yet, the smallest copy first."""
    ended = {key: entry.copy_from for key, entry in state.entries.items() if entry.copy_from is not None}
    records = {key: copy.records for key, copy in ended.items() if copy.has_ended}
    return sorted(records, key=lambda key: (records[key], key))


def is_fed(entry: TableEntry) -> bool:
    """Whether plans write to the table while a copy of it goes on."""
    return entry.version is not None and entry.state in (CURRENT, ARCHIVE)


def is_aside(path: str) -> bool:
    """Whether a folder is one of those in which copies of fed tables are written."""
    return path.startswith(f"{ASIDE}/")


def copy_of(state: LakeState, relation_id: int) -> PendingCopy | None:
    """The table's ended copy that is not in the lake yet; None without one."""
    entry = state.entries.get(relation_id)
    return entry.copy_from if entry is not None and entry.copy_from and entry.copy_from.has_ended else None


def continues(now: PendingCopy | None, written: PendingCopy) -> bool:
    """Whether ``now`` is the copy that was written, extended by later changes of its table."""
    if now is None or (now.topic, now.shapes_at_end) != (written.topic, written.shapes_at_end):
        return False
    there = {part.partition: part for part in now.partitions}
    return now.shapes[: len(written.shapes)] == written.shapes and all(
        part.partition in there
        and there[part.partition].start_offset == part.start_offset
        and there[part.partition].end_offset >= part.end_offset
        and there[part.partition].records >= part.records
        for part in written.partitions
    )


def plan_of_copy(state: LakeState, relation_id: int, metadata_end_offset: int, number: int = 0) -> Plan:
    """The plan that writes all of an ended copy into an empty table, up to the lake's cut.

    Args:
        number: another one each time in one process. Spark remembers the log of a folder that it has written to.
    """
    entry = state.entries[relation_id]
    copy = entry.copy_from
    assert copy is not None
    walk = TableWalk(None, copy.ended() if copy.shapes_at_end is None else copy)
    walk.end()
    ranges = {(part.topic, part.partition): part for part in copy.ranges()}
    base, path = entry.head, entry.path
    if is_fed(entry):
        base, path = None, f"{ASIDE}/{relation_id}-{state.to_cut}-{number}"
    table = TablePlan(relation_id, copy.topic, base, tuple(walk.segments), "current", copy, path, beside=True)
    return _plan(state, table, ranges, metadata_end_offset)


def plan_of_entry(state: LakeState, written: Written, metadata_end_offset: int) -> Plan:
    """The plan by which a copy that was written aside replaces what its table holds. It reads no records."""
    relation_id, schema_id = written.head.relation_id, written.head.schema_id
    entry, segment = state.entries[relation_id], Segment(0, schema_id, None, None, empties=True)
    table = TablePlan(
        relation_id, written.copy.topic, entry.head, (segment,), "current", written.copy, entry.path, beside=True
    )
    return _plan(state, table, {}, metadata_end_offset)


def plan_of_later_changes(state: LakeState, written: Written, metadata_end_offset: int) -> Plan | None:
    """The plan that applies what came after the written part, up to the lake's cut; None where nothing came.

    Call it only where ``continues`` is true of the written copy.
    """
    head, now = written.head, copy_of(state, written.head.relation_id)
    assert now is not None
    ranges = dict(_behind(written.copy, now))
    if not ranges and len(now.shapes) == len(written.copy.shapes):
        return None
    segments = tuple(_segments_behind(written.copy, now))
    table = TablePlan(head.relation_id, head.topic, head, segments, "current", None, head.path, beside=True)
    return _plan(state, table, ranges, metadata_end_offset)


def _behind(written: PendingCopy, now: PendingCopy) -> Iterator[tuple[PartitionId, PartitionRange]]:
    before = {part.partition: part for part in written.partitions}
    for part in now.ranges():
        if (known := before.get(part.partition)) is not None:
            part = replace(part, start_offset=known.end_offset, records=part.records - known.records)
        if part.records:
            yield (part.topic, part.partition), part


def _segments_behind(written: PendingCopy, now: PendingCopy) -> Iterator[Segment]:
    came = now.shapes[len(written.shapes) :]
    ids = [written.schema_id, *(shape.schema_id for shape in came)]
    starts = [None, *(shape.position for shape in came)]
    ends = [*starts[1:], None]
    for index, (schema_id, start, end) in enumerate(zip(ids, starts, ends, strict=True)):
        yield Segment(index, schema_id, start, end)


def _plan(
    state: LakeState, table: TablePlan, ranges: Mapping[PartitionId, PartitionRange], metadata_end_offset: int
) -> Plan:
    assert state.epoch is not None
    return Plan(
        epoch=state.epoch,
        from_cut=state.to_cut,
        to_cut=state.to_cut,
        end_lsn=state.end_lsn,
        commit_time_us=None,
        complete=True,
        metadata_end_offset=metadata_end_offset,
        next_offset=state.next_offset,
        ranges=ranges,
        tables=(table,),
    )
