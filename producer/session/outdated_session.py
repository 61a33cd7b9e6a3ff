"""Ends a session whose walsender goes by an older state of the catalogue, or that asks for other publications than it
could by now.

In: the LSNs from which on another session would do better, and how far this one has published. Out: an error that ends
the session once the floor of progress, where the next one begins, is past such an LSN.
"""

from walbridge.producer.relations.tables import Tables
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.position import Lsn


class SessionOutdated(RetryableError):
    """Another session has to begin; no server went away."""


def refuse_outdated(tables: Tables, floor: Lsn) -> None:
    """Called between batches.

    Raises:
        SessionOutdated: another session has to begin, and can begin at this floor.
    """
    if (wanted := tables.partition_sessions.next_session_lsn) is not None and floor >= wanted:
        raise SessionOutdated("the server notices with another session only which partitions came and went")
    if (wanted := tables.publication_sessions.next_session_lsn) is not None and floor >= wanted:
        raise SessionOutdated("the server notices with another session only what is published by now")
    if (wanted := tables.ddl_sessions.next_session_lsn) is not None and floor >= wanted:
        raise SessionOutdated("the source tells DDL to sessions that begin from now on")
    if (wanted := tables.named_sessions.next_session_lsn) is not None and floor >= wanted:
        raise SessionOutdated("the settings name other publications, and a session can ask for them from now on")
    if (wanted := tables.origin_sessions.next_session_lsn) is not None and floor >= wanted:
        raise SessionOutdated("the settings leave out what replication brings, and a session can do so from now on")
