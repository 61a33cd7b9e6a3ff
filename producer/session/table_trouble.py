"""One table's trouble is its own: its changes are left out from a position on, and it is copied again.

In: what speaks against a table that is followed, from a look at the source or from the stream. Out: its ``dropped``
barrier and its record of progress, both in the cut that the position is in: the lake calls the table stale from there
on (I8), and nothing of it is published before its next copy begins. All others flow.

    current, copying ──▶ stale ──▶ copied again
                    └──▶ quarantined: where no copy mends it, or settings say so, or it comes back too often
"""

import time
from collections.abc import Iterable
from dataclasses import replace

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.copying.troubles import after_trouble, is_copied_too_often
from walbridge.producer.errors.tables import TableRewritten
from walbridge.producer.errors.topics import TopicLost
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.announced_tables import AnnouncedTables
from walbridge.producer.session.copies.table_copies import TableCopies
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.producer.session.left_out_tables import LeftOutTables
from walbridge.producer.session.transactions.transaction import OpenTransaction
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.table_progress import GIVEN_UP, QUARANTINED, TableProgress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.settings_sections import Producer

log = structlog.get_logger()


class TableTrouble:
    """The troubles of one session.

    Attributes:
        copies: None where no table is copied beside the stream: then what would be copied waits for the next session.
    """

    def __init__(
        self,
        limits: Producer,
        out: OpenBatch,
        tables: Tables,
        watch: SourceWatch,
        followed: FollowedTables,
        left_out: LeftOutTables,
        announced: AnnouncedTables,
    ) -> None:
        self.copies: TableCopies | None = None
        self._policy = limits.on_table_error
        self._out, self._tables, self._watch = out, tables, watch
        self._followed, self._left_out, self.announced = followed, left_out, announced

    def leave_if_in_doubt(self, relation_id: int, transaction: OpenTransaction) -> bool:
        """Called before a change of a followed table is published. If the table was announced since its last change, it
        is looked at, and left if it is in doubt. Returns whether it was left."""
        if not self.announced.take_announced(relation_id):
            return False
        reason: OperatorError | None = self.announced.take_refusal(relation_id)
        if reason is None:
            self._watch.look_at(relation_id, transaction.begin.xid)
            reason = self._watch.doubts.take_of(relation_id)
        for record in self._tables.versions.newest([relation_id]) if reason is not None else []:
            assert reason is not None
            self.leave(record, transaction.position, reason)
            return True
        return False

    def note_truncate(self, relation_ids: Iterable[int], transaction: OpenTransaction) -> None:
        """The stream brings a TRUNCATE of these tables."""
        self.announced.note_truncate()
        self._watch.stream_facts.note_truncate(relation_ids, transaction.begin.xid)

    def note_change(self, relation_id: int, transaction: OpenTransaction) -> None:
        """The stream brings a change of this table. It must be called for the first change after a TRUNCATE."""
        self._watch.stream_facts.note_change(relation_id, transaction.begin.xid)

    def before_cut_at(self, lsn: Lsn) -> None:
        """The open batch is about to end at ``lsn``: leave the tables that are in doubt there.

        All that committed before ``lsn`` is in this cut or an earlier one, so no event of these tables follows their
        barrier.
        """
        self._watch.storage.pass_to(lsn)
        for relation_id, reason in self._watch.doubts.take(lsn).items():
            self._leave_at(relation_id, Position(lsn, 0), reason)

    def before_split_at(self, position: Position) -> None:
        """The open batch is about to end inside a transaction: leave the tables whose rows hold unknown labels, since a
        restart would not read these rows again."""
        self._watch.storage.look_up_labels()
        for relation_id, reason in self._watch.doubts.take_mislabelled().items():
            self._leave_at(relation_id, position, reason)

    def _leave_at(self, relation_id: int, position: Position, reason: OperatorError) -> None:
        if relation_id in self._followed and relation_id not in self._out.batch.dropped:
            for record in self._tables.versions.newest([relation_id]):
                self.leave(record, position, reason)

    def drop(self, relation_id: int) -> None:
        """The table left the publication or was dropped, and the open batch's cut says so."""
        self._followed.drop(relation_id)
        if relation_id in self._watch.news.missing_in_catalogue:
            self._left_out.add(relation_id)  # its last changes may still come
        if self.copies is not None:
            self.copies.forget(relation_id)

    def leave(
        self, relation: RelationRecord, position: Position, reason: OperatorError, *, is_mended_by_copy: bool = True
    ) -> None:
        """Publish nothing more of this table until it is copied again.

        Raises:
            OperatorError: settings say that this stops all.
        """
        if self._policy == "stop":
            raise reason
        table = relation.table
        relation_id, name = table.relation_id, table.qualified_name
        known = self._out.tracker.progress.tables.get(relation_id, TableProgress(relation_id, "", relation.topic))
        # A copy of an archive would take away what its source has no more: an operator has to ask for that.
        may_copy = is_mended_by_copy and self._policy == "copy" and not table.is_archive
        after = after_trouble(
            known,
            name,
            position.commit_lsn,
            reason.what,
            may_copy=may_copy,
            now_s=time.time(),
            counts=not isinstance(reason, TableRewritten),
        )
        # Its copy may not go into the topic of that name again, whosever that is by then.
        if isinstance(reason, TopicLost):
            after = replace(after, topic=relation.topic, topic_id=GIVEN_UP)
        self._out.leave_table(relation, position, after)
        self._followed.drop(relation_id)
        self._left_out.add(relation_id)
        self._tables.writers.forget(relation_id)
        if self.copies is not None:
            self.copies.forget(relation_id)
        if after.state == QUARANTINED:
            often = ": it was copied again too often" if may_copy and is_copied_too_often(after.troubles) else ""
            log.warning(f"table is quarantined{often}", table=name, reason=reason.what, remedy=reason.remedy)
            return
        log.warning("table is stale, and is copied again", table=name, reason=reason.what)
        if self.copies is not None:
            self.copies.notice(relation_id)
