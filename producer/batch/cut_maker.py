"""Ends batches: the cut, the commit, and only then the LSN is confirmed to Postgres.

In: the open batch of a session, and how far its server has told of its WAL. Out: a committed Kafka
transaction and a confirmed LSN, in this order (I1). Where nothing is in flight a cut without tables
moves both on, so that an idle slot never pins WAL.
"""

import math
import time
from collections.abc import Callable, Sized
from typing import Protocol

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.batch.progress import Batch
from walbridge.producer.pgoutput.messages import Begin, Commit
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.relations.tables import Tables
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.control.progress_record import Split
from walbridge.schemas.control.table_progress import DROPPED
from walbridge.schemas.position import Lsn, Position

log = structlog.get_logger()

WAIT_S = 5.0
"""How long a step of a copy waits at most: a source may truncate tables all the time."""


class News(Protocol):
    """What looks found out about tables (``guards/news/table_news.py``)."""

    def is_renamed_at(self, lsn: Lsn) -> bool:
        """Whether a table has a new name or new columns, with which all changes after ``lsn`` are made."""

    def take_dropped(self, lsn: Lsn) -> set[int]:
        """The tables that left, of which no change comes after ``lsn``. Each is returned once."""


class Watch(Protocol):
    """Whether the source still sends what it was asked for (``guards/source_watch.py``)."""

    def look(self) -> None:
        """Look now. Raises OperatorError when changes may be missing."""

    def look_if_due(self) -> None:
        """Look again, if that was a while ago."""

    def look_before_cut(self) -> None:
        """Look before a cut that ends a batch."""

    def may_be_explained(self, end: Lsn, received: Lsn) -> bool:
        """Whether a message that is still to come may explain a doubt, so that a cut at ``end`` should wait for it."""

    @property
    def doubts(self) -> Sized:
        """Tables that the next cut has to call stale."""

    @property
    def news(self) -> News:
        """What cuts have to say of tables besides."""


class Prepared(Protocol):
    """The prepared transactions that have no end yet (``session/transactions/pending_transactions.py``)."""

    @property
    def oldest_prepared_lsn(self) -> Lsn | None:
        """LSN of the first prepare record without an end, at or beyond which nothing may be confirmed; None where there
        is none."""


class TablesAtCut(Protocol):
    """The session's part in what a cut says of tables (``session/parts.py``)."""

    def before_cut_at(self, lsn: Lsn) -> None:
        """The open batch is about to end at this LSN, outside of transactions: add what its cut has to say of
        tables."""

    def drop(self, relation_id: int) -> None:
        """The open batch's cut says that this table is not followed any more."""


class CutMaker:
    """Ends the batches of one session."""

    def __init__(
        self,
        idle_interval_ms: int,
        stream: ReplicationStream,
        tables: Tables,
        out: OpenBatch,
        watch: Watch,
        prepared: Prepared,
        tables_at_cut: TablesAtCut,
    ) -> None:
        self._idle_interval_ms = idle_interval_ms
        self._stream = stream
        self._tables = tables
        self._out = out
        self._watch = watch
        self._prepared = prepared
        self._tables_at_cut = tables_at_cut
        self._last_end_lsn: Lsn | None = None
        """End LSN of the last whole transaction, even if none of its changes was published."""
        self.last_cut_s = time.monotonic()
        self._waits_since_s = math.inf

    def end_transaction(self, commit: Commit, tell: Callable[[Batch], None] = lambda batch: None) -> None:
        """Note the end of a transaction that was not skipped, and close the batch if it is full.

        Args:
            tell: given the batch that holds its last part.
        """
        self._last_end_lsn = commit.end_lsn
        out = self._out
        if not out.is_open:
            split = out.tracker.progress.split
            if split is None or split.commit_lsn != commit.commit_lsn:
                # Nothing of it was published: the next cut moves the LSN past it.
                return
            # A split came after its last published change: only a complete cut says that all of it is there.
            out.open()
        batch = out.batch
        batch.transactions += 1
        batch.commit_lsn, batch.commit_time_us = commit.commit_lsn, commit.commit_time_us
        batch.end_lsn = commit.end_lsn
        tell(batch)
        if out.is_full:
            self.close(may_wait=True)

    def close(self, *, may_wait: bool = False) -> None:
        """End the open batch, if there is one; the caller is between Postgres transactions.

        Args:
            may_wait: leave the batch open for a moment if the stream may still explain a doubt about a table.
        """
        if not self._out.is_open:
            return
        end_lsn = self._out.batch.end_lsn
        if end_lsn is None or self._look(end_lsn, may_wait=may_wait and self._out.limits.may_wait(self._out.batch)):
            self.close_without_look()

    def close_without_look(self) -> None:
        """End the open batch. The caller has looked at the source since the stream was received up to the batch's
        end."""
        kill_point("produce:before-commit")
        if (end_lsn := self._out.batch.end_lsn) is not None:
            # First: what is said of tables that leave at this LSN goes into this very cut.
            self._add_table_changes(end_lsn)
        self._bound_floor()
        self._out.close(None)
        self._after_cut()

    def prepare_step(self) -> bool:
        """End the open batch and look at the source, so that a step of a copy can be a batch of its own.

        Returns False where the step has to wait for a moment, for the reason given in ``close``.
        """
        now_s = time.monotonic()
        self._waits_since_s = min(self._waits_since_s, now_s)
        may_wait = now_s - self._waits_since_s < WAIT_S
        self.close(may_wait=may_wait)
        if self._out.is_open or not self._look(self._stream.received, may_wait=may_wait):
            return False
        self._waits_since_s = math.inf
        return True

    def _look(self, end: Lsn, *, may_wait: bool) -> bool:
        """Look at the source before a cut at ``end``; False where the cut has to wait instead."""
        if may_wait and self._should_wait(end):
            return False
        self._watch.look_before_cut()
        return not (may_wait and self._should_wait(end))

    def _should_wait(self, end: Lsn) -> bool:
        """Whether a cut at ``end`` has to wait for what may still explain a doubt."""
        return self._watch.may_be_explained(end, self._stream.received)

    def split(self, begin: Begin, split: Split) -> None:
        """End the open batch inside a transaction: nothing of it may be confirmed yet."""
        batch = self._out.batch
        batch.commit_lsn, batch.commit_time_us = begin.final_lsn, begin.commit_time_us
        if batch.end_lsn is None:
            # Unpublished transactions before this one are done too: a resume would refuse their changes.
            batch.end_lsn = self._last_end_lsn
        self._out.close(split)
        kill_point("produce:split")
        self.last_cut_s = time.monotonic()
        # Not confirmed: the transaction comes again from its begin after a restart, so the floor stays before it.
        self._stream.keep_alive()
        self._out.begin_transaction()

    def idle_cut(self, *, is_requested: bool = False) -> None:
        """Commit a cut without rows up to what the server has decoded, if one is due and no batch is open.

        Even if the WAL has not grown the catalogue may show something new, since a commit is in the WAL before the
        catalogue shows it.

        Args:
            is_requested: the server asked for a reply, so do not wait for the interval.
        """
        due = is_requested or (time.monotonic() - self.last_cut_s) * 1000 >= self._idle_interval_ms
        if self._out.is_open or not due:
            return
        received, end_lsn = self._stream.received, self._out.tracker.end_lsn
        if received <= end_lsn:
            self._watch.look_if_due()
            is_told = not self._watch.news.is_renamed_at(received) and not len(self._watch.doubts)
            if is_told or received < end_lsn:  # a session begins with a server that has reported nothing yet
                return
        if self._out.tracker.progress.split is not None:
            return  # a complete cut would hold half a transaction, and progress would forget how much
        self._watch.look()  # without a publication the stream is silent, and this cut would confirm it
        # A TRUNCATE that is on its way may explain what the look found. If none does, the next idle cut tells it.
        if self._should_wait(self._stream.received):
            return
        self._commit_without_rows(self._stream.received)
        self._after_cut()

    def drop_unasked(self) -> None:
        """Before the stream begins: drop the tables that this session's publications do not have, in a cut of its own.

        A cut that ends inside a transaction could not tell it, and the session after that would not find it (I8).
        """
        self._commit_without_rows(self._out.tracker.end_lsn)
        self.last_cut_s = time.monotonic()  # nothing more may be confirmed than before

    def _commit_without_rows(self, end_lsn: Lsn) -> None:
        self._out.open()
        self._out.batch.end_lsn = end_lsn
        self._add_table_changes(end_lsn)
        self._bound_floor()
        self._out.close(None)

    def _bound_floor(self) -> None:
        """Keep the floor at or below the oldest prepared transaction, and at or below what the server has reported."""
        held = self._prepared.oldest_prepared_lsn
        received = self._stream.received
        self._out.tracker.floor_max = received if held is None else min(received, held)

    def _add_table_changes(self, lsn: Lsn) -> None:
        self._drop(lsn)
        self._tables_at_cut.before_cut_at(lsn)

    def _drop(self, lsn: Lsn) -> None:
        """Add a ``dropped`` barrier for each table that left the publication and has no change after ``lsn``.

        All that committed before ``lsn`` is in this cut or an earlier one, so no event of these tables follows the
        barrier, and none is in a transaction that is open now.
        """
        for record in self._tables.versions.newest(self._watch.news.take_dropped(lsn)):
            table = record.table
            self._out.drop_table(record, Position(lsn, 0), DROPPED)
            self._tables_at_cut.drop(table.relation_id)
            self._tables.writers.forget(table.relation_id)
            log.warning(
                "table left the publication, or was dropped: the lake keeps it as it is, marked stale",
                table=table.qualified_name,
                remedy="to follow it again, add it to the publication: it is copied then; else walbridge forget "
                + table.qualified_name,
            )

    def _after_cut(self) -> None:
        self.last_cut_s = time.monotonic()
        kill_point("produce:before-confirm")
        # Only here, after Kafka's commit: Postgres removes the WAL before it, and nobody could ask for it again (I1).
        self._stream.confirm(self._out.tracker.confirmable_lsn)
        kill_point("produce:confirmed")
