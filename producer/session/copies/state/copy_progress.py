"""How far each copy of this session is, for the log and for metrics.

In: tables that are copied, and their sizes as the reader found them. Out: a line at least every 10 s while a copy goes
on, also where it waits; and the same as values, which another thread may ask for.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from walbridge.producer.copying.copy_share import LINE_S, TableSize, line_of, seconds_left
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.copies.state.whole_copy import WholeCopy
from walbridge.runtime.logs import progress_interval_s
from walbridge.schemas.control.table_progress import TableCopy

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CopyStanding:
    """One copy. ``share``: of the table's rows; ``left_s``: until it is whole. Estimates; None where not known."""

    topic: str
    rows: int
    bytes: int
    share: float | None
    left_s: float | None = None


@dataclass(slots=True)
class _Pace:
    """A copy as it was when it was seen first in this session, and when it was told last."""

    copy: TableCopy
    share: float | None
    seen_s: float
    told_s: float


class CopyProgress:
    """The copies of one session."""

    def __init__(self) -> None:
        self._paces: dict[int, _Pace] = {}
        self.standings: tuple[CopyStanding, ...] = ()
        """As of the last look; replaced as a whole."""

    def look(self, copied: Mapping[int, CopiedTable | WholeCopy]) -> None:
        """Between transactions."""
        if not copied and not self._paces:
            return
        now_s = time.monotonic()
        for relation_id in self._paces.keys() - copied.keys():
            del self._paces[relation_id]
        self.standings = tuple(
            standing for table in copied.values() if (standing := self._look_at(table, now_s)) is not None
        )

    def _look_at(self, table: CopiedTable | WholeCopy, now_s: float) -> CopyStanding | None:
        copy = table.state.copy
        if copy is None or table.writer is None or table.found is None:
            return None
        share = _share(copy, table.found.size)
        relation_id, topic = table.state.relation_id, table.writer.relation.topic
        pace = self._paces.get(relation_id)
        if pace is None or pace.copy.begun_lsn != copy.begun_lsn:
            pace = self._paces[relation_id] = _Pace(copy, share, now_s, now_s)
        left_s = seconds_left(share, pace.share, now_s - pace.seen_s)
        standing = CopyStanding(topic, copy.rows, copy.bytes, share, left_s)
        if now_s - pace.told_s >= progress_interval_s(LINE_S):
            pace.told_s = now_s
            self._log(table, standing, pace, now_s - pace.seen_s)
        return standing

    def _log(self, table: CopiedTable | WholeCopy, copy: CopyStanding, pace: _Pace, seconds: float) -> None:
        assert table.writer is not None
        name, rows_per_s = table.writer.relation.table.qualified_name, (copy.rows - pace.copy.rows) / seconds
        log.info("copy of a table goes on", **line_of(name, copy.rows, copy.bytes, copy.share, rows_per_s, copy.left_s))


def _share(copy: TableCopy, size: TableSize | None) -> float | None:
    return None if size is None else size.share(copy.rows, copy.bytes)
