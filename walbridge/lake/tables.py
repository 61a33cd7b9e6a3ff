"""All tables of a lake at one LSN.

In: the lake's path, and an LSN or a time if wanted. Out: the tables of one published row, each opened when it is asked
for. Which row, which version and which refusal are those of ``walbridge.spark_consumer.read``: one meaning for
two engines.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from walbridge.lake.table import LakeTable, unreadable
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.position import format_lsn
from walbridge.spark_consumer.delta.manifest import published as manifest
from walbridge.spark_consumer.delta.manifest.published import At
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.readable_tables import readable_tables


class LakeTables(Mapping[str, LakeTable]):
    """Tables of one published cut by ``schema.table``."""

    def __init__(
        self, lake: str, row: CutRow, entries: Mapping[str, TableEntry], storage_options: Mapping[str, str]
    ) -> None:
        self._lake, self._row, self._entries, self._storage_options = lake, row, entries, storage_options
        self._opened: dict[str, LakeTable] = {}

    @property
    def lsn(self) -> str:
        """Where the cut ends: the tables are what the source held then."""
        return format_lsn(self._row.end_lsn)

    @property
    def commit_time(self) -> datetime | None:
        """When the cut's last transaction was committed; None for a cut without one."""
        return self._row.commit_time

    def __getitem__(self, name: str) -> LakeTable:
        if name not in self._opened:
            self._opened[name] = LakeTable(self._lake, self._entries[name], self._storage_options)
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<{len(self)} lake tables at {self.lsn}>"


def tables_at(
    lake: str,
    at: At = None,
    *,
    tables: Collection[str] | None = None,
    states: Collection[str] = (CURRENT,),
    storage_options: Mapping[str, str] | None = None,
) -> LakeTables:
    """The tables at one published cut, by ``schema.table``.

    Args:
        lake: [lake] path.
        at: the newest cut that ends at or before an LSN (a number or ``16/B374D848``) or a time with its zone (a
            datetime or ISO 8601); None: the newest.
        tables: only these; None: all but those whose first copy goes on.
        states: what is accepted; a table that is stale does not equal the source.
        storage_options: as in [lake].

    Raises:
        OperatorError: nothing published (by then), no such table, or a table in another state.
    """
    with unreadable(f"the lake at {lake}"):
        row = manifest.published_at(lake, at, storage_options=storage_options)
    return LakeTables(lake, row, readable_tables(row, tables, states), storage_options or {})


def published(lake: str, *, storage_options: Mapping[str, str] | None = None) -> list[CutRow]:
    """Every published cut that is kept, oldest first; empty for a lake without one."""
    with unreadable(f"the lake at {lake}"):
        return manifest.published(lake, storage_options=storage_options)
