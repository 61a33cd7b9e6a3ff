"""Where settings name other publications than were followed: the remembered memberships, restated for the new ones.

In: progress, the publications of a session, the catalogue. Out: what the tables were members of, in the words of the
new publications, so that a comparison finds the tables of which something may be missing; tables that left with the old
ones; which of those that a session does not ask for yet are there.
"""

from collections.abc import Callable, Collection, Sequence

from walbridge.producer.guards.baseline import Baseline, followed_names, refuse_lost_publications
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState
from walbridge.producer.postgres.publications.publication import publications_named
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.progress_record import Progress


def beside_others(
    progress: Progress, baseline: Baseline, names: Sequence[str], state: Callable[[Collection[int]], PublicationState]
) -> tuple[Baseline, set[int]]:
    """The baseline, and tables of which nothing comes any more, also if something was written since. Where the session
    before asked for these publications: the baseline as it is, and none.

    Args:
        state: these publications as they are now, with relations.

    Raises:
        OperatorError: one that is named still was lost, or operations of all tables do not come.
    """
    if {*followed_names(progress, names)} == {*names}:
        return baseline, set()
    now = state(progress.relation_ids)
    refuse_lost_publications(progress, names, now)
    beside = baseline.beside(now)
    return beside, beside.dropped(names, now) & {*progress.relation_ids}


def notice_awaited(
    tables: Tables, connection: SqlConnection, now: PublicationState, next_xid: Callable[[], int]
) -> None:
    """One look more at what settings name and this session does not ask for: publications, an origin.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    if names := tables.awaited_publications:
        found = frozenset(publications_named(connection, names).items())
        tables.named_sessions.look(found, now.oldest_xid, now.lsn, next_xid)
    if tables.awaited_origin is not None:
        tables.origin_sessions.look(tables.awaited_origin, now.oldest_xid, now.lsn, next_xid)
