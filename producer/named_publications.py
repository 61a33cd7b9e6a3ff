"""Which publications a session asks for, where the settings name others than the session before asked for.

In: settings, progress, the publications that are there. Out: the settings of this session. It asks for those of before
as long as a transaction is half published, whose rows they tell; and until all who were writing have ended that began
before the new ones were seen. What is older may have been written while the new ones were not there, or did not go
together, and a change is decoded as of when it was made: before Postgres 18 such a session ends where one is missing,
and on each where two publish other columns of a table. From 18 on a missing one is left out: where those of before are
gone, the new ones are asked for at once, and every table that may lack something is copied again anyway.
"""

from collections.abc import Sequence

import structlog

from walbridge.producer.errors.publications import publication_gone, publication_missing
from walbridge.producer.guards.baseline import Baseline, followed_names, refuse_lost_publications
from walbridge.producer.guards.unfit.publication_faults import refuse_other_columns
from walbridge.producer.postgres.catalog import published_tables_unless_locked
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.publications.publication import publication_state, publications_named
from walbridge.producer.postgres.requirements import ensure_publication, missing_publication
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import StreamLost
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

_LEAVES_OUT_SINCE = 180000
"""A publication that was not there at a change is no error."""


def settings_of_session(settings: Settings, connection: SqlConnection, tables: Tables, progress: Progress) -> Settings:
    """The settings, with the publications that this session asks for.

    Raises:
        OperatorError: one that they name is not there, and was not followed before; or they do not go together.
        RetryableError: the server is away.
    """
    named = settings.postgres.publication_names
    followed = tuple(followed_names(progress, named))
    if {*named} == {*followed}:
        tables.awaited_publications, tables.named_sessions.next_session_lsn = (), None
        return settings
    found = publications_named(connection, named)
    if missing := [name for name in named if name not in found and name not in followed]:
        raise publication_missing(missing[0])
    were_there = {*named} <= {*followed}
    is_askable = (were_there or _go_together(connection, named, followed)) and progress.split is None
    # None: a look that finds them has another session begin.
    asked = frozenset(found.items()) if is_askable else None
    usable = tables.named_sessions.begin(asked, progress.floor, is_as_before=were_there)
    if usable is not None or (is_askable and _are_gone(connection, followed, progress)):
        tables.awaited_publications = ()
        return settings
    tables.awaited_publications = named
    of_before = {"publication": None, "publications": followed}
    return settings.model_copy(update={"postgres": settings.postgres.model_copy(update=of_before)})


def names_of_next_session(
    settings: Settings, connection: SqlConnection, progress: Progress
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that the first session of the next process asks for; and those that settings name, where it waits for them.

    Raises:
        OperatorError, RetryableError: the server refuses, or is away.
    """
    named = settings.postgres.publication_names
    followed = tuple(followed_names(progress, named))
    if {*named} == {*followed}:
        return named, ()
    is_at_once = {*named} <= {*followed} or _are_gone(connection, followed, progress)
    return (named, ()) if is_at_once and progress.split is None else (followed, named)


def make_missing(settings: Settings, connection: SqlConnection, progress: Progress | None) -> None:
    """Make publications that are missing, before all tables are copied. Raises as ``refuse_missing``."""
    refuse_missing(settings, connection, progress)
    ensure_publication(connection, settings)


def refuse_missing(settings: Settings, connection: SqlConnection, progress: Progress | None) -> None:
    """Refuse a missing publication that nobody makes unasked. One that was followed, and renamed, gets its name back.

    Raises:
        StreamLost: one that was followed was renamed or dropped.
        OperatorError: one that was never followed is not there.
    """
    if (missing := missing_publication(connection, settings)) is None:
        return
    if progress is not None:
        try:
            _refuse_lost(settings, connection, progress)
        except StreamLost as lost:
            if lost.first:  # else all of them are there, and one was made again
                raise
    raise missing


def refuse_making_again(
    settings: Settings, connection: SqlConnection, progress: Progress, missing: Sequence[str]
) -> None:
    """Refuse to make publications again that the stream followed: what was changed meanwhile is lost, and they may be
    there under another name. Others are made, also beside a slot.

    Raises:
        StreamLost: one was dropped or renamed.
    """
    _refuse_lost(settings, connection, progress)
    followed = followed_names(progress, settings.postgres.publication_names)
    if gone := [name for name in missing if name in followed]:  # nothing was compared without a baseline
        raise publication_gone(gone)


def _refuse_lost(settings: Settings, connection: SqlConnection, progress: Progress) -> None:
    names = settings.postgres.publication_names
    refuse_lost_publications(progress, names, publication_state(connection, names, ()))


def _go_together(connection: SqlConnection, named: tuple[str, ...], followed: Sequence[str]) -> bool:
    """False where nobody can tell now.

    Raises:
        OperatorError: the server would end the stream.
    """
    published = published_tables_unless_locked(connection, named)
    if published is None:
        log.warning("a published table is being altered: the other publications wait for that")
        return False
    refuse_other_columns(published, followed)
    return True


def _are_gone(connection: SqlConnection, followed: tuple[str, ...], progress: Progress) -> bool:
    """Whether one of before is, or was made anew, and the server leaves out what is missing."""
    if connection.info.server_version < _LEAVES_OUT_SINCE:
        return False
    baseline = Baseline.of(progress)
    return baseline is None or baseline.publications != {*publications_named(connection, followed).values()}
