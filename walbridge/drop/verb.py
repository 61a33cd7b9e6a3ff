"""``walbridge drop``: what a pipeline left behind goes away, the slot first. The lake always stays.

In: settings. Out: no slot, no publication of our making, no topics. A slot that nobody reads
keeps WAL until the primary's disk is full: so it goes first, and also when Kafka does not answer.
What is gone already is fine; what cannot be shown to be this pipeline's is left alone.
"""

import sys
from collections.abc import Callable, Sequence

import psycopg
from confluent_kafka import KafkaError, KafkaException
from psycopg import sql

from walbridge.drop.left_behind import LEAVE_S, InKafka, idle_slot, in_kafka, refuse_others, removal_of
from walbridge.drop.removal import Removal
from walbridge.producer.guards.start import refuse_foreign_slot
from walbridge.producer.kafka.client_config import admin_client
from walbridge.producer.postgres.connection import (
    SqlConnection,
    connect_sql,
    retry_at_start,
)
from walbridge.producer.postgres.server_errors import classified
from walbridge.producer.postgres.slots import slot
from walbridge.schemas.errors import EXIT_OPERATOR, OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.status.pipeline_status import Silent

DELETE_S = 30.0


def drop(
    settings: Settings,
    *,
    slot_only: bool,
    keep_publication: bool,
    yes: bool,
    ask: Callable[[str], bool],
    say: Callable[[str], None] = print,
    out: Callable[[str], object] | None = None,
) -> int:
    """Remove slot, publication and topics; 2 when Kafka did not answer and its topics stay.

    Args:
        out: takes what was removed and what stays, as JSON.

    Raises:
        OperatorError: Postgres does not answer, a producer runs, the slot is somebody else's, or
            nobody is there to ask.
    """
    dsn = dsn_of(settings)
    timeout_s = settings.postgres.start_timeout_s
    with retry_at_start(lambda: connect_sql(dsn, "walbridge drop"), timeout_s) as connection:
        found = idle_slot(connection, settings.postgres.slot)
        kafka = Silent("not asked", away=False) if slot_only else in_kafka(settings, connection)
        refuse_others(found, settings, kafka.progress if isinstance(kafka, InKafka) else None, connection)
        if isinstance(kafka, InKafka) and kafka.progress is None:
            refuse_foreign_slot(found, settings.postgres.slot)
        removal = removal_of(connection, settings, kafka, found, keep_publication=keep_publication or slot_only)
        for line in removal.lines():
            say(line)
        agreed = not removal.is_empty and _agreed(yes, ask)
        if agreed:
            _remove(connection, settings, removal, say)
        elif not removal.is_empty:
            say("nothing was removed")
        if out is not None:
            out(removal.as_json(removed=agreed))
    return EXIT_OPERATOR if isinstance(kafka, Silent) and kafka.away else 0


def _agreed(yes: bool, ask: Callable[[str], bool]) -> bool:
    if not yes and not sys.stdin.isatty():
        raise OperatorError(
            "walbridge drop asks before it removes anything, and nobody is here to answer",
            remedy="run walbridge drop --yes",
        )
    return yes or ask("Remove it?")


def _remove(connection: SqlConnection, settings: Settings, removal: Removal, say: Callable[[str], None]) -> None:
    if removal.slot is not None:
        slot.drop(connection, removal.slot, timeout_s=LEAVE_S)
        say(f"slot {removal.slot}: dropped")
    for name in removal.publications:
        try:
            connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))
        except psycopg.Error as error:
            raise classified(error) from None
        say(f"publication {name}: dropped")
    if removal.topics:
        _delete_topics(settings, removal.topics, say)


def _delete_topics(settings: Settings, topics: Sequence[str], say: Callable[[str], None]) -> None:
    admin = admin_client(settings)
    for name in topics:  # one after the other: metadata goes only when all that it names is gone
        (deleted,) = admin.delete_topics([name], operation_timeout=DELETE_S, request_timeout=DELETE_S).values()
        try:
            deleted.result()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise OperatorError(
                    f"topic {name} could not be deleted: {reason.str()}",
                    remedy="give walbridge's principal DELETE on it (and delete.topic.enable=true), "
                    "then run walbridge drop again; the slot is gone",
                ) from None
        say(f"topic {name}: deleted")
