"""The published tables: whether each can be followed.

In: a connection. Out: findings, one per table only where there is something to say of it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from walbridge.check.finding import Finding, advice, ok, refused, warning
from walbridge.check.source.publication import PublicationFacts, count_of_tables
from walbridge.producer.guards.unfit.foreign_rows import foreign_row_faults
from walbridge.producer.guards.unfit.named_objects import named_object_faults
from walbridge.producer.guards.unfit.publication_faults import brittle_lists
from walbridge.producer.guards.unfit.replica_identity import definite_faults, filter_faults
from walbridge.producer.kafka.topic_specs import event_topics_of_no_table
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.relations.binary_support import binary_faults
from walbridge.producer.relations.table_description import announced, describe
from walbridge.producer.relations.table_names import refuse_names_alike
from walbridge.producer.relations.table_topics import uncompactable
from walbridge.schemas.errors import LOCKED, WAIT_FOR_LOCK, OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_schema import TableSchema
from walbridge.schemas.topics import (
    cuts_topic,
    data_topic,
    metadata_topic,
    progress_topic,
    refuse_topic_collisions,
)

AREA = "tables"

_CONTROL_TOPICS = (metadata_topic, cuts_topic, progress_topic)
_TABLE = """
SELECT c.oid, coalesce(pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid), 0)
FROM pg_class c WHERE c.oid = ANY (%s)
"""


@dataclass(frozen=True, slots=True)
class TableCase:
    """A published table as it is judged. ``changes``: updates and deletes since statistics began."""

    name: str
    quoted: str
    replica_identity: str
    has_key: bool
    changes: int
    schema: TableSchema | None = None

    @property
    def has_identity(self) -> bool:
        """Whether Postgres can say which row was updated or deleted."""
        return self.replica_identity == "f" or (self.replica_identity in "di" and self.has_key)


def locked() -> Finding:
    """Nobody can tell the published tables."""
    what = f"{LOCKED}: tables, publication and rights on them"
    return warning(AREA, f"{what} were not checked", f"{WAIT_FOR_LOCK}; then run walbridge check again")


def table_findings(
    connection: SqlConnection,
    settings: Settings,
    facts: PublicationFacts,
    tables: Sequence[PublishedTable],
    named: Collection[int] = (),
) -> Iterator[Finding]:
    """Identities, row filters, and the names that topics and lake give the tables.

    Args:
        named: relations that have their topics, whatever they are called now.
    """
    coming = [table for table in tables if table.relation_id not in named]
    found = 0
    for finding in chain(
        _unfit_tables(connection, settings, facts, tables),
        (refused(AREA, fault) for fault in foreign_row_faults(connection, settings, coming)),
        _topic_names(settings, coming),
    ):
        found += 1
        yield finding
    if not found and tables:
        yield ok(AREA, f"{count_of_tables(len(tables))}: each can be followed, topic names do not collide")


def _unfit_tables(
    connection: SqlConnection, settings: Settings, facts: PublicationFacts, tables: Sequence[PublishedTable]
) -> Iterator[Finding]:
    """What in the tables themselves keeps them from being followed, or may later."""
    cases = [*table_cases(connection, tables)]
    for case in cases:
        yield from judged(case, facts)
    yield from _unfit_identities(connection, settings, tables)
    yield from _unreadable(connection, settings, tables)
    for case in cases:
        if case.schema is not None:
            yield from (refused(AREA, fault) for fault in uncompactable(settings, case.schema))
    for fault in chain(named_object_faults(connection, tables), brittle_lists(tables)):
        yield warning(AREA, fault.what, fault.remedy)
    for name in sorted(settings.topics.compacted - {table.qualified_name for table in tables}):
        yield warning(
            AREA, f"[topics.cleanup] names {name}, which is not published", "correct the name, or leave it out"
        )


def _topic_names(settings: Settings, tables: Sequence[PublishedTable]) -> Iterator[Finding]:
    """Names that topics cannot have, and those that two of them would have."""
    names = []
    for table in tables:
        try:
            names.append(data_topic(settings.name, table.namespace, table.name, settings.topics.names))
        except OperatorError as refusal:
            yield refused(AREA, refusal)
    try:
        refuse_names_alike(tables)
        own = (topic(settings.name) for topic in _CONTROL_TOPICS)
        refuse_topic_collisions([*own, *event_topics_of_no_table(settings), *names])
    except OperatorError as refusal:
        yield refused(AREA, refusal)


def _unreadable(connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]) -> Iterator[Finding]:
    """What cannot come in binary, where that is asked for."""
    return (refused(AREA, fault) for fault in binary_faults(connection, settings, tables))


def _unfit_identities(
    connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]
) -> Iterator[Finding]:
    """What the producer refuses at its start, unless it is set to leave such a table when it happens."""
    for fault in definite_faults(connection, settings, tables):
        yield refused(AREA, fault)
    for fault in filter_faults(connection, settings, tables):
        stops = settings.producer.on_unknown_value == "refuse"
        yield refused(AREA, fault) if stops else warning(AREA, fault.what, fault.remedy)


def table_cases(connection: SqlConnection, tables: Sequence[PublishedTable]) -> Iterator[TableCase]:
    """Each table with what its judgement needs."""
    relation_ids = [table.relation_id for table in tables]
    changes = dict(connection.execute(_TABLE, (relation_ids,)).fetchall())
    facts, _ = catalog.tables_facts(connection, relation_ids)
    there = [
        table for table in tables if table.relation_id in facts and table.relation_id in changes
    ]  # others were dropped
    relations = {table.relation_id: announced(table, facts[table.relation_id]) for table in there}
    types = catalog.type_facts(connection, {column.type_oid for each in relations.values() for column in each.columns})
    for table in there:
        relation = relations[table.relation_id]
        own = catalog.types_within(types, {column.type_oid for column in relation.columns})
        schema = describe(relation, facts[table.relation_id], own)
        yield TableCase(
            name=table.qualified_name,
            quoted=table.quoted_name,
            replica_identity=table.replica_identity,
            has_key=bool(schema.key_columns),
            changes=changes[table.relation_id],
            schema=schema,
        )


def judged(case: TableCase, facts: PublicationFacts) -> Iterator[Finding]:
    """What is to be said of one table."""
    full = f"ALTER TABLE {case.quoted} REPLICA IDENTITY FULL;"
    key = f"ALTER TABLE {case.quoted} ADD PRIMARY KEY (...);"
    if not case.has_identity and facts.changes_rows:
        make = warning if case.changes else advice
        had = f"; it had {case.changes:,} of them" if case.changes else ""
        default = f"ALTER TABLE {case.quoted} REPLICA IDENTITY DEFAULT;"
        remedy = default if case.has_key else f"{key} or {full}"
        yield make(AREA, f"{case.name} has no replica identity: Postgres refuses UPDATE and DELETE of it{had}", remedy)
    elif case.replica_identity == "f" and not case.has_key:
        yield advice(
            AREA,
            f"{case.name} has identity FULL and no key: an update searches the whole lake table, and its topic "
            "has one partition",
            key,
        )
