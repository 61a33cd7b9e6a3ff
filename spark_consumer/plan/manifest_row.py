"""Rows of the manifest ``<lake>/_cuts`` as values. Pure.

A row is atomic because it is one commit to one table; a published row names one version per table,
and versions never change: so a reader sees all tables at one LSN (I8). ``delta/manifest/manifest_reader.py``
reads rows, ``delta/manifest/writer.py`` writes them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from walbridge.schemas.control.cut import Epoch
from walbridge.schemas.control.table_progress import ARCHIVE, CURRENT, DROPPED
from walbridge.schemas.position import parse_lsn
from walbridge.spark_consumer.plan.pending_copy import PendingCopy
from walbridge.spark_consumer.plan.table_head import TableHead

KINDS = ("plan", "applied", "published")


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One table in a row. ``version`` is None for a table that does not exist yet.

    ``copy_from``: its pending copy, in whatever state the table is meanwhile. ``path`` is then the folder into which
    the copy is written, also while the table has no version.
    """

    relation_id: int
    namespace: str
    name: str
    topic: str
    path: str
    version: int | None
    schema_id: str
    state: str
    since: int | None = None
    copy_from: PendingCopy | None = None
    why: str | None = None
    """The reason, where trouble with this table alone brought it into its state."""

    @property
    def qualified_name(self) -> str:
        """``schema.table``."""
        return f"{self.namespace}.{self.name}"

    @property
    def is_dropped(self) -> bool:
        """Whether it is no table any more: only its folder waits to be deleted (``dropped_tables.py``)."""
        return self.state == DROPPED

    @property
    def is_live(self) -> bool:
        """Whether the table goes on, as far as the lake can tell; one in trouble keeps its name."""
        return self.state in (CURRENT, ARCHIVE, "copying") or self.copy_from is not None or self.why is not None

    @property
    def head(self) -> TableHead | None:
        """The table as a plan starts from it; None where it does not exist yet."""
        if self.version is None:
            return None
        state = CURRENT if self.state == ARCHIVE else self.state
        return TableHead(self.relation_id, self.topic, self.path, self.version, self.schema_id, state, self.since)


@dataclass(frozen=True, slots=True)
class CutRow:
    """One row. ``kind``: one of ``KINDS``; ``next_offset``: where to read cuts on from."""

    sequence: int
    kind: str
    pipeline: str
    epoch: str
    from_cut: int
    to_cut: int
    next_offset: int
    end_lsn: int
    commit_time: datetime | None
    written_at: datetime
    tables: tuple[TableEntry, ...]


def by_name(tables: Iterable[TableEntry]) -> dict[str, TableEntry]:
    """Tables of one row by ``schema.table``.

    Two may have one name: a table that was dropped keeps its last one, and one that was renamed may have its old one
    until the catalogue is asked. The one that goes on has it; of two of these the one that got it last.
    """
    found: dict[str, TableEntry] = {}
    for entry in tables:
        if entry.is_dropped:
            continue
        other = found.get(entry.qualified_name)
        if other is None or entry.is_live or not other.is_live:
            found[entry.qualified_name] = entry
    return found


def parse_epoch(text: str) -> Epoch:
    """The inverse of ``str(epoch)``: no part but the slot is free text, and slots hold no dash.

    Raises:
        ProtocolError, ValueError: it is none.
    """
    system_id, timeline, slot, consistent_point = text.split("-")
    return Epoch(system_id, int(timeline), slot, parse_lsn(consistent_point))
