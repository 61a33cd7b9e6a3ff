"""Which publications a session asks for, where the settings name others than the session before asked for.

In: settings, progress, the publications that are there. Out: the settings of this session. It asks for those of before
as long as a transaction is half published, whose rows they tell; and before Postgres 18, which looks names up as of
each change and ends a session that finds one missing, until all who were writing have ended that began before the new
ones were seen. From 18 on changes of before are left out, and every table that may lack one is copied again anyway.
"""

from walbridge.producer.errors.publications import publication_missing
from walbridge.producer.guards.baseline import followed_names
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.publications.publication import publications_named
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.settings import Settings

_LEAVES_OUT_SINCE = 180000
"""A publication that was not there at a change is no error."""


def settings_of_session(settings: Settings, connection: SqlConnection, tables: Tables, progress: Progress) -> Settings:
    """The settings, with the publications that this session asks for.

    Raises:
        OperatorError: one that they name is not there, and was not followed before.
        RetryableError: the server is away.
    """
    named = settings.postgres.publication_names
    followed = followed_names(progress, named)
    if {*named} == {*followed}:
        tables.awaited_publications, tables.named_sessions.behind = (), None
        return settings
    found = publications_named(connection, named)
    if missing := [name for name in named if name not in found and name not in followed]:
        raise publication_missing(missing[0])
    were_there = {*named} <= {*followed}
    usable = tables.named_sessions.begin(frozenset(found.items()), progress.floor, is_as_before=were_there)
    leaves_out = connection.info.server_version >= _LEAVES_OUT_SINCE
    if progress.split is None and (usable is not None or leaves_out):
        tables.awaited_publications = ()
        return settings
    tables.awaited_publications = named
    tables.named_sessions.asked = None  # a look that finds them has another session begin
    of_before = {"publication": None, "publications": tuple(followed)}
    return settings.model_copy(update={"postgres": settings.postgres.model_copy(update=of_before)})
