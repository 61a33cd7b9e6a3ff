"""What a lake holds between two plans, all of it from the newest finished row of ``_cuts``. Pure.

In: rows of the manifest, and the outcome of plans. Out: the table versions that the next plan starts from,
the cut that its first cut must follow, and the rows to append. Nothing else is remembered, so a
restart goes on at the last row (I5).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from walbridge.schemas.control.cut import Cut, Epoch
from walbridge.schemas.control.table_progress import QUARANTINED, STALE
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position
from walbridge.schemas.topics import free_path, table_path
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry, parse_epoch
from walbridge.spark_consumer.plan.next_entries import (
    Relations,
    applied_entry,
    copying_entry,
    entry_in_trouble,
    former_and_others,
    planned_entry,
    without_copy,
)
from walbridge.spark_consumer.plan.pending_copy import PendingCopy, begins_without_copy
from walbridge.spark_consumer.plan.plan import SUPERSEDED, Plan, TableHead
from walbridge.spark_consumer.plan.table_head import AWAITING_COPY
from walbridge.spark_consumer.plan.table_trouble import TableTrouble, first_folder

_BEGINNING = Position(Lsn(0), COPIED_ORDINAL)


@dataclass(frozen=True)
class LakeState:
    """``entries``: every table by relation id; ``epoch`` is None in an empty lake."""

    pipeline: str
    sequence: int = 0
    epoch: Epoch | None = None
    to_cut: int = 0
    end_lsn: int = 0
    next_offset: int = 0
    entries: Mapping[int, TableEntry] = field(default_factory=dict)
    is_published: bool = False
    """Whether the newest row is a published one, so that readers see all that the tables hold."""
    committed_at: datetime | None = field(default=None, compare=False)
    """When the source was in the state that the newest row names."""
    idle: CutRow | None = None
    """The row that would publish the cuts since the newest row, where they changed nothing."""

    @classmethod
    def after(cls, pipeline: str, row: CutRow | None) -> "LakeState":
        """The state that an applied or published row describes; None: that of an empty lake."""
        if row is None:
            return cls(pipeline)
        entries = {entry.relation_id: entry for entry in row.tables}
        return cls(
            pipeline,
            row.sequence,
            parse_epoch(row.epoch),
            row.to_cut,
            row.end_lsn,
            row.next_offset,
            entries,
            is_published=row.kind == "published",
            committed_at=row.commit_time or row.written_at,
        )

    @property
    def last_cut(self) -> Cut | None:
        """The last applied cut, with those fields that are compared with the next one."""
        if self.epoch is None:
            return None
        return Cut(self.epoch, self.to_cut, self.end_lsn, self.end_lsn, None, None, 0, True, 0)

    def in_epoch_of(self, cut: Cut) -> "LakeState":
        """The state in the epoch of the cut that follows. Where an epoch begins without a first copy, every table keeps
        its rows and becomes stale: it is copied later, beside the stream."""
        if self.epoch in (None, cut.epoch) or not begins_without_copy(cut):
            return self
        return replace(
            self,
            epoch=cut.epoch,
            to_cut=0,
            end_lsn=cut.previous_end_lsn,
            entries={entry.relation_id: entry for entry in self._entries_in_new_epoch(cut.epoch)},
            is_published=False,
            idle=None,
        )

    def _entries_in_new_epoch(self, epoch: Epoch) -> Iterator[TableEntry]:
        """Every table but those with half a first copy, which is no state of the source. On another cluster relation
        ids mean other tables: each entry gets an id that no table has, until the table with its topic is copied."""
        whole = [each for each in self.entries.values() if each.state != "copying" or each.copy_from is not None]
        kept = [each for each in whole if each.version is not None or each.why is not None]
        dropped = [each for each in self.entries.values() if each.is_dropped]
        is_same = self.epoch is not None and epoch.system_id == self.epoch.system_id
        for number, entry in enumerate(kept, 1):
            since = entry.since if entry.state in (*AWAITING_COPY, SUPERSEDED) else self.end_lsn
            state = QUARANTINED if entry.state == QUARANTINED else STALE
            relation_id = entry.relation_id if is_same else -number
            yield replace(entry, relation_id=relation_id, state=state, since=since, copy_from=None)
        for number, entry in enumerate(dropped, len(kept) + 1):
            yield entry if is_same else replace(entry, relation_id=-number)

    def heads(self, epoch: Epoch) -> dict[int, TableHead]:
        """The tables that a plan of this epoch starts from; those of an older epoch are superseded."""
        heads = ((relation_id, entry.head) for relation_id, entry in self._entries_in(epoch).items())
        return {relation_id: head for relation_id, head in heads if head is not None}

    def copies(self, epoch: Epoch) -> dict[int, PendingCopy]:
        """The pending copies. None of them outlives its epoch."""
        found = ((relation_id, entry.copy_from) for relation_id, entry in self._entries_in(epoch).items())
        return {relation_id: copy for relation_id, copy in found if copy is not None}

    def awaiting_copy(self, epoch: Epoch) -> frozenset[int]:
        """Relations whose tables take no changes until a copy of them ends."""
        return frozenset(key for key, entry in self._entries_in(epoch).items() if entry.state in AWAITING_COPY)

    def with_folders(self, plan: Plan, relations: Relations) -> Plan:
        """The plan with a folder for each table that the lake does not have yet: that of its name, if it is free.

        A folder is its table's for life, whatever the table is called. A table that is copied into another topic gets
        its own folder again, unless another one is to have it.
        """
        taken = {table.base.path for table in plan.tables if table.base is not None}
        tables = []
        for table in plan.tables:
            if table.base is None:
                known = relations[table.segments[-1].schema_id].table
                path = self._own_folder(table.relation_id)
                path = path or _folder(known.namespace, known.name, taken | self._folders_but(table.relation_id))
                taken.add(path)
                table = replace(table, path=path)
            tables.append(table)
        return replace(plan, tables=tuple(tables))

    def _own_folder(self, relation_id: int) -> str:
        """The folder that was chosen for a table without a version yet; empty without one."""
        entry = self.entries.get(relation_id)
        return entry.path if entry is not None and entry.version is None else ""

    def _folders_but(self, relation_id: int) -> set[str]:
        return {entry.path for key, entry in self.entries.items() if key != relation_id}

    def planned_row(self, plan: Plan, relations: Relations) -> CutRow:
        """The row to append before the plan writes to a table: its tables, with their base versions."""
        tables = [planned_entry(table, relations) for table in plan.tables]
        return self._row(1, "plan", plan, tables)

    def applied_row(
        self, plan: Plan, heads: Sequence[TableHead], relations: Relations, troubles: Sequence[TableTrouble] = ()
    ) -> CutRow:
        """The row to append after all tables of the plan are done: published, if the lake now
        equals the source at the plan's end in all tables that are current (I8), else applied.

        Args:
            troubles: of the tables that could not be applied.
        """
        entries = self._entries_after(plan, heads, [*plan.troubles, *troubles], relations)
        # The first copy of earlier versions ends its cuts inside of it; a copy beside the stream holds up nobody.
        copying = any(entry.state == "copying" and entry.copy_from is None for entry in entries.values())
        kind = "published" if plan.complete and not copying else "applied"
        # From the first published cut on, a table of an old epoch that was not copied again is named no more.
        left = [entry for entry in entries.values() if kind == "applied" or entry.state != SUPERSEDED]
        # The plan's own row stands between, unless it touched nothing and needed none.
        return self._row(2 if plan.tables else 1, kind, plan, left)

    def is_idle(self, row: CutRow) -> bool:
        """Whether a published row has the same tables as the newest one, and only a later LSN."""
        return self.is_published and row.epoch == str(self.epoch) and {*row.tables} == {*self.entries.values()}

    def after_empty_plan(self, plan: Plan, relations: Relations, idle: CutRow | None = None) -> "LakeState":
        """The state after a plan that writes to no table, whose row is not appended now.

        ``idle``: the row that would publish its cuts, and would tell readers nothing but a later LSN.
        """
        entries = self._entries_after(plan, [], plan.troubles, relations)
        return replace(
            self,
            epoch=plan.epoch,
            to_cut=plan.to_cut,
            end_lsn=plan.end_lsn,
            next_offset=plan.next_offset,
            entries=entries,
            is_published=self.is_published and entries == self.entries and plan.epoch == self.epoch,
            idle=idle or self.idle,
        )

    def row_with_copy(self, head: TableHead, relations: Relations) -> CutRow:
        """The row that makes a table current whose copy was written beside the plans, up to the lake's LSN."""
        entry = applied_entry(head, self.entries[head.relation_id], self.end_lsn, relations)
        return self.row_at_same_lsn({**self.entries, head.relation_id: entry})

    def row_with_trouble(self, trouble: TableTrouble, relations: Relations) -> CutRow:
        """The row that puts a table in trouble whose copy cannot be written."""
        before, certain = self.entries[trouble.relation_id], max(self.end_lsn, self._begins)
        entry = replace(entry_in_trouble(trouble, before, certain, relations), copy_from=None)
        return self.row_at_same_lsn({**self.entries, trouble.relation_id: entry})

    @property
    def _begins(self) -> int:
        return 0 if self.epoch is None else self.epoch.consistent_point

    def row_at_same_lsn(self, entries: Mapping[int, TableEntry]) -> CutRow:
        """The row for the same LSN with other entries, published if the newest row is."""
        return CutRow(
            sequence=self.sequence + 1,
            kind="published" if self.is_published else "applied",
            pipeline=self.pipeline,
            epoch=str(self.epoch),
            from_cut=self.to_cut,
            to_cut=self.to_cut,
            next_offset=self.next_offset,
            end_lsn=self.end_lsn,
            commit_time=self.idle.commit_time if self.idle else self.committed_at,
            written_at=datetime.now(UTC),
            tables=tuple(entries.values()),
        )

    def _entries_in(self, epoch: Epoch) -> dict[int, TableEntry]:
        if epoch == self.epoch:
            return dict(self.entries)
        return {
            key: entry if entry.is_dropped else replace(entry, state=SUPERSEDED, since=self.end_lsn, copy_from=None)
            for key, entry in self.entries.items()
            if entry.version is not None or entry.is_dropped
        }

    def _entries_after(
        self, plan: Plan, heads: Sequence[TableHead], troubles: Sequence[TableTrouble], relations: Relations
    ) -> dict[int, TableEntry]:
        """The entries by relation id. Of two tables with one name, that which got it last comes later (``by_name``)."""
        entries = self._entries_in(plan.epoch)
        begun = {table.relation_id: table.segments[-1].start or _BEGINNING for table in plan.tables}
        for head in sorted(heads, key=lambda head: begun.get(head.relation_id, _BEGINNING)):
            before = entries.get(head.relation_id)
            # A table that was made again has the folder and the topic of the one before it, and its own number.
            entries = {key: e for key, e in entries.items() if e.path != head.path and e.topic != head.topic}
            entries[head.relation_id] = applied_entry(head, before, plan.end_lsn, relations)
        for relation_id, copy in plan.copies.items():
            before, entries = former_and_others(entries, relation_id, copy.topic)
            entry = copying_entry(relation_id, copy, before, relations)
            if copy.has_ended and not entry.path:
                # Nobody else gets the folder while the copy is written in it.
                entry = replace(entry, path=_folder(entry.namespace, entry.name, {e.path for e in entries.values()}))
            entries[relation_id] = entry
        # A table in trouble has nothing of this plan: it is right up to where the plan before it ended.
        certain = max(self.end_lsn, plan.epoch.consistent_point)
        for trouble in troubles:
            before, others = former_and_others(entries, trouble.relation_id, trouble.topic)
            # In its own place: it has not got its name anew.
            entries = {key: e for key, e in entries.items() if key in others or key == trouble.relation_id}
            goes_on = plan.copies.get(trouble.relation_id)
            entries[trouble.relation_id] = replace(
                entry_in_trouble(trouble, before, certain, relations), copy_from=goes_on
            )
        over = (without_copy(entry, plan.end_lsn) for key, entry in entries.items() if key not in plan.copies)
        going_on = (entries[relation_id] for relation_id in plan.copies)
        return {entry.relation_id: entry for entry in [*over, *going_on] if entry is not None}

    def _row(self, steps: int, kind: str, plan: Plan, tables: Iterable[TableEntry]) -> CutRow:
        return CutRow(
            sequence=self.sequence + steps,
            kind=kind,
            pipeline=self.pipeline,
            epoch=str(plan.epoch),
            from_cut=plan.from_cut,
            to_cut=plan.to_cut,
            next_offset=plan.next_offset,
            end_lsn=plan.end_lsn,
            commit_time=_time(plan.commit_time_us),
            written_at=datetime.now(UTC),
            tables=tuple(tables),
        )


def same_tables(row: CutRow, plan: Plan) -> bool:
    """Whether a plan made again is the one that the row opened: same tables, same bases."""
    opened = {(entry.relation_id, entry.version) for entry in row.tables}
    return opened == {(table.relation_id, table.base.version if table.base else None) for table in plan.tables}


def _folder(namespace: str, name: str, taken: Collection[str]) -> str:
    """A folder for a table of that name that no other table has."""
    return free_path(table_path(namespace, name), {*taken, *map(first_folder, taken)})


def _time(microseconds: int | None) -> datetime | None:
    if microseconds is None:
        return None
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)
