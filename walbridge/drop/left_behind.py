"""What a pipeline left behind: slot, publications and topics, and which of them are its own.

In: settings, a connection. Out: a ``Removal``, or why nothing may be removed. What cannot be shown to be this
pipeline's stays. Reads only.
"""

import time
from dataclasses import dataclass
from typing import Any

import psycopg

from walbridge.control_records import newest_progress, relations
from walbridge.ddl_trigger import ddl_trigger_state
from walbridge.drop.removal import Removal, Stay
from walbridge.producer.guards.start import refuse_bad_copy
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import (
    NoAnswer,
    SqlConnection,
    connect_walsender,
    retry_at_start,
)
from walbridge.producer.postgres.facts import ServerIdentity, SlotState
from walbridge.producer.postgres.server_errors import classified
from walbridge.producer.postgres.slots import slot
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.ddl_row import DDL_PUBLICATION
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_names import qualified
from walbridge.schemas.topics import (
    cuts_topic,
    data_topic,
    metadata_topic,
    progress_topic,
    status_topic,
    transaction_topic,
)
from walbridge.status.pipeline_status import Silent

ANSWER_S = 10.0
LEAVE_S = 2.0
"""How long the slot may stay in use: the session of a producer that was just stopped ends a moment later."""

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


def in_kafka(settings: Settings, connection: SqlConnection) -> InKafka | Silent:
    """What Kafka has, or that it does not answer. Raises for a mistake in the settings."""
    try:
        return retry_at_start(lambda: _asked(settings, connection), ANSWER_S)
    except NoAnswer as error:
        return Silent(error.what)


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


def idle_slot(connection: SqlConnection, name: str) -> SlotState | None:
    """The slot, once nobody reads it; None where there is none."""
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


def refuse_others(
    found: SlotState | None, settings: Settings, progress: Progress | None, connection: SqlConnection
) -> None:
    """Refuse a slot that is not this pipeline's, and a server that is another one."""
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


def removal_of(
    connection: SqlConnection,
    settings: Settings,
    kafka: InKafka | Silent,
    found: SlotState | None,
    *,
    keep_publication: bool,
) -> Removal:
    """What would go, and what would stay and why."""
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
        again = f"{kafka.reason}; run walbridge drop again when Kafka answers" if kafka.away else "kept, as asked"
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
