"""Role, publication and tables: what is published, and whether it can be read and followed.

In: a connection. Out: findings. One per table only where there is something to say of it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import psycopg
from psycopg import sql

from walbridge.check.finding import Finding, advice, error, ok, refused, warning
from walbridge.producer.errors.publications import not_published, operations_missing, publication_missing
from walbridge.producer.guards.foreign_rows import foreign_row_faults
from walbridge.producer.guards.replica_identity import filter_faults, partition_faults, publication_faults
from walbridge.producer.kafka.topic_specs import event_topics_of_no_table
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, classified
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.relations.binary_support import binary_faults
from walbridge.producer.relations.relation_cache import announced, describe
from walbridge.producer.relations.table_topics import uncompactable
from walbridge.role import RDS_MEMBERSHIP
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_names import qualified
from walbridge.schemas.table_schema import TableSchema
from walbridge.schemas.topics import (
    cuts_topic,
    data_topic,
    metadata_topic,
    progress_topic,
    refuse_topic_collisions,
    table_path,
)

ROLE = "role"
PUBLICATION = "publication"
TABLES = "tables"

_RIGHTS = """
SELECT c.oid, current_user, has_schema_privilege(c.relnamespace, 'USAGE'), has_table_privilege(c.oid, 'SELECT'),
       row_security_active(c.oid)
FROM pg_class c WHERE c.oid = ANY (%s)
"""
_ATTRIBUTE = """
SELECT rolname, rolreplication OR rolsuper, EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %s)
FROM pg_roles WHERE rolname = session_user"""
_CONTROL_TOPICS = (metadata_topic, cuts_topic, progress_topic)
_KINDS = ("insert", "update", "delete", "truncate")
_PUBLICATION = """
SELECT pubinsert, pubupdate, pubdelete, pubtruncate, puballtables, {via_root},
       EXISTS (SELECT 1 FROM {schemas} n WHERE n.pnpubid = p.oid),
       EXISTS (SELECT 1 FROM pg_class c WHERE c.relkind = 'p' AND (puballtables
               OR EXISTS (SELECT 1 FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)
               OR EXISTS (SELECT 1 FROM {schemas} n WHERE n.pnpubid = p.oid AND n.pnnspid = c.relnamespace)))
FROM pg_publication p WHERE pubname = %s
"""
_NO_SCHEMAS = "(SELECT 0::oid AS pnpubid, 0::oid AS pnnspid WHERE false)"
"""Whole schemas are published from Postgres 15 on."""
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


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """``kinds``: those of insert, update, delete, truncate that it publishes.

    ``has_partitioned``: of whose partitions pg_publication_tables names the root, or each, by ``via_root``.
    """

    kinds: tuple[str, ...]
    all_tables: bool
    via_root: bool
    by_schema: bool
    has_partitioned: bool

    @property
    def changes_rows(self) -> bool:
        """Whether updates or deletes are published."""
        return not {"update", "delete"}.isdisjoint(self.kinds)


def role_findings(connection: SqlConnection, tables: Sequence[PublishedTable]) -> Iterator[Finding]:
    """May it read the published tables? (Whether it may replicate is found by trying.)"""
    by_id = {table.relation_id: table for table in tables}
    readable = 0
    for relation_id, role, usage, select, hidden in _rows(connection, _RIGHTS, (list(by_id),)):
        table, of_role = by_id[relation_id], sql.Identifier(role).as_string(None)
        if not usage:
            schema = sql.Identifier(table.namespace).as_string(None)
            yield error(
                ROLE, f"{role} may not use schema {table.namespace}", f"GRANT USAGE ON SCHEMA {schema} TO {of_role};"
            )
        if not select:
            grant = f"GRANT SELECT ON TABLE {_quoted(table)} TO {of_role};"
            yield error(ROLE, f"{role} may not read {table.qualified_name}", grant)
        if hidden:
            text = f"row security hides rows of {table.qualified_name} from {role}"
            yield error(ROLE, text, f"ALTER ROLE {of_role} BYPASSRLS;")
        readable += bool(usage and select and not hidden)
    if readable:
        yield ok(ROLE, f"may read {readable} of {len(tables)} published tables")


def replication_finding(connection: SqlConnection, refusal: OperatorError) -> Finding:
    """Why a session for replication was refused: the attribute, or else what the server says."""
    ((role, may_replicate, is_rds),) = _rows(connection, _ATTRIBUTE, (RDS_MEMBERSHIP,))
    if may_replicate:
        return refused(ROLE, refusal)
    named = sql.Identifier(role).as_string(None)
    remedy = f"GRANT {RDS_MEMBERSHIP} TO {named};" if is_rds else f"ALTER ROLE {named} REPLICATION;"
    return error(ROLE, f"{role} may not replicate", remedy)


def publication_facts(connection: SqlConnection, name: str) -> PublicationFacts | None:
    """None where there is no such publication."""
    version = connection.info.server_version
    query = _PUBLICATION.format(
        via_root="pubviaroot" if version >= 130000 else "false",
        schemas="pg_publication_namespace" if version >= 150000 else _NO_SCHEMAS,
    )
    rows = _rows(connection, query, (name,))
    if not rows:
        return None
    *published, all_tables, via_root, by_schema, has_partitioned = rows[0]
    kinds = tuple(kind for kind, is_published in zip(_KINDS, published, strict=True) if is_published)
    return PublicationFacts(kinds, all_tables, via_root, by_schema, has_partitioned)


def combined(facts: Sequence[PublicationFacts | None]) -> PublicationFacts | None:
    """What is to be said of the tables of several; None where none is there."""
    there = [each for each in facts if each is not None]
    if not there:
        return None
    return PublicationFacts(
        kinds=tuple(kind for kind in _KINDS if any(kind in each.kinds for each in there)),
        all_tables=any(each.all_tables for each in there),
        via_root=any(each.via_root for each in there),
        by_schema=any(each.by_schema for each in there),
        has_partitioned=any(each.has_partitioned for each in there),
    )


def publication_findings(
    name: str,
    facts: PublicationFacts | None,
    settings: Settings,
    all_tables: Sequence[PublishedTable],
    *,
    is_followed: bool = False,
) -> Iterator[Finding]:
    """What it publishes, and what it leaves out.

    Args:
        all_tables: of all publications that are followed.
        is_followed: a session streams from it already, and its guards say what its end means.
    """
    is_single = len(settings.postgres.publication_names) == 1
    tables = [table for table in all_tables if is_single or name in {each.publication for each in table.memberships}]
    if facts is None:
        if is_followed:
            return
        if settings.postgres.publication_tables:
            yield advice(PUBLICATION, f"publication {name} does not exist yet", "walbridge init")
        else:
            yield refused(PUBLICATION, publication_missing(name))
        return
    if not tables and not is_followed:
        yield refused(PUBLICATION, not_published([name]))
    else:
        yield ok(PUBLICATION, f"{name} publishes {', '.join(facts.kinds) or 'nothing'} of {_tables(len(tables))}")
    quoted = sql.Identifier(name).as_string(None)
    if is_single and not is_followed and (missing := [kind for kind in _KINDS if kind not in facts.kinds]):
        if not settings.postgres.archives:
            yield refused(PUBLICATION, operations_missing([name], missing))
        elif "insert" in facts.kinds:
            yield ok(PUBLICATION, f"{name} leaves out {', '.join(missing)}: its tables are archives")
    if facts.all_tables or facts.by_schema:
        yield ok(PUBLICATION, f"{name} takes in every table that is created later: it is copied when it comes")
    if facts.has_partitioned and not facts.via_root:
        yield advice(
            PUBLICATION,
            f"{name} has publish_via_partition_root = false: each partition is a table of its own",
            f"ALTER PUBLICATION {quoted} SET (publish_via_partition_root = true); before walbridge init",
        )
    yield from _unlike_settings(name, settings, tables)


def _unlike_settings(name: str, settings: Settings, tables: Sequence[PublishedTable]) -> Iterator[Finding]:
    wanted = set(map(qualified, settings.postgres.publication_tables))
    missing = sorted(wanted - {table.qualified_name for table in tables})
    if wanted and missing:
        yield warning(
            PUBLICATION,
            f"{name} does not publish {', '.join(missing)}, which publication_tables names",
            "mend [postgres] publication_tables; or add those tables to the publication: the producer copies them",
        )


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
    found = 0
    unfit = chain(_unfit_identities(connection, settings, tables), _unreadable(connection, settings, tables))
    cases = [*table_cases(connection, tables)]
    compaction = (
        refused(TABLES, fault)
        for case in cases
        if case.schema is not None
        for fault in uncompactable(settings, case.schema)
    )
    for finding in chain(*(judged(case, facts) for case in cases), unfit, compaction):
        found += 1
        yield finding
    for name in sorted(settings.topics.compacted - {table.qualified_name for table in tables}):
        found += 1
        yield warning(
            TABLES, f"[topics.cleanup] names {name}, which is not published", "correct the name, or leave it out"
        )
    coming = [table for table in tables if table.relation_id not in named]
    for fault in foreign_row_faults(connection, settings, coming):
        found += 1
        yield refused(TABLES, fault)
    names = []
    for table in coming:
        try:
            names.append(data_topic(settings.name, table.namespace, table.name, settings.topics.names))
            table_path(table.namespace, table.name)
        except OperatorError as refusal:
            found += 1
            yield refused(TABLES, refusal)
    try:
        own = (topic(settings.name) for topic in _CONTROL_TOPICS)
        refuse_topic_collisions([*own, *event_topics_of_no_table(settings), *names])
    except OperatorError as refusal:
        found += 1
        yield refused(TABLES, refusal)
    if not found and tables:
        yield ok(TABLES, f"{_tables(len(tables))}: each can be followed, topic names do not collide")


def _unreadable(connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]) -> Iterator[Finding]:
    """What cannot come in binary, where that is asked for."""
    return (refused(TABLES, fault) for fault in binary_faults(connection, settings, tables))


def _unfit_identities(
    connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]
) -> Iterator[Finding]:
    """What the producer refuses at its start, unless it is set to leave such a table when it happens."""
    for fault in chain(publication_faults(settings, tables), partition_faults(connection, settings, tables)):
        yield refused(TABLES, fault)
    for fault in filter_faults(connection, settings, tables):
        stops = settings.producer.on_unknown_value == "refuse"
        yield refused(TABLES, fault) if stops else warning(TABLES, fault.what, fault.remedy)


def table_cases(connection: SqlConnection, tables: Sequence[PublishedTable]) -> Iterator[TableCase]:
    """Each table with what its judgement needs."""
    relation_ids = [table.relation_id for table in tables]
    changes = dict(_rows(connection, _TABLE, (relation_ids,)))
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
            quoted=_quoted(table),
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
        yield make(
            TABLES, f"{case.name} has no replica identity: Postgres refuses UPDATE and DELETE of it{had}", remedy
        )
    elif case.replica_identity == "f" and not case.has_key:
        yield advice(
            TABLES,
            f"{case.name} has identity FULL and no key: an update searches the whole lake table, and its topic "
            "has one partition",
            key,
        )


def _tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"


def _quoted(table: PublishedTable) -> str:
    return sql.Identifier(table.namespace, table.name).as_string(None)


def _rows(connection: SqlConnection, query: str, parameters: tuple[Any, ...]) -> list[Any]:
    try:
        return connection.execute(query.encode(), parameters).fetchall()
    except psycopg.Error as failure:
        raise classified(failure) from None
