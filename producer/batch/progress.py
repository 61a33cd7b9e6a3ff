"""What a batch adds up to: its cut, the progress after it, and what may then be confirmed.

In: positions, offsets, transaction ends. Out: ``Cut`` and ``Progress``, and the records that make this
progress of what Kafka holds: the slot's, and those of tables that changed.
Pure: ``OpenBatch.commit_batch`` publishes what this returns, and only a returned commit makes it true
(``committed``), so an LSN is never confirmed before Kafka holds everything up to it (I1).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from walbridge.producer.copying.next_epoch import without_beginning
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange, TableChanges
from walbridge.schemas.control.progress_record import (
    DDL_OPTION,
    MESSAGE_PREFIXES_OPTION,
    OWN_OPTIONS,
    Progress,
    Split,
    encode_progress,
    last_commit_option,
)
from walbridge.schemas.control.table_progress import (
    CURRENT,
    FORMAT_VERSION,
    QUARANTINED,
    STALE,
    TableProgress,
    encode_table,
    table_key,
)
from walbridge.schemas.position import Lsn

ALL_TABLES_CUTS = 10_000
"""After so many cuts the records of all tables are written again: a start looks no further back for them, however
long Kafka leaves the topic uncompacted (the newest segment never is)."""


@dataclass(slots=True)
class TableBatch:
    """What the open batch holds of one table."""

    relation_id: int
    topic: str
    schema_ids: list[str] = field(default_factory=list)
    row_count: int = 0
    barriers: list[Barrier] = field(default_factory=list)


@dataclass(slots=True)
class Batch:
    """One Kafka transaction in the making."""

    tables: dict[int, TableBatch] = field(default_factory=dict)
    row_count: int = 0
    byte_count: int = 0
    transactions: int = 0
    commit_lsn: Lsn | None = None
    commit_time_us: int | None = None
    end_lsn: Lsn | None = None
    """End LSN of the last whole transaction in the batch."""
    opened_s: float = 0.0
    dropped: dict[int, TableProgress] = field(default_factory=dict)
    """By relation id, tables that are not followed any more, with their new records of progress."""
    last_message_lsn: Lsn | None = None
    """LSN of the last logical message outside of transactions."""
    boundaries: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Keys and values of what tells where transactions begin and end, in order."""
    barriers_max: int = 0
    """The most barriers of one table, counted as they come: it is asked once a row."""

    def table(self, relation_id: int, topic: str) -> TableBatch:
        """The entry of a table, made when first asked for."""
        entry = self.tables.get(relation_id)
        if entry is None:
            entry = self.tables[relation_id] = TableBatch(relation_id, topic)
        return entry

    def add_boundary(self, record: tuple[bytes, bytes]) -> None:
        """What tells where a transaction begins or ends, counted: batches of small ones hold many of them (I9)."""
        self.boundaries.append(record)
        self.byte_count += len(record[1])

    def add_barrier(self, relation_id: int, topic: str, barrier: Barrier) -> None:
        """A barrier of a table, counted."""
        barriers = self.table(relation_id, topic).barriers
        barriers.append(barrier)
        self.barriers_max = max(self.barriers_max, len(barriers))


_IN_TROUBLE = (STALE, QUARANTINED)
_UNKNOWN = TableProgress(0, CURRENT)


class ProgressTracker:
    """The newest progress that Kafka holds, and the end of its cut."""

    def __init__(self, progress: Progress) -> None:
        self.committed(progress)
        self.floor_max: Lsn | None = None
        """The floor may not pass this LSN: prepared transactions at or beyond it must come again after a restart."""

    @property
    def confirmable_lsn(self) -> Lsn:
        """The LSN that may be confirmed to Postgres (I1)."""
        return self.progress.floor

    @property
    def end_lsn(self) -> Lsn:
        """End LSN of the newest cut."""
        return self.progress.end_lsn

    def close(
        self,
        batch: Batch,
        ranges: Iterable[PartitionRange],
        metadata_end_offset: int,
        split: Split | None,
        now_us: int,
    ) -> tuple[Progress, Cut]:
        """The records that end a batch. A batch that ends inside a transaction ends no LSN."""
        # It may lie beyond end_lsn: a batch that ends inside a transaction may hold whole ones before it.
        done = batch.end_lsn if batch.end_lsn is not None else self.progress.done
        complete = split is None
        end_lsn = max(done, self.end_lsn) if complete else self.end_lsn
        progress = replace(
            self.progress,
            cut_id=self.progress.cut_id + 1,
            end_lsn=Lsn(end_lsn),
            done=Lsn(max(done, self.progress.done)),
            floor=self._floor(end_lsn) if complete else self.progress.floor,
            split=split,
            # The same object where nothing changed: by that ``records`` knows that no table's record is due.
            tables={**self.progress.tables, **batch.dropped} if batch.dropped else self.progress.tables,
            options=self._options(batch) if complete else self.progress.options,
            last_message_lsn=batch.last_message_lsn or self.progress.last_message_lsn,
            written_at_us=now_us,
            format_version=FORMAT_VERSION,
        )
        return progress, self._cut(batch, progress, ranges, metadata_end_offset, Lsn(end_lsn), complete)

    def _options(self, batch: Batch) -> dict[str, str]:
        """With the batch's last transaction, if it has one."""
        if batch.commit_lsn is None or batch.commit_time_us is None:
            return self.progress.options
        return self.progress.options | last_commit_option(batch.commit_lsn, batch.commit_time_us)

    def _floor(self, end_lsn: int) -> Lsn:
        """The new floor. It never decreases: the server silently moves a START_REPLICATION before it forward."""
        wanted = end_lsn if self.floor_max is None else min(end_lsn, self.floor_max)
        return Lsn(max(wanted, self.progress.floor))

    def close_copy(
        self,
        batch: Batch,
        ranges: Iterable[PartitionRange],
        metadata_end_offset: int,
        now_us: int,
        finished: Iterable[int] | None = None,
    ) -> tuple[Progress, Cut]:
        """The records that end a batch inside a first copy: the cut is incomplete until ``finished`` names all tables
        that the copy holds or had to leave."""
        known = {**self.progress.tables, **batch.dropped} if batch.dropped else self.progress.tables
        progress = replace(self.progress, cut_id=self.progress.cut_id + 1, written_at_us=now_us, tables=known)
        if finished is not None:
            # Found in trouble while others were copied: the end of the copy does not mend them.
            left = {each: known[each] for each in finished if each in known and known[each].state in _IN_TROUBLE}
            tables = {each: replace(known.get(each, _UNKNOWN), relation_id=each, state=CURRENT) for each in finished}
            progress = replace(progress, state="streaming", tables=tables | left)
        cut = self._cut(batch, progress, ranges, metadata_end_offset, self.end_lsn, finished is not None)
        return progress, cut

    def begin_epoch(
        self, batch: Batch, ranges: Iterable[PartitionRange], metadata_end_offset: int, now_us: int, at: Lsn
    ) -> tuple[Progress, Cut]:
        """The first cut of an epoch whose tables are copied beside the stream. It is empty."""
        progress = replace(
            without_beginning(self.progress),
            state="streaming",
            consistent_point=at,
            cut_id=1,
            end_lsn=at,
            done=at,
            floor=at,
            written_at_us=now_us,
        )
        cut = self._cut(batch, progress, ranges, metadata_end_offset, at, complete=True)
        return progress, replace(cut, previous_end_lsn=at)

    def _cut(
        self,
        batch: Batch,
        progress: Progress,
        ranges: Iterable[PartitionRange],
        metadata_end_offset: int,
        end_lsn: Lsn,
        complete: bool,
    ) -> Cut:
        tables = tuple(
            TableChanges(t.relation_id, t.topic, tuple(t.schema_ids), t.row_count, tuple(t.barriers))
            for t in batch.tables.values()
        )
        return Cut(
            epoch=progress.epoch,
            cut_id=progress.cut_id,
            previous_end_lsn=self.end_lsn,
            end_lsn=end_lsn,
            commit_lsn=batch.commit_lsn,
            commit_time_us=batch.commit_time_us,
            transactions=batch.transactions,
            complete=complete,
            metadata_end_offset=metadata_end_offset,
            partitions=tuple(ranges),
            tables=tables,
        )

    def committed(self, progress: Progress) -> None:
        """Kafka has committed this record and its cut."""
        self.progress = progress
        # One of format 1 has no record of a table yet: the next commit writes all of them.
        self._written = progress.tables if progress.format_version == FORMAT_VERSION else {}

    def records(self, progress: Progress) -> list[tuple[bytes, bytes | None]]:
        """Keys and values that make this progress of the committed one, in one Kafka transaction; the slot's record
        comes last. None removes a record."""
        written, tables = self._written, progress.tables
        records: list[tuple[bytes, bytes | None]] = []
        is_all = progress.cut_id % ALL_TABLES_CUTS == 0
        if is_all or tables is not written:
            records += [(table_key(progress.slot, each), None) for each in written.keys() - tables.keys()]
            records += [
                (table_key(progress.slot, each), encode_table(table))
                for each, table in tables.items()
                if is_all or written.get(each) != table
            ]
        return [*records, (progress.key, encode_progress(progress))]

    def remember_options(self, options: Mapping[str, str]) -> None:
        """Let the next records carry these facts."""
        self.progress = replace(self.progress, options=self.progress.options | dict(options))

    def remember_tables(self, tables: Mapping[int, TableProgress]) -> None:
        """Let the next records say this of these tables."""
        self.progress = replace(self.progress, tables={**self.progress.tables, **tables})

    def forget_table(self, relation_id: int) -> None:
        """Let the next records say nothing of this table any more."""
        tables = {each: table for each, table in self.progress.tables.items() if each != relation_id}
        self.progress = replace(self.progress, tables=tables)

    def remember_stream_options(self, options: Mapping[str, str]) -> None:
        """Let the next records name the options of START_REPLICATION that they came with."""
        own = {
            name: value
            for name, value in self.progress.options.items()
            if name.startswith(OWN_OPTIONS) and name not in (MESSAGE_PREFIXES_OPTION, DDL_OPTION)
        }
        self.progress = replace(self.progress, options=own | dict(options))
