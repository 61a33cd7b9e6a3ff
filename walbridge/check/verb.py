"""Every check, whatever the others found; what depends on a peer that is away says so.

In: settings. Out: findings in a fixed order, on stdout; exit code 0, or 2 when one is an error.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec

import psycopg
from confluent_kafka import KafkaException
from rich.console import Console

from walbridge.check import host, published, report, server, topics
from walbridge.check import registry as registry_check
from walbridge.check import slot as slot_check
from walbridge.check.clock import clock_findings
from walbridge.check.ddl import ddl_findings
from walbridge.check.finding import LAKE, Finding, Severity, advice, error, exit_code, not_checked, ok, refused
from walbridge.check.programs import AREA as PROGRAMS
from walbridge.check.programs import program_findings
from walbridge.check.session import SESSION, session_findings
from walbridge.control_records import cuts_kept, newest_progress, relations
from walbridge.ddl_trigger import ddl_standing
from walbridge.extras import missing_package
from walbridge.producer.kafka.table_requests import copy_of_all_asked
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import (
    SqlConnection,
    classified,
    connect_sql,
    connect_walsender,
    retry_at_start,
)
from walbridge.producer.postgres.facts import PublishedTable, ServerIdentity, SlotState
from walbridge.producer.postgres.requirements import FAILOVER_SINCE
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.slots.slot_row import slot_of, source_of
from walbridge.producer.start import former_progress
from walbridge.program_runs import job_words, left_words, producer_words
from walbridge.runtime.logs import configure_logs
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.run_record import PRODUCER
from walbridge.schemas.errors import OperatorError, RetryableError, WalbridgeError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of

ANSWER_S = 5.0
"""A peer that is there answers at once; this much is for a busy machine."""


@dataclass(slots=True)
class Reached:
    """What answered, and what it said. None: it did not."""

    settings: Settings
    connection: SqlConnection | None = None
    identity: ServerIdentity | None = None
    slot_state: SlotState | None = None
    tables: list[PublishedTable] = field(default_factory=list)
    counts: dict[str, int] | None = None
    progress: Progress | None = None
    relations: list[RelationRecord] = field(default_factory=list)


def check(settings: Settings, *, as_json: bool) -> int:
    """Run every check and print what was found; the exit code."""
    configure_logs("warning")  # what the producer's own parts say goes to stderr
    findings = list(all_findings(settings))
    console = Console()
    if as_json:
        print(report.as_json(findings))
    elif console.is_terminal:
        for line in report.for_terminal(findings, console.width):
            console.print(line, soft_wrap=True)
        console.print(f"\n{report.verdict(findings)}", highlight=False)
    else:
        print(f"{report.as_text(findings)}\n{report.verdict(findings)}")
    return exit_code(findings)


def all_findings(settings: Settings) -> Iterator[Finding]:
    """In the order in which a newcomer mends them."""
    reached = Reached(settings)
    try:
        reaching = {
            "Postgres": list(_tried(server.AREA, lambda: _reach_postgres(reached))),
            "Kafka": list(_tried(topics.BROKER, lambda: _reach_kafka(reached))),
        }
        areas_not_checked, told = set[str](), set[str]()
        for area, needs, findings in _CHECKS:
            for peer in needs:
                yield from reaching.pop(peer, ())
            absent = [peer for peer in needs if not _answers(reached, peer)]
            if not absent:
                for finding in _tried(area, partial(findings, reached)):
                    # One fault may stop several steps of a start; the first that meets it says it.
                    if finding.severity is Severity.OK or finding.text not in told:
                        told.add(finding.text)
                        yield finding
            elif area not in areas_not_checked | {server.AREA, topics.BROKER}:
                areas_not_checked.add(area)
                yield not_checked(area, absent[0])
    finally:
        if reached.connection is not None:
            reached.connection.close()


def _answers(reached: Reached, peer: str) -> bool:
    return (reached.connection if peer == "Postgres" else reached.counts) is not None


def _tried(area: str, findings: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings; a check that fails is a finding too, and no end of the others."""
    try:
        yield from findings()
    except psycopg.Error as failure:
        yield _failed(area, classified(failure))
    except KafkaException as failure:
        yield _failed(area, RetryableError(failure.args[0].str()))
    except WalbridgeError as failure:
        yield _failed(area, failure)
    except ModuleNotFoundError as failure:
        missing = missing_package(failure)
        if missing is None:
            raise
        text = f"not checked: {missing.name} is not installed here, so walbridge materialize cannot run here either"
        yield advice(area, text, f"if it is to run here: {missing.install}")


def _failed(area: str, failure: WalbridgeError) -> Finding:
    if isinstance(failure, OperatorError):
        return refused(area, failure)
    return error(area, str(failure), "see that it is there and answers, then walbridge check again")


def _reach_postgres(reached: Reached) -> Iterator[Finding]:
    postgres = reached.settings.postgres
    dsn = dsn_of(reached.settings)
    connection = retry_at_start(lambda: connect_sql(dsn, "walbridge check"), ANSWER_S)
    with ExitStack() as on_failure:
        on_failure.callback(connection.close)
        info = connection.info
        yield ok(server.AREA, f"reachable: database {info.dbname} at {info.host}:{info.port}, as {info.user}")
        reached.slot_state = slot.inspect(connection, postgres.slot)
        reached.tables = catalog.published_tables(connection, postgres.publication_names)
        # Last: without both answers a slot or tables would seem to be missing.
        reached.connection = connection
        on_failure.pop_all()


def _reach_kafka(reached: Reached) -> Iterator[Finding]:
    settings = reached.settings
    admin = TopicAdmin(settings)
    counts = retry_at_start(admin.partition_counts, ANSWER_S)
    reached.progress = newest_progress(settings, counts)
    reached.relations = relations(settings, counts)
    reached.counts = counts  # last: without all three answers the slot would seem to be nobody's
    yield from ()


def _server(reached: Reached) -> Iterator[Finding]:
    facts = server.server_facts(_connected(reached))
    yield from server.server_findings(facts, slot_exists=reached.slot_state is not None)
    yield from clock_findings(_connected(reached), server.AREA)


def _role(reached: Reached) -> Iterator[Finding]:
    """A session for replication is opened: attribute, pg_hba.conf and free walsenders in one."""
    dsn = reached.settings.postgres.dsn.get_secret_value()
    try:
        walsender = connect_walsender(dsn, "walbridge check")
    except OperatorError as refusal:
        yield published.replication_finding(_connected(reached), refusal)
    else:
        try:
            reached.identity = slot.identify(walsender)
        finally:
            walsender.finish()
        yield ok(published.ROLE, "may replicate")
    yield from published.role_findings(_connected(reached), reached.tables)


def _publication(reached: Reached) -> Iterator[Finding]:
    for name in reached.settings.postgres.publication_names:
        facts = published.publication_facts(_connected(reached), name)
        yield from published.publication_findings(
            name, facts, reached.settings, reached.tables, is_followed=_streams(reached) is not None
        )
    yield from ddl_findings(ddl_standing(_connected(reached)))


def _streams(reached: Reached) -> Progress | None:
    """The progress of a pipeline that has begun to stream."""
    progress = reached.progress
    return progress if progress is not None and progress.state == "streaming" else None


def _session(reached: Reached) -> Iterator[Finding]:
    progress, server = _streams(reached), reached.identity
    if progress is None or server is None or not topics.has_control_topics(reached.settings, reached.counts or {}):
        return iter(())
    if (server.system_id, server.database) != (progress.system_id, progress.database):
        return iter(())  # its relation ids are others' here; the slot's guards say so
    return session_findings(reached.settings, _connected(reached), server, progress, lambda: _is_copy_asked(reached))


def _tables(reached: Reached) -> Iterator[Finding]:
    connection = _connected(reached)
    names = reached.settings.postgres.publication_names
    facts = published.combined([published.publication_facts(connection, name) for name in names])
    named = {record.table.relation_id for record in reached.relations} if reached.progress else set()
    return published.table_findings(connection, reached.settings, facts, reached.tables, named) if facts else iter(())


def _slot(reached: Reached) -> Iterator[Finding]:
    settings = reached.settings
    seen = slot_of(_connected(reached), settings.postgres.slot, source_of(settings).wal_lsn)
    retained, safe = (seen.retained_bytes, seen.safe_wal_size_bytes) if seen else (None, None)
    is_needed = reached.progress is not None and reached.progress.consistent_point is not None
    case = slot_check.SlotCase(settings.postgres.slot, reached.slot_state, retained, safe, is_needed)
    yield from slot_check.slot_findings(case)
    if settings.postgres.failover and _connected(reached).info.server_version >= FAILOVER_SINCE:
        waits_for = catalog.setting(_connected(reached), "synchronized_standby_slots")
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
    return topics.broker_findings(topics.broker_facts(reached.settings), reached.settings)


def _topics(reached: Reached) -> Iterator[Finding]:
    counts = reached.counts or {}
    yield from topics.topic_findings(reached.settings, counts, reached.relations, reached.progress)
    yield from topics.left_out_findings(reached.progress, reached.relations)


def _lake(reached: Reached) -> Iterator[Finding]:
    from walbridge.check.lake import lake_findings  # the producer's machine need not have what reads a lake

    return lake_findings(reached.settings)


def _lake_beside_kafka(reached: Reached) -> Iterator[Finding]:
    if find_spec("deltalake") is None:  # said already, by the look at the lake alone
        return iter(())
    from walbridge.check.lake import standing_findings

    return standing_findings(
        reached.settings, reached.progress, partial(cuts_kept, reached.settings, reached.counts or {})
    )


def _spool(reached: Reached) -> Iterator[Finding]:
    return host.spool_findings(reached.settings)


def _memory(reached: Reached) -> Iterator[Finding]:
    return host.memory_findings(reached.settings)


def _java(reached: Reached) -> Iterator[Finding]:
    return host.java_findings(reached.settings)


def _jars(reached: Reached) -> Iterator[Finding]:
    return host.jar_findings(reached.settings)


def _producer(reached: Reached) -> Iterator[Finding]:
    settings = reached.settings
    words = left_words(settings, PRODUCER) if reached.counts is None else producer_words(settings)
    return program_findings("produce", words, datetime.now(UTC))


def _job(reached: Reached) -> Iterator[Finding]:
    if find_spec("deltalake") is None:
        return iter(())
    return program_findings("materialize", job_words(reached.settings), datetime.now(UTC))


def _registry(reached: Reached) -> Iterator[Finding]:
    return registry_check.registry(reached.settings, reached.relations)


_CHECKS: tuple[tuple[str, tuple[str, ...], Callable[[Reached], Iterator[Finding]]], ...] = (
    (server.AREA, ("Postgres",), _server),
    (published.ROLE, ("Postgres",), _role),
    (published.PUBLICATION, ("Postgres",), _publication),
    (published.TABLES, ("Postgres",), _tables),
    (topics.BROKER, ("Kafka",), _broker),
    (topics.TOPICS, ("Kafka",), _topics),
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


def _connected(reached: Reached) -> SqlConnection:
    assert reached.connection is not None
    return reached.connection
