"""Tables whose changes still come and are not published, since this pipeline has no whole copy of them.

In: changes. Out: what remains to be published. Two kinds of table are left out:

- A table with a row of which a value is known nowhere (I6). The cut has a ``dropped`` barrier at that position, so the
  lake calls the table stale from there on (I8).
- A table that came after the copy: it was added to the publication, made again under its name, or is back after it
  left. Its earlier rows are not in its topic, and a part of a table is no table.

The table's record of progress says since when and why, in the Kafka transaction of the first cut after the change at
the latest (I7). A change that is left out takes no ordinal, in any replay (I4): a table is followed or left out from
one whole transaction on, or from a position that a split counts up to.
"""

from collections.abc import Callable
from dataclasses import replace

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.errors.rows import UnknownValue
from walbridge.producer.pgoutput.messages import Delete, Insert, Truncate, Update
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.producer.session.transactions.transaction import OpenTransaction
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.table_progress import QUARANTINED, STALE, TableProgress, restarts_each_session
from walbridge.schemas.errors import copy_command
from walbridge.schemas.position import Position

log = structlog.get_logger()

Change = Insert | Update | Delete | Truncate
ADDED = "added after the copy"
MADE_AGAIN = "made again under its name"
CAME_BACK = "back in the publication after it left"


class LeftOutTables:
    """The tables of one session whose changes are left out.

    Attributes:
        on_left_out: told a table that came after the copy, at its first change; None where such tables stay left out.
    """

    def __init__(self, out: OpenBatch, tables: Tables, relations: SessionRelations, followed: FollowedTables) -> None:
        self.on_left_out: Callable[[int], None] | None = None
        self._out = out
        self._tables = tables
        self._relations = relations
        self._followed = followed
        known = out.tracker.progress.tables
        self._left_out = {
            each for each, table in known.items() if table.state in (STALE, QUARANTINED) or restarts_each_session(table)
        }

    def followed_part(self, change: Change, transaction: OpenTransaction) -> Change | None:
        """What is to be published of a change: all of it, or a TRUNCATE of fewer tables; None where nothing is.

        Raises:
            OperatorError: it is of a relation that the stream did not announce.
        """
        if isinstance(change, Truncate):
            ids = change.relation_ids
            rest = tuple(each for each in ids if self._is_published(each, transaction))
            return change if rest == ids else replace(change, relation_ids=rest) if rest else None
        return change if self._is_published(change.relation_id, transaction) else None

    def _is_published(self, relation_id: int, transaction: OpenTransaction) -> bool:
        if relation_id in self._left_out:
            return False
        if relation_id not in self._followed:
            self._leave_out(relation_id, transaction)
            return False
        return True

    def add(self, relation_id: int) -> None:
        """Leave out the table; its record of progress says why."""
        self._left_out.add(relation_id)

    def has(self, relation_id: int) -> bool:
        """Whether the table is left out."""
        return relation_id in self._left_out

    def follow(self, relation_id: int) -> None:
        """The table is followed from here on."""
        self._followed.add(relation_id)
        self._left_out.discard(relation_id)

    def _leave_out(self, relation_id: int, transaction: OpenTransaction) -> None:
        """Leave out a table without a copy, at its first change."""
        self._relations.install_due(relation_id)
        tracker = self._out.tracker
        name, tables = self._tables.writers.name_of_unfollowed(relation_id), tracker.progress.tables
        if relation_id in tables:
            why = CAME_BACK
        else:
            why = MADE_AGAIN if self._tables.versions.had_name(tables, name) else ADDED
        known = tables.get(relation_id, TableProgress(relation_id, STALE))
        since = transaction.begin.final_lsn
        tracker.remember_tables({relation_id: replace(known, state=STALE, name=name, since=since, why=why)})
        self._left_out.add(relation_id)
        if self.on_left_out is not None:
            log.info("table came after the copy: it is copied next", table=name, relation_id=relation_id, reason=why)
            self.on_left_out(relation_id)
            return
        log.warning(
            "table is not published: this pipeline holds no copy of it",
            table=name,
            relation_id=relation_id,
            reason=why,
            remedy=f"to follow it, {copy_command(name)}",
        )

    def drop(self, relation: RelationRecord, position: Position, reason: UnknownValue) -> None:
        """Publish nothing more of this table; the open batch's cut and progress say so."""
        table = relation.table
        self._left_out.add(table.relation_id)
        self._followed.drop(table.relation_id)
        self._out.drop_table(relation, position, STALE, reason.what)
        log.warning(
            "table is followed no more: the lake keeps it as it is, marked stale",
            table=table.qualified_name,
            reason=reason.what,
            remedy=f"to follow it again, {table.identity_full}; then {copy_command(table.qualified_name)}",
        )
