"""Rows that replication brought, whose changes ``origin = "none"`` leaves out: refused before they are copied, or
before their changes stop coming.

In: a connection, the settings, published tables. Out: an ``OperatorError`` for each table that a subscription of this
database writes to, as CREATE SUBSCRIPTION warns of it (subscriptioncmds.c, check_publications_origin). Writers that set
an origin by other means are not in the catalogue.
"""

from collections.abc import Iterator, Sequence

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.errors.origins import foreign_rows_copied, foreign_rows_held, foreign_rows_left_out
from walbridge.producer.guards.baseline import ORIGIN_OPTION, followed_origin
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.publications.subscribed_tables import subscribed
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings


def foreign_row_faults(
    connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]
) -> Iterator[OperatorError]:
    """Tables whose copy would hold rows that are never changed again."""
    if _leaves_foreign_rows_out(settings):
        found = subscribed(connection, [table.relation_id for table in tables])
        for table in tables:
            if table.relation_id in found:
                yield foreign_rows_copied(table.qualified_name)


def refuse_foreign_rows(connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]) -> None:
    """Refuse to copy such tables.

    Raises:
        OperatorError: of the first of them.
        RetryableError: the server is away.
    """
    for fault in foreign_row_faults(connection, settings, tables):
        raise fault


def compare_origin(
    connection: SqlConnection, settings: Settings, tables: Tables, tracker: ProgressTracker, doubts: Doubts
) -> None:
    """Compare, at the start of a session, the origin filter under which changes came so far with that of the session.
    Progress keeps the one so far until a cut has told which tables may lack rows because of it.

    Raises:
        OperatorError: rows that the lake holds would never change again; or settings say that a doubt stops all.
        RetryableError: the server is away.
    """
    progress = tracker.progress
    before, now = followed_origin(progress), settings.postgres.origin
    names, awaits = tables.versions.names(progress.relation_ids), tables.awaited_origin is not None
    if awaits or before != now == "none":
        if (awaits or _leaves_foreign_rows_out(settings)) and (found := subscribed(connection, names)):
            raise foreign_rows_held(sorted(names[each] for each in found))
        before = now
    tracker.remember_options({ORIGIN_OPTION: before})
    if before != now:
        doubts.add({each: foreign_rows_left_out(name) for each, name in names.items()}, {ORIGIN_OPTION: now})


def _leaves_foreign_rows_out(settings: Settings) -> bool:
    return settings.postgres.origin == "none" and not settings.postgres.copy_foreign_rows
