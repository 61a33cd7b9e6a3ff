"""One table's trouble: why it takes no more changes, while all others go on.

In: an error that concerns one table. Out: the state that the lake gives it. Pure.

The table is as certain as the plan before left it, so its state begins where that plan ended; whatever
was written of the plan that failed is behind the version that ``_cuts`` names, and no reader's. It takes
nothing more until the end of a copy, which needs nothing of what is there (I8).
"""

from dataclasses import dataclass

from walbridge.schemas.control.table_progress import QUARANTINED, STALE
from walbridge.schemas.errors import TableError
from walbridge.schemas.topics import folder_stem

_NEW_FOLDER = "~"
"""It is escaped in names of tables."""


def new_folder(path: str, relation_id: int, cut_id: int) -> str:
    """Where a table is copied to at a cut, when its folder cannot be used any more; nobody else's then."""
    return f"{folder_stem(first_folder(path))}{_NEW_FOLDER}{relation_id}-{cut_id}"


def first_folder(path: str) -> str:
    """The folder that a table had first, of which rows of ``_cuts`` may name versions; its stem if it is long."""
    return path.partition(_NEW_FOLDER)[0]


@dataclass(frozen=True, slots=True)
class TableTrouble:
    """``schema_id``: one that the table has or gets, by which its name is known."""

    relation_id: int
    topic: str
    schema_id: str
    error: TableError

    @property
    def state(self) -> str:
        """Quarantined where a copy would fail likewise."""
        return STALE if self.error.first is None else QUARANTINED

    @property
    def why(self) -> str:
        """As ``_cuts`` keeps it: what happened, and what has to be mended before a copy."""
        return self.error.what if self.error.first is None else f"{self.error.what}; {self.error.first}"

    @property
    def remedy_of_a_stop(self) -> str:
        """What may not be possible comes last: a folder that is gone cannot always be brought back."""
        goes_on = (
            "which leaves this table as it was and goes on with all others, until walbridge copy has copied the table "
            f"of topic {self.topic}"
        )
        setting = 'set [lake] on_table_error = "quarantine"'
        if self.error.first is not None:
            return f"{self.error.first}, then start again; or {setting}, {goes_on}"
        return f"{setting} and start again, {goes_on}; or undo what happened, if that can be, and start again"
