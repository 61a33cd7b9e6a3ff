"""What looks at the source have found out about tables, until the stream is where it holds.

In: tables that came, left, or are called or built otherwise than the stream said last. Out: each of them once, from the
LSN on after which no earlier change of it can come.
"""

from collections.abc import Collection

from walbridge.producer.guards.news.altered_tables import AlteredTable, AlteredTables
from walbridge.producer.guards.news.leaving_tables import LeavingTables
from walbridge.producer.guards.news.new_names import NewNames
from walbridge.producer.relations.table_names import Name
from walbridge.schemas.position import Lsn


class TableNews:
    """The news of one session; looks fill the parts."""

    def __init__(self, altered: AlteredTables) -> None:
        self.altered, self.leaving, self.names = altered, LeavingTables(), NewNames()
        self.missing_in_catalogue: set[int] = set()
        """Tables that the catalogue does not have any more."""
        self.appeared: set[int] = set()
        """Relations of the publication that progress does not know, or knows as dropped; their partitions as well."""

    def note_missing(self, relation_ids: Collection[int]) -> None:
        """The catalogue lacks these tables. They leave with the next cut, even if changes of them are still to come:
        they may have been altered before they were dropped, and nobody can say any more how (I8)."""
        self.missing_in_catalogue |= set(relation_ids)
        self.leaving.leave_with_next_cut(relation_ids)

    def is_renamed_at(self, lsn: Lsn) -> bool:
        """Whether ``take_renamed`` or ``take_altered`` returns something."""
        return self.altered.is_due_at(lsn) or self.names.is_due_at(lsn)

    def take_renamed(self, lsn: Lsn) -> dict[int, Name]:
        """The new names of tables of which no change after ``lsn`` has an earlier name. Each is returned once."""
        return self.names.take(lsn)

    def take_altered(self, lsn: Lsn) -> dict[int, AlteredTable]:
        """The altered tables of which no change after ``lsn`` has the earlier columns. Each is returned once a look."""
        return self.altered.take(lsn)

    def take_dropped(self, lsn: Lsn) -> set[int]:
        """Tables of which nothing comes after ``lsn``. Each is returned only once."""
        return self.leaving.take(lsn)

    def take_appeared(self) -> set[int]:
        """Relations that came to the publication. Each is returned once a look."""
        appeared, self.appeared = self.appeared, set()
        return appeared
