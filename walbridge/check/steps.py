"""Every check in the order in which a newcomer mends what it finds, and the peers that it needs."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec

from walbridge.check import host, rights, topics
from walbridge.check import registry as registry_check
from walbridge.check.finding import LAKE, Finding, ok
from walbridge.check.programs import AREA as PROGRAMS
from walbridge.check.programs import program_findings
from walbridge.check.reached import Reached
from walbridge.check.source import publication, role, server, tables
from walbridge.check.source import slot as slot_check
from walbridge.check.source.clock import clock_findings
from walbridge.check.source.ddl import ddl_findings
from walbridge.check.source.session import SESSION, session_findings
from walbridge.control_records import cuts_from, cuts_kept
from walbridge.ddl_trigger import ddl_trigger_state
from walbridge.producer.kafka.table_requests import copy_of_all_asked
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import connect_walsender
from walbridge.producer.postgres.requirements import FAILOVER_SINCE
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.slots.slot_row import slot_of, source_of
from walbridge.producer.start import former_progress
from walbridge.program_runs import job_words, producer_words, words_on_this_machine
from walbridge.schemas.control.run_record import PRODUCER
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings


def _server(reached: Reached) -> Iterator[Finding]:
    facts = server.server_facts(reached.connected)
    yield from server.server_findings(facts, slot_exists=reached.slot_state is not None)
    yield from clock_findings(reached.connected, server.AREA)


def _role(reached: Reached) -> Iterator[Finding]:
    """A session for replication is opened: attribute, pg_hba.conf and free walsenders in one."""
    dsn = reached.settings.postgres.dsn.get_secret_value()
    try:
        walsender = connect_walsender(dsn, "walbridge check")
    except OperatorError as refusal:
        yield role.replication_finding(reached.connected, refusal)
    else:
        try:
            reached.identity = slot.identify(walsender)
        finally:
            walsender.finish()
        yield ok(role.AREA, "may replicate")
    if not reached.is_locked:
        yield from role.role_findings(reached.connected, reached.tables)


def _publication(reached: Reached) -> Iterator[Finding]:
    names = () if reached.is_locked else reached.settings.postgres.publication_names
    for name in names:
        facts = publication.publication_facts(reached.connected, name)
        yield from publication.publication_findings(
            name, facts, reached.settings, reached.tables, is_followed=reached.streams is not None
        )
    yield from ddl_findings(ddl_trigger_state(reached.connected))


def _session(reached: Reached) -> Iterator[Finding]:
    progress, source = reached.streams, reached.identity
    if progress is None or source is None or not topics.has_control_topics(reached.settings, reached.counts or {}):
        return iter(())
    if (source.system_id, source.database) != (progress.system_id, progress.database):
        return iter(())  # its relation ids are others' here; the slot's guards say so
    return session_findings(reached, source, progress, lambda: _is_copy_asked(reached))


def _tables(reached: Reached) -> Iterator[Finding]:
    connection = reached.connected
    if reached.is_locked:
        return iter((tables.locked(),))
    names = reached.settings.postgres.publication_names
    facts = publication.combined([publication.publication_facts(connection, name) for name in names])
    named = {record.table.relation_id for record in reached.relations} if reached.progress else set()
    return tables.table_findings(connection, reached.settings, facts, reached.tables, named) if facts else iter(())


def _slot(reached: Reached) -> Iterator[Finding]:
    settings = reached.settings
    seen = slot_of(reached.connected, settings.postgres.slot, source_of(settings).wal_lsn)
    retained, safe = (seen.retained_bytes, seen.safe_wal_size_bytes) if seen else (None, None)
    is_needed = reached.progress is not None and reached.progress.consistent_point is not None
    case = slot_check.SlotCase(settings.postgres.slot, reached.slot_state, retained, safe, is_needed)
    yield from slot_check.slot_findings(case)
    if settings.postgres.failover and reached.connected.info.server_version >= FAILOVER_SINCE:
        waits_for = catalog.setting(reached.connected, "synchronized_standby_slots")
        yield from slot_check.failover_findings(case, waits_for)


def _guards(reached: Reached) -> Iterator[Finding]:
    if reached.identity is None:  # the role's finding says why
        return iter(())
    return slot_check.guard_findings(
        reached.settings,
        reached.progress,
        reached.identity,
        reached.slot_state,
        is_copy_asked=lambda: _is_copy_asked(reached),
        former=lambda: former_progress(reached.settings, TopicAdmin(reached.settings)),
    )


def _is_copy_asked(reached: Reached) -> bool:
    return reached.progress is not None and copy_of_all_asked(reached.settings, reached.progress) is not None


def _broker(reached: Reached) -> Iterator[Finding]:
    yield from topics.server_findings(reached.settings)
    yield from topics.broker_findings(topics.broker_facts(reached.settings), reached.settings)


def _topics(reached: Reached) -> Iterator[Finding]:
    counts = reached.counts or {}
    yield from topics.topic_findings(reached.settings, reached.topics, counts, reached.relations, reached.progress)
    is_known = reached.connection is not None and not reached.is_locked
    grants = role.missing_grants(reached.connected, reached.tables) if is_known else {}
    yield from topics.left_out_findings(reached.progress, reached.relations, grants)


def _lake(reached: Reached) -> Iterator[Finding]:
    from walbridge.check.lake import lake_findings  # the producer's machine need not have what reads a lake

    return lake_findings(reached.settings)


def _lake_beside_kafka(reached: Reached) -> Iterator[Finding]:
    if find_spec("deltalake") is None:  # said already, by the look at the lake alone
        return
    from walbridge.check.job.unread import log_starts, unread_findings
    from walbridge.check.lake import standing_findings

    settings, progress, counts = reached.settings, reached.progress, reached.counts or {}
    yield from standing_findings(settings, progress, partial(cuts_kept, settings, counts))
    yield from unread_findings(
        settings, progress, reached.relations, partial(cuts_from, settings, counts), partial(log_starts, settings)
    )


def _spool(reached: Reached) -> Iterator[Finding]:
    return host.spool_findings(reached.settings)


def _memory(reached: Reached) -> Iterator[Finding]:
    return host.memory_findings(reached.settings)


def _java(reached: Reached) -> Iterator[Finding]:
    return host.java_findings(reached.settings)


def _jars(reached: Reached) -> Iterator[Finding]:
    return host.jar_findings(reached.settings)


def _rights(reached: Reached) -> Iterator[Finding]:
    return rights.rights_findings(reached.settings, reached.counts or {}, reached.relations)


def _producer(reached: Reached) -> Iterator[Finding]:
    settings = reached.settings
    words = words_on_this_machine(settings, PRODUCER) if reached.counts is None else producer_words(settings)
    slot = reached.slot_state
    words = words.with_slot_in_use(slot is not None and slot.active_pid is not None)
    return program_findings("produce", words, datetime.now(UTC))


def _job(reached: Reached) -> Iterator[Finding]:
    if find_spec("deltalake") is None:
        return iter(())
    return program_findings("materialize", job_words(reached.settings), datetime.now(UTC))


def _registry(reached: Reached) -> Iterator[Finding]:
    return registry_check.registry(reached.settings, reached.relations)


Check = tuple[str, tuple[str, ...], Callable[[Reached], Iterator[Finding]]]
CHECKS: tuple[Check, ...] = (
    (server.AREA, ("Postgres",), _server),
    (role.AREA, ("Postgres",), _role),
    (publication.AREA, ("Postgres",), _publication),
    (tables.AREA, ("Postgres",), _tables),
    (topics.BROKER, ("Kafka",), _broker),
    (topics.TOPICS, ("Kafka",), _topics),
    (rights.AREA, ("Kafka",), _rights),
    (registry_check.AREA, ("Kafka",), _registry),
    (SESSION, ("Postgres", "Kafka"), _session),
    (slot_check.AREA, ("Postgres",), _slot),
    (slot_check.AREA, ("Postgres", "Kafka"), _guards),
    (LAKE, (), _lake),
    (LAKE, ("Kafka",), _lake_beside_kafka),
    (PROGRAMS, (), _producer),
    (PROGRAMS, (), _job),
    (host.SPOOL, (), _spool),
    (host.MEMORY, (), _memory),
    (host.JAVA, (), _java),
    (host.JARS, (), _jars),
)


def checks_of(settings: Settings) -> Iterator[Check]:
    """All but that of a schema registry, where settings name none."""
    return (each for each in CHECKS if each[0] != registry_check.AREA or settings.topics.registry_url is not None)
