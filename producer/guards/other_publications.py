"""Settings that name other publications than were followed before: the baseline is restated for the new ones.

In: progress, the publications of a session, the catalogue. Out: the baseline as if the new publications had been
followed, so that a comparison finds the tables of which changes may be missing; the tables that only the old ones
published; whether the publications exist that no session asks for yet.
"""

from collections.abc import Callable, Collection, Sequence

from walbridge.producer.guards.baseline import Baseline, followed_names, refuse_lost_publications
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState
from walbridge.producer.postgres.publications.publication import publications_named
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.progress_record import Progress


def restated_baseline(
    progress: Progress, baseline: Baseline, names: Sequence[str], state: Callable[[Collection[int]], PublicationState]
) -> tuple[Baseline, set[int]]:
    """The baseline restated for these publications, and the followed tables that they do not publish. If the session
    before asked for the same publications, the baseline is returned as it is, with no tables.

    Args:
        state: returns the state of these publications now, with the memberships of given relations.

    Raises:
        OperatorError: a publication that is still followed was lost, or these publications leave operations out.
    """
    if {*followed_names(progress, names)} == {*names}:
        return baseline, set()
    now = state(progress.relation_ids)
    refuse_lost_publications(progress, names, now)
    restated = baseline.restated_for(now)
    return restated, restated.no_longer_published(names, now) & {*progress.relation_ids}


def look_for_awaited(
    tables: Tables, connection: SqlConnection, now: PublicationState, next_xid: Callable[[], int]
) -> None:
    """Look once more for what settings name and this session does not ask for yet: publications, an origin.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    if names := tables.awaited_publications:
        found = frozenset(publications_named(connection, names).items())
        tables.named_sessions.look(found, now.oldest_xid, now.lsn, next_xid)
    if tables.awaited_origin is not None:
        tables.origin_sessions.look(tables.awaited_origin, now.oldest_xid, now.lsn, next_xid)
