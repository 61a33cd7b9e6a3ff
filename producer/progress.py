"""What a batch adds up to: its cut, the progress after it, and what may then be confirmed.

In: positions, offsets, transaction ends. Out: ``Cut`` and ``Progress`` records, guards at start.
Pure: the pipeline publishes what this returns, and only a returned commit makes it true
(``committed``), so an LSN is never confirmed before Kafka holds everything up to it (I1).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from producer.postgres.facts import ServerIdentity, SlotState
from schemas.cut import Barrier, Cut, PartitionRange, TableChanges
from schemas.errors import OperatorError
from schemas.position import Lsn, format_lsn
from schemas.progress_record import MESSAGE_PREFIXES_OPTION, OWN_OPTIONS, TIMELINE_OPTION, Progress, Split


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
    """Of the last whole transaction."""
    opened_s: float = 0.0
    departed: set[int] = field(default_factory=set)
    """Tables that are followed no more from here on."""
    last_message_lsn: Lsn | None = None
    """Of the last logical message outside of transactions."""
    barriers_max: int = 0
    """The most barriers of one table, counted as they come: it is asked once a row."""

    def table(self, relation_id: int, topic: str) -> TableBatch:
        """The entry of a table, made when first asked for."""
        entry = self.tables.get(relation_id)
        if entry is None:
            entry = self.tables[relation_id] = TableBatch(relation_id, topic)
        return entry

    def add_barrier(self, relation_id: int, topic: str, barrier: Barrier) -> None:
        """A barrier of a table, counted."""
        barriers = self.table(relation_id, topic).barriers
        barriers.append(barrier)
        self.barriers_max = max(self.barriers_max, len(barriers))


class ProgressTracker:
    """The newest progress that Kafka holds, and the end of its cut."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.floor_max: Lsn | None = None
        """What lies beyond must come again after a restart, though it is done: prepared transactions."""

    @property
    def confirmable_lsn(self) -> Lsn:
        """What Postgres may be told (I1)."""
        return self.progress.floor

    @property
    def end_lsn(self) -> Lsn:
        """Of the newest cut."""
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
            relation_ids=tuple(each for each in self.progress.relation_ids if each not in batch.departed),
            last_message_lsn=batch.last_message_lsn or self.progress.last_message_lsn,
            written_at_us=now_us,
        )
        return progress, self._cut(batch, progress, ranges, metadata_end_offset, Lsn(end_lsn), complete)

    def _floor(self, end_lsn: int) -> Lsn:
        """It never goes back: the server forwards a START behind it without a word."""
        wanted = end_lsn if self.floor_max is None else min(end_lsn, self.floor_max)
        return Lsn(max(wanted, self.progress.floor))

    def close_idle(self, wal_end: Lsn, metadata_end_offset: int, now_us: int) -> tuple[Progress, Cut]:
        """A cut without tables, so that an idle slot never pins WAL and the lake's LSN moves on."""
        batch = Batch(end_lsn=wal_end)
        return self.close(batch, (), metadata_end_offset, None, now_us)

    def close_copy(
        self,
        batch: Batch,
        ranges: Iterable[PartitionRange],
        metadata_end_offset: int,
        now_us: int,
        finished: Iterable[int] | None = None,
    ) -> tuple[Progress, Cut]:
        """The same inside a copy: incomplete, until ``finished`` names the relations it holds."""
        progress = replace(self.progress, cut_id=self.progress.cut_id + 1, written_at_us=now_us)
        if finished is not None:
            progress = replace(progress, state="streaming", relation_ids=tuple(finished))
        cut = self._cut(batch, progress, ranges, metadata_end_offset, self.end_lsn, finished is not None)
        return progress, cut

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

    def adopt(self, options: Mapping[str, str]) -> None:
        """Let the next records carry these facts."""
        self.progress = replace(self.progress, options=self.progress.options | dict(options))

    def stream_with(self, options: Mapping[str, str]) -> None:
        """Let the next records name the options of START_REPLICATION that they came with."""
        own = {
            name: value
            for name, value in self.progress.options.items()
            if name.startswith(OWN_OPTIONS) and name != MESSAGE_PREFIXES_OPTION
        }
        self.progress = replace(self.progress, options=own | dict(options))


_TWO_PHASE_CLEARED_SINCE = 180000
_SAME_CHANGES = {"proto_version", "streaming", "two_phase"}
"""Options that change when a transaction is sent, but neither which changes come nor a byte of them."""


def refuse_bad_start(
    progress: Progress, server: ServerIdentity, slot: SlotState | None, options: Mapping[str, str]
) -> None:
    """Compare a streaming progress with the server and its slot (DESIGN §4, guards at start).

    Raises:
        OperatorError: resuming would lose or repeat changes silently.
    """
    _refuse_other_server(progress, server)
    _refuse_bad_slot(progress, server, slot, "two_phase" in options)
    asked = {name for name in {*options, *progress.options} if not name.startswith(OWN_OPTIONS)}
    names = {*asked, MESSAGE_PREFIXES_OPTION} - _SAME_CHANGES
    changed = {name for name in names if options.get(name) != progress.options.get(name)}
    if changed and progress.split is not None:
        raise OperatorError(
            f"{', '.join(sorted(changed))} changed while a transaction is half published",
            remedy="change it back until that transaction is through",
        )


def refuse_bad_copy(progress: Progress, server: ServerIdentity, slot: SlotState | None) -> None:
    """A copy that was not finished begins again and drops its slot: both must be where it began.

    Raises:
        OperatorError: the DSN names another cluster or database, or the slot is another's.
    """
    _refuse_other_database(progress, server)
    if slot is not None:
        _refuse_slot_of_others(slot, server, progress.slot)


_ANEW = "start over with a new copy: give the pipeline a new name and slot, then walbridge init and produce"


def _refuse_other_database(progress: Progress, server: ServerIdentity) -> None:
    if server.system_id != progress.system_id:
        raise OperatorError(
            f"this is another Postgres cluster: system id {server.system_id}, progress is of {progress.system_id}",
            remedy="point [postgres] dsn at the right server, or " + _ANEW,
        )
    if server.database != progress.database:
        raise OperatorError(
            f"progress is of database {progress.database}, [postgres] dsn names {server.database}",
            remedy="mend [postgres] dsn, or " + _ANEW,
        )


def _refuse_other_server(progress: Progress, server: ServerIdentity) -> None:
    _refuse_other_database(progress, server)
    _refuse_other_history(progress, server)
    if progress.done > server.wal_end:
        raise OperatorError(
            f"published up to {format_lsn(progress.done)}, but the server's WAL ends at {format_lsn(server.wal_end)}",
            remedy="an older backup was restored; " + _ANEW,
        )


def _refuse_other_history(progress: Progress, server: ServerIdentity) -> None:
    """A failover is accepted if the new primary has all that was published: the same bytes of WAL."""
    seen = seen_timeline(progress)
    if server.timeline == seen:
        return
    switch = server.switches.get(seen)
    if switch is None:
        raise OperatorError(
            f"the server is on timeline {server.timeline}, which does not come from timeline {seen} that was followed",
            remedy="point [postgres] dsn at the primary that was followed, or at its successor; or " + _ANEW,
        )
    published = max(progress.done, progress.split.commit_lsn if progress.split else 0)
    if published > switch:
        raise OperatorError(
            f"published up to {format_lsn(published)}, but timeline {server.timeline} left timeline {seen} at "
            f"{format_lsn(switch)}: a standby that lagged was promoted, or a backup restored",
            remedy="what was published after that is not in this server; " + _ANEW,
        )


def seen_timeline(progress: Progress) -> int:
    """The server's timeline when it was last accepted; the epoch keeps that of its beginning."""
    return int(progress.options.get(TIMELINE_OPTION, progress.timeline))


def _refuse_bad_slot(progress: Progress, server: ServerIdentity, slot: SlotState | None, two_phase: bool) -> None:
    name = progress.slot
    if slot is None:
        raise OperatorError(f"slot {name} is gone, and with it the changes after {format_lsn(progress.done)}", _ANEW)
    if slot.wal_status == "lost":
        raise OperatorError(f"slot {name} is lost: the server removed WAL that was not read yet", _ANEW)
    _refuse_slot_of_others(slot, server, name)
    _refuse_other_two_phase(progress, server, slot, two_phase)
    # A prepare behind the slot's place does not come again, though what committed after it is done.
    published = progress.floor if two_phase else progress.done
    if slot.confirmed_flush is None or slot.confirmed_flush > published:
        at = "nowhere" if slot.confirmed_flush is None else format_lsn(slot.confirmed_flush)
        raise OperatorError(
            f"slot {name} stands at {at}, beyond what was published ({format_lsn(published)}): a gap",
            remedy="somebody else used or re-created the slot; " + _ANEW,
        )


def _refuse_other_two_phase(progress: Progress, server: ServerIdentity, slot: SlotState, two_phase: bool) -> None:
    """The slot's flag decides what comes, whatever a session asks for, and asking sets it."""
    name = progress.slot
    if slot.two_phase and not two_phase:
        psql = f"psql 'dbname={server.database} replication=database'"
        clear = f"ALTER_REPLICATION_SLOT {name} (TWO_PHASE false) in {psql}"
        raise OperatorError(
            f"slot {name} was made with two_phase, but [postgres] two_phase is false",
            remedy=f"set two_phase = true; or {clear if server.version >= _TWO_PHASE_CLEARED_SINCE else _ANEW}",
        )
    if two_phase and (not slot.two_phase or "two_phase" not in progress.options):
        raise OperatorError(
            f"slot {name} was made without two_phase, but [postgres] two_phase is true: what was prepared before would "
            "be missing",
            remedy="set two_phase = false; or " + _ANEW,
        )


def _refuse_slot_of_others(slot: SlotState, server: ServerIdentity, name: str) -> None:
    if slot.plugin != "pgoutput" or slot.database != server.database:
        raise OperatorError(
            f"slot {name} is of plugin {slot.plugin} in database {slot.database}",
            remedy="name another slot in [postgres] slot",
        )


def refuse_foreign_slot(slot: SlotState | None, name: str) -> None:
    """No progress of ours, yet a slot: somebody else's, or our topics were emptied.

    Raises:
        OperatorError: always, when there is a slot.
    """
    if slot is not None:
        raise OperatorError(
            f"slot {name} exists, but <pipeline>.progress says nothing of it",
            remedy=f"if nobody needs it: SELECT pg_drop_replication_slot('{name}'); "
            "else name another in [postgres] slot",
        )
