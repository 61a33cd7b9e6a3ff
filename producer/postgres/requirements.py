"""What server and publication must be for a pipeline, and the options that the stream is asked for.

In: a connection and settings. Out: refusals, a publication that was missing, options.
"""

import json

import structlog

from walbridge.producer.errors.publications import publication_missing
from walbridge.producer.errors.servers import not_utf8, wal_level_too_low
from walbridge.producer.pgoutput.options import STREAMING_SINCE, Streaming, StreamWishes, start_options
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.publications.new_publication import create_publication
from walbridge.producer.postgres.slots import slot
from walbridge.schemas.control.progress_record import MESSAGE_PREFIXES_OPTION
from walbridge.schemas.errors import IsStandby, OperatorError
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

FAILOVER_SINCE = 170000
"""Standbys take slots over."""


def stream_options(settings: Settings, server_version: int) -> dict[str, str]:
    """Options of START_REPLICATION: what the settings ask of a server of this version; and, named as ours,
    which of the messages are published.

    Raises:
        OperatorError: the server is too old, for walbridge or for a setting.
    """
    postgres = settings.postgres
    wishes = StreamWishes(
        binary=postgres.binary,
        messages=postgres.messages,
        streaming=_streaming(settings, server_version),
        two_phase=postgres.two_phase,
        origin=postgres.origin,
    )
    prefixes = {MESSAGE_PREFIXES_OPTION: json.dumps(sorted(postgres.message_prefixes))} if postgres.messages else {}
    options = start_options(postgres.publication_names, server_version, wishes) | prefixes
    if postgres.failover and server_version < FAILOVER_SINCE:
        raise OperatorError(
            f"failover = true needs Postgres 17 or newer; the server is Postgres {server_version // 10_000}",
            remedy="set failover = false in [postgres], or upgrade the server",
        )
    return options


def _streaming(settings: Settings, server_version: int) -> Streaming:
    """``auto``: on where the server can, but for messages.

    A message in a streamed transaction is sent as one of the whole transaction, also where a savepoint
    made it: if that is rolled back nobody can tell that the message is void.
    """
    wished, messages = settings.postgres.streaming, settings.postgres.messages
    if wished == "auto":
        return "on" if server_version >= STREAMING_SINCE and not messages else "off"
    if wished != "off" and messages:
        raise OperatorError(
            f'streaming = "{wished}" and messages = true exclude each other: Postgres does not tell which savepoint '
            "of a streamed transaction a message is of, so one that was rolled back would be published",
            remedy='set streaming = "auto" in [postgres], or messages = false',
        )
    return wished


def refuse_unfit_server(connection: SqlConnection, settings: Settings) -> None:
    """What must hold of the server and the publication before anything is made.

    Raises:
        OperatorError: version, wal_level, encoding or publication do not fit.
        RetryableError: it is a standby.
    """
    stream_options(settings, connection.info.server_version)
    if catalog.is_standby(connection):
        # Its slots stream, from 16 on, but nothing says there how far the WAL is, and no copy can be joined to it.
        raise IsStandby("the server is a standby, which cannot be followed")
    if (level := catalog.setting(connection, "wal_level")) != "logical":
        raise wal_level_too_low(level)
    if (encoding := catalog.setting(connection, "server_encoding")) == "SQL_ASCII":
        raise not_utf8(encoding)
    if (missing := missing_publication(connection, settings)) is not None and (
        # Beside a slot it was there before: making it again would hide a gap, and the guards know what mends that.
        slot.inspect(connection, settings.postgres.slot) is None
    ):
        raise missing


def ensure_publication(connection: SqlConnection, settings: Settings) -> None:
    """Make a missing publication, if settings name its tables. Before a copy only: later the
    changes between the drop and this would be missing silently.

    Raises:
        OperatorError: one is missing, and no settings say what is to be in it.
    """
    if (missing := missing_publication(connection, settings)) is not None:
        raise missing
    tables = settings.postgres.publication_tables
    for publication in settings.postgres.publication_names:
        if not catalog.publication_exists(connection, publication):
            create_publication(connection, publication, tables)
            log.info("publication created", publication=publication, tables=list(tables))


def missing_publication(connection: SqlConnection, settings: Settings) -> OperatorError | None:
    """The first that is not there, and that nobody makes unasked; None where a slot can be made."""
    for publication in settings.postgres.publication_names:
        if not settings.postgres.publication_tables and not catalog.publication_exists(connection, publication):
            return publication_missing(publication)
    return None
