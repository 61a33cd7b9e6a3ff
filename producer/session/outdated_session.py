"""Ends a session whose server still decodes with the catalogue of its beginning, where that would be wrong.

In: what the tables of a session noticed, and how far it has published. Out: an error that ends the session; the next
one begins at the floor of its progress, and sees things as they are.
"""

from walbridge.producer.relations.tables import Tables
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.position import Lsn


def refuse_outdated(tables: Tables, floor: Lsn) -> None:
    """Asked between batches.

    Raises:
        RetryableError: with another session the server tells more.
    """
    if (behind := tables.partition_sessions.behind) is not None and floor >= behind:
        raise RetryableError("the server notices with another session only which partitions came and went")
    if (behind := tables.publication_sessions.behind) is not None and floor >= behind:
        raise RetryableError("the server notices with another session only what is published by now")
    if (behind := tables.ddl_sessions.behind) is not None and floor >= behind:
        raise RetryableError("the source tells DDL to sessions that begin from now on")
    if (behind := tables.named_sessions.behind) is not None and floor >= behind:
        raise RetryableError("the settings name other publications, and a session can ask for them from now on")
    if (behind := tables.origin_sessions.behind) is not None and floor >= behind:
        raise RetryableError("the settings leave out what replication brings, and a session can do so from now on")
