"""A table of the lake between two plans: its version, its shape, and whether it equals the source. Pure."""

from dataclasses import dataclass

from walbridge.schemas.control.table_progress import QUARANTINED, STALE

SUPERSEDED = "superseded"
"""State of a table of an older epoch while the new one is not yet published: it must be copied."""
AWAITING_COPY = frozenset({STALE, QUARANTINED})
"""States of a table that does not equal the source any more, and takes no changes until a copy of it ends; a
quarantined one waits for an operator to ask for that copy."""


@dataclass(frozen=True, slots=True)
class TableHead:
    """A table as the newest finished plan left it.

    ``version`` is the Delta version; ``schema_id`` the shape it has; ``state`` one of
    current, copying, stale, quarantined, superseded; ``since`` the LSN at which the state began.
    """

    relation_id: int
    topic: str
    path: str
    version: int
    schema_id: str
    state: str
    since: int | None = None
