"""Tables that are followed no more because a value of a row is nowhere (I6); their changes still come.

In: changes, and where a row came in parts. Out: what remains to be published. The cut says
``dropped`` at that position, so the lake calls the table stale from there on (I8); the table's record of
progress says so too, so that no later session takes its changes for those of a table without a copy (I7).
"""

from dataclasses import replace

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.encoding.record import UnknownValue
from walbridge.producer.pgoutput.messages import Delete, Insert, Truncate, Update
from walbridge.schemas.errors import COPY_AGAIN
from walbridge.schemas.metadata_record import RelationRecord
from walbridge.schemas.position import Position
from walbridge.schemas.table_progress import STALE

log = structlog.get_logger()

Change = Insert | Update | Delete | Truncate


class DroppedTables:
    """The dropped tables of one session."""

    def __init__(self, out: OpenBatch) -> None:
        self._out = out
        tables = out.tracker.progress.tables
        self._relation_ids = {relation_id for relation_id, table in tables.items() if table.state == STALE}

    def rest_of(self, change: Change) -> Change | None:
        """What is to be published of a change."""
        if not self._relation_ids:
            return change
        if isinstance(change, Truncate):
            left = tuple(each for each in change.relation_ids if each not in self._relation_ids)
            return replace(change, relation_ids=left) if left else None
        return None if change.relation_id in self._relation_ids else change

    def drop(self, relation: RelationRecord, position: Position, reason: UnknownValue) -> None:
        """Nothing of this table is published from here on; the open batch's cut and progress say so."""
        table = relation.table
        self._relation_ids.add(table.relation_id)
        self._out.drop_table(relation, position, STALE, reason.what)
        log.warning(
            "table is followed no more: the lake keeps it as it is, marked stale",
            table=table.qualified_name,
            reason=reason.what,
            remedy=f"to follow it again, {table.identity_full}; then {COPY_AGAIN}",
        )
