"""``walbridge drop``: what a pipeline left behind goes away, the slot first. The lake always stays.

In: settings. Out: no slot, no publication of our making, no topics. A slot that nobody reads
keeps WAL until the primary's disk is full: so it goes first, and also when Kafka does not answer.
What is gone already is fine; what cannot be shown to be this pipeline's is left alone.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from confluent_kafka import KafkaError, KafkaException
from psycopg import sql

from walbridge.control_records import newest_progress, relations
from walbridge.ddl_trigger import ddl_trigger_state
from walbridge.drop.removal import Removal, Stay
from walbridge.producer.guards.start import refuse_bad_copy, refuse_foreign_slot
from walbridge.producer.kafka.client_config import admin_client
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import (
    NoAnswer,
    SqlConnection,
    connect_sql,
    connect_walsender,
    retry_at_start,
)
from walbridge.producer.postgres.facts import ServerIdentity, SlotState
from walbridge.producer.postgres.server_errors import classified
from walbridge.producer.postgres.slots import slot
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.ddl_row import DDL_PUBLICATION
from walbridge.schemas.errors import EXIT_OPERATOR, OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.schemas.table_names import qualified
from walbridge.schemas.topics import (
    cuts_topic,
    data_topic,
    metadata_topic,
    progress_topic,
    status_topic,
    transaction_topic,
)

ANSWER_S = 10.0
LEAVE_S = 2.0
"""How long the slot may stay in use: the session of a producer that was just stopped ends a moment later."""
DELETE_S = 30.0

_RETAINED = """
SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
                       restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = %s
"""
# A publication is ours if it has the tables of publication_tables, and this role may drop it.
_OURS = """
SELECT pg_has_role(p.pubowner, 'USAGE') AND NOT p.puballtables, ARRAY(
  SELECT n.nspname || '.' || c.relname FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE r.prpubid = p.oid)
FROM pg_publication p WHERE p.pubname = %s
"""


@dataclass(frozen=True, slots=True)
class InKafka:
    """What Kafka has of this pipeline. ``foreign``: topics with names like ours that may be another pipeline's."""

    progress: Progress | None
    topics: tuple[str, ...]
    foreign: tuple[str, ...]


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
        found = _idle_slot(connection, settings.postgres.slot)
        kafka = None if slot_only else _in_kafka(settings, connection)
        _refuse_others(found, settings, kafka.progress if isinstance(kafka, InKafka) else None, connection)
        if isinstance(kafka, InKafka) and kafka.progress is None:
            refuse_foreign_slot(found, settings.postgres.slot)
        removal = _removal(connection, settings, kafka, found, keep_publication=keep_publication or slot_only)
        for line in removal.lines():
            say(line)
        agreed = not removal.is_empty and _agreed(yes, ask)
        if agreed:
            _remove(connection, settings, removal, say)
        elif not removal.is_empty:
            say("nothing was removed")
        if out is not None:
            out(removal.as_json(removed=agreed))
    return EXIT_OPERATOR if isinstance(kafka, str) else 0


def _agreed(yes: bool, ask: Callable[[str], bool]) -> bool:
    if not yes and not sys.stdin.isatty():
        raise OperatorError(
            "walbridge drop asks before it removes anything, and nobody is here to answer",
            remedy="run walbridge drop --yes",
        )
    return yes or ask("Remove it?")


def _in_kafka(settings: Settings, connection: SqlConnection) -> InKafka | str:
    """What Kafka has, or a text that says that it does not answer. Raises for a mistake in the settings."""
    try:
        return retry_at_start(lambda: _asked(settings, connection), ANSWER_S)
    except NoAnswer as error:
        return error.what


def _asked(settings: Settings, connection: SqlConnection) -> InKafka:
    existing = TopicAdmin(settings).partition_counts()
    recorded = {record.topic for record in relations(settings, existing)}
    # Those that walbridge init made and no producer has written to yet.
    published = catalog.published_tables(connection, settings.postgres.publication_names)
    named = {data_topic(settings.name, each.namespace, each.name, settings.topics.names) for each in published}
    # Metadata last: it is what tells a second run which topics are ours.
    name = settings.name
    own = transaction_topic, status_topic, progress_topic, cuts_topic, metadata_topic
    control = [topic(name) for topic in own]
    ours = [*sorted(recorded | named), *control]
    foreign = {name for name in existing if name.startswith(f"{settings.name}.")} - set(ours)
    progress = newest_progress(settings, existing, all_tables=False)
    return InKafka(progress, tuple(name for name in ours if name in existing), tuple(sorted(foreign)))


def _idle_slot(connection: SqlConnection, name: str) -> SlotState | None:
    deadline_s = time.monotonic() + LEAVE_S
    while True:
        found = slot.inspect(connection, name)
        if found is None or found.active_pid is None:
            return found
        if time.monotonic() > deadline_s:
            raise OperatorError(
                f"slot {name} is in use (pid {found.active_pid}): its producer runs",
                remedy="stop walbridge produce and walbridge materialize, then run walbridge drop again",
            )
        time.sleep(0.1)


def _refuse_others(
    found: SlotState | None, settings: Settings, progress: Progress | None, connection: SqlConnection
) -> None:
    if found is not None and (found.plugin != "pgoutput" or found.database != connection.info.dbname):
        raise OperatorError(
            f"slot {settings.postgres.slot} is of plugin {found.plugin} in database {found.database}: not ours",
            remedy="name the pipeline's own in [postgres] slot, and its database in [postgres] dsn",
        )
    if progress is not None:
        refuse_bad_copy(progress, _identity(settings), found)


def _identity(settings: Settings) -> ServerIdentity:
    walsender = connect_walsender(settings.postgres.dsn.get_secret_value(), "walbridge drop")
    try:
        return slot.identify(walsender)
    finally:
        walsender.finish()


def _removal(
    connection: SqlConnection,
    settings: Settings,
    kafka: InKafka | str | None,
    found: SlotState | None,
    *,
    keep_publication: bool,
) -> Removal:
    stays = [Stay("lake", settings.lake.path)]
    publications = []
    for name in settings.postgres.publication_names:
        if catalog.publication_exists(connection, name):
            why = "kept, as asked" if keep_publication else _why_not_ours(connection, name, settings)
            publications += [] if why else [name]
            stays += [Stay("publication", name, why)] if why else []
    if not ddl_trigger_state(connection).is_absent:
        take_away = "walbridge init --no-ddl-trigger --admin-dsn ... takes it away"
        stays.append(
            Stay("publication", DDL_PUBLICATION, f"it tells DDL, for all pipelines of this database; {take_away}")
        )
    if isinstance(kafka, InKafka):
        stays += [
            Stay("topic", name, "it is named like this pipeline's topics, but belongs to no table that it knows")
            for name in kafka.foreign
        ]
    else:
        again = f"{kafka}; run walbridge drop again when Kafka answers" if kafka else "kept, as asked"
        stays.append(Stay("topics", f"{settings.name}.*", again))
    retained = None if found is None else _row(connection, _RETAINED, settings.postgres.slot)
    return Removal(
        pipeline=settings.name,
        slot=None if found is None else settings.postgres.slot,
        retained_bytes=retained[0] if retained else None,
        publications=tuple(publications),
        topics=kafka.topics if isinstance(kafka, InKafka) else (),
        stays=tuple(stays),
    )


def _row(connection: SqlConnection, query: str, name: str) -> tuple[Any, ...] | None:
    try:
        return connection.execute(query.encode(), (name,)).fetchone()
    except psycopg.Error as error:
        raise classified(error) from None


def _why_not_ours(connection: SqlConnection, publication: str, settings: Settings) -> str | None:
    """Why the publication is not dropped; None where walbridge made it, as far as that can be known."""
    if not settings.postgres.publication_tables:
        return "not made by walbridge ([postgres] publication_tables is empty)"
    row = _row(connection, _OURS, publication)
    wanted = set(map(qualified, settings.postgres.publication_tables))
    if row is None or not row[0] or set(row[1]) != wanted:
        return "it is not what [postgres] publication_tables makes, or not of this role"
    return None


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
