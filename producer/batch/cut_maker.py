"""Ends batches: the cut, the commit, and only then the word to Postgres.

In: the open batch of a session, and how far its server has told of its WAL. Out: a committed Kafka
transaction and a confirmed LSN, in this order (I1). Where nothing is in flight a cut without tables
moves both on, so that an idle slot never pins WAL.
"""

import time
from collections.abc import Callable
from typing import Protocol

import structlog

from producer.batch.open_batch import OpenBatch
from producer.postgres.replication_stream import ReplicationStream
from producer.relations.tables import Tables
from schemas.metadata_record import RelationRecord
from schemas.position import Lsn, Position
from schemas.progress_record import Split
from walbridge_runtime.kill_points import kill_point

log = structlog.get_logger()


class Watch(Protocol):
    """Whether the source still sends what it was asked for (``guards/source_watch.py``)."""

    def look(self) -> None:
        """Look now. Raises OperatorError when changes may be missing."""

    def look_if_due(self) -> None:
        """Look again, if that was a while ago."""

    def departed_by(self, lsn: Lsn) -> set[int]:
        """Tables of which nothing comes after ``lsn``; told once."""


class CutMaker:
    """Of one session.

    Args:
        on_departed: told the relation id of a table that is followed no more.
        held_lsn: from where on nothing may be confirmed, if there is such a place.
    """

    def __init__(
        self,
        idle_interval_ms: int,
        stream: ReplicationStream,
        tables: Tables,
        out: OpenBatch,
        watch: Watch,
        on_departed: Callable[[int], None],
        held_lsn: Callable[[], Lsn | None],
    ) -> None:
        self._idle_interval_ms = idle_interval_ms
        self._stream = stream
        self._tables = tables
        self._out = out
        self._watch = watch
        self._on_departed = on_departed
        self._held_lsn = held_lsn
        self.wal_end = Lsn(0)
        """Up to here the server has decoded everything, and sent what there was."""
        self.last_cut_s = time.monotonic()

    def close(self) -> None:
        """End the open batch, if there is one; the caller is between Postgres transactions."""
        if not self._out.is_open:
            return
        kill_point("produce:before-commit")
        self._bound_floor()
        self._out.close(None)
        self._after_cut()

    def split(self, split: Split) -> None:
        """End the open batch inside a transaction: nothing of it may be confirmed yet."""
        self._out.close(split)
        kill_point("produce:split")
        self.last_cut_s = time.monotonic()
        self._stream.keep_alive()

    def idle_cut(self, *, asked: bool = False) -> None:
        """Nothing is in flight: what the server has decoded, and nothing beyond, is done."""
        due = asked or (time.monotonic() - self.last_cut_s) * 1000 >= self._idle_interval_ms
        if self._out.is_open or not due or self.wal_end <= self._out.tracker.end_lsn:
            return
        if self._out.tracker.progress.split is not None:
            return  # a complete cut would hold half a transaction, and progress would forget how much
        self._watch.look()  # without a publication the stream is silent, and this cut would confirm it
        self._out.open()
        self._out.batch.end_lsn = self.wal_end
        for record in self._tables.newest(self._watch.departed_by(self.wal_end)):
            self._depart(record)
        self._bound_floor()
        self._out.close(None)
        self._after_cut()

    def _bound_floor(self) -> None:
        """What comes again must begin before all that this session holds, and before what it has not seen yet."""
        held = self._held_lsn()
        self._out.tracker.floor_max = self.wal_end if held is None else min(self.wal_end, held)

    def _depart(self, record: RelationRecord) -> None:
        """A table left the publication: what comes of it after this cut is nowhere, and the cut says so."""
        table = record.table
        self._out.depart(record, Position(self.wal_end, 0))
        self._on_departed(table.relation_id)
        self._tables.forget(table.relation_id)
        log.warning(
            "table left the publication, or was dropped: the lake keeps it as it is, marked stale",
            table=table.qualified_name,
            remedy="to follow it again: a new pipeline, which copies it",
        )

    def _after_cut(self) -> None:
        self._watch.look_if_due()
        self.last_cut_s = time.monotonic()
        kill_point("produce:before-confirm")
        self._stream.confirm(self._out.tracker.confirmable_lsn)
        kill_point("produce:confirmed")
