"""Whether a session may leave out what replication brings, where settings ask for that and the session before did not.

In: settings, progress. Out: the settings of this session. A change of a row that the lake has may wait in the WAL, and
no subscription shows it any more where that was dropped since. So a session asks for all changes until all who were
writing have ended that began before a look which found no subscription.
"""

import structlog

from walbridge.producer.guards.baseline import followed_origin
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

LOCAL = "none"


def with_origin_of_session(settings: Settings, tables: Tables, progress: Progress) -> Settings:
    """The settings, with the origin that this session asks for."""
    sessions, wanted = tables.origin_sessions, settings.postgres.origin
    is_other = wanted == LOCAL != followed_origin(progress)
    if not is_other or settings.postgres.copy_foreign_rows:  # with that, such rows may stay as they are
        tables.awaited_origin, sessions.next_session_lsn = None, None
        return settings
    # A half published transaction comes again as it began.
    asked = sessions.begin(wanted if progress.split is None else None, progress.floor, is_as_before=False)
    tables.awaited_origin = None if asked else wanted
    if asked:
        log.info("what replication brings is left out from now on")
        return settings
    log.info("what replication has brought until now comes first, and is left out soon")
    return settings.model_copy(update={"postgres": settings.postgres.model_copy(update={"origin": "any"})})
