"""Tables that are followed no more because a value of a row is nowhere (I6); their changes still come.

In: changes, and where a row came in parts. Out: what remains to be published. The cut says
``dropped`` at that position, so the lake calls the table stale from there on (I8); progress names
it, so that no later session takes its changes for those of a table without a copy (I7).
"""

from dataclasses import replace

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.encoding.record import UnknownValue
from walbridge.producer.pgoutput.messages import Delete, Insert, Truncate, Update
from walbridge.schemas.errors import COPY_AGAIN
from walbridge.schemas.metadata_record import RelationRecord
from walbridge.schemas.position import Position
from walbridge.schemas.progress_record import OWN_OPTIONS

log = structlog.get_logger()

DROPPED_OPTION = OWN_OPTIONS + "unfollowed"
"""The option of a progress that holds the ids of these relations, parted by blanks."""
Change = Insert | Update | Delete | Truncate


class DroppedTables:
    """The dropped tables of one session."""

    def __init__(self, out: OpenBatch) -> None:
        self._out = out
        self._relation_ids = set(map(int, out.tracker.progress.options.get(DROPPED_OPTION, "").split()))

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
        self._out.drop_table(relation, position)
        self._out.tracker.remember_options({DROPPED_OPTION: " ".join(map(str, sorted(self._relation_ids)))})
        log.warning(
            "table is followed no more: the lake keeps it as it is, marked stale",
            table=table.qualified_name,
            reason=reason.what,
            remedy=f"to follow it again, {table.identity_full}; then {COPY_AGAIN}",
        )
