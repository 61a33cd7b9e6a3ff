"""``walbridge init``: what must be there before ``walbridge produce``, and the SQL of its role.

In: settings. Out: the publication (if ``publication_tables`` asks for one and it is missing), all
topics, the slot, and the SQL of the role for a person to run, where there is none yet. The slot
holds the place: the producer's first start makes it anew, since the snapshot that the copy reads
lives no longer than the connection that makes it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from walbridge.producer.errors.publications import not_published, publication_gone
from walbridge.producer.errors.tables import dropped_meanwhile
from walbridge.producer.guards.unfit.foreign_rows import refuse_foreign_rows
from walbridge.producer.guards.unfit.publication_faults import refuse_unsent_operations
from walbridge.producer.guards.unfit.replica_identity import refuse_unfit_identities
from walbridge.producer.kafka.control_topics import read_progress
from walbridge.producer.kafka.topic_specs import TopicSpec, control_topics, data_topic_spec, status_topic_spec
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.named_publications import refuse_making_again
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import connect_sql, retry_at_start
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.requirements import ensure_publication, refuse_unfit_server
from walbridge.producer.postgres.slots import slot
from walbridge.producer.relations.table_description import announced, describe
from walbridge.producer.start import refuse_slot_of_others, reserve_slot, unless_copied_again
from walbridge.role import DEFAULT_ROLE, role_sql
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.schemas.table_names import split_name
from walbridge.schemas.topics import data_topic, progress_topic, refuse_topic_collisions


@dataclass(frozen=True, slots=True)
class Initialised:
    """What exists after ``walbridge init``.

    ``publications``, ``slot_is_new``: whether this run made them. ``topics``: their partitions. ``role_sql``: of a
    least-privileged role, for a person to run; empty where the role exists.
    """

    publications: Mapping[str, bool]
    topics: Mapping[str, int]
    slot: str
    slot_is_new: bool
    role: str
    role_sql: str

    def as_json(self, pipeline: str) -> str:
        """One object; ``docs/json.md`` has its fields."""
        return json.dumps(
            {
                "pipeline": pipeline,
                "publications": [{"name": name, "created": new} for name, new in self.publications.items()],
                "topics": [{"name": name, "partitions": count} for name, count in self.topics.items()],
                "slot": {"name": self.slot, "created": self.slot_is_new},
                "role": {"name": self.role, "exists": not self.role_sql, "sql": self.role_sql or None},
            },
            ensure_ascii=False,
        )


def initialise(
    settings: Settings, role: str | None, say: Callable[[str], None], *, prepared: Mapping[str, bool] | None = None
) -> Initialised:
    """Make what is missing, check what is there.

    Args:
        role: its name; None for the role of the connection, or walbridge where that is an administrator's.
        prepared: the publications, if they and the role were just made (``administrator``): then not told again.

    Raises:
        OperatorError: a server does not answer or does not fit, a topic has other settings.
    """
    dsn = dsn_of(settings)
    timeout_s = settings.postgres.start_timeout_s
    with retry_at_start(lambda: connect_sql(dsn, "walbridge init"), timeout_s) as connection:
        publications = ensure_publications(connection, settings, say if prepared is None else lambda line: None)
        tables = catalog.published_tables(connection, settings.postgres.publication_names)
        if not tables:
            raise not_published(settings.postgres.publication_names)
        refuse_unfit_identities(connection, settings, tables)
        if slot.inspect(connection, settings.postgres.slot) is None:  # else it was copied, or its start refuses
            refuse_unsent_operations(settings, tables)
            refuse_foreign_rows(connection, settings, tables)
        specs = [*control_topics(settings), *_data_topics(connection, settings, tables)]
        counts = retry_at_start(lambda: TopicAdmin(settings).ensure(specs), timeout_s)
        for name, count in counts.items():
            say(f"topic {name}: partitions {count}")
        counts |= _ensure_status_topic(settings, say)
        made = retry_at_start(lambda: reserve_slot(settings), timeout_s)
        found = "created; it keeps WAL until walbridge produce runs" if made else "exists"
        say(f"slot {settings.postgres.slot}: {found}")
        if prepared is None:
            role, printed = _role_to_make(connection, role, tables, say)
        else:
            role, printed = role or connection.info.user, ""
    return Initialised(prepared or publications, counts, settings.postgres.slot, made, role, printed)


def _role_to_make(
    connection: psycopg.Connection[Any], role: str | None, tables: Sequence[PublishedTable], say: Callable[[str], None]
) -> tuple[str, str]:
    """The role's name, and the SQL that makes it; none where it exists."""
    named = role or (DEFAULT_ROLE if catalog.may_make_roles(connection) else connection.info.user)
    if catalog.role_exists(connection, named):
        say(f"role {named}: exists; walbridge check says which rights it lacks")
        return named, ""
    return named, role_sql(connection.info.dbname, named, [(table.namespace, table.name) for table in tables])


def _ensure_status_topic(settings: Settings, say: Callable[[str], None]) -> dict[str, int]:
    """Make the status topic. If that fails it is only said: the pipeline works without this topic."""
    spec = status_topic_spec(settings)
    try:
        TopicAdmin(settings).ensure([spec])
    except OperatorError as error:
        say(f"topic {spec.name}: {error.what}; without it nobody is told why walbridge produce ended: {error.remedy}")
    except RetryableError as error:
        say(f"topic {spec.name}: {error}; walbridge produce makes it")
    else:
        say(f"topic {spec.name}: partitions {spec.partition_count}")
        return {spec.name: spec.partition_count}
    return {}


def ensure_publications(
    connection: psycopg.Connection[Any], settings: Settings, say: Callable[[str], None]
) -> dict[str, bool]:
    """Make the publications that are missing, and say so. Returns for each name whether it is new. Raises as
    ``initialise``."""
    names = settings.postgres.publication_names
    missing = [name for name in names if not catalog.publication_exists(connection, name)]
    refuse_unfit_server(connection, settings)
    if missing and (found := slot.inspect(connection, settings.postgres.slot)) is not None:
        # An administrator's settings have no password for Kafka: then a slot of this name is taken for ours.
        if settings.kafka.client_files.keys() <= settings.kafka.client.keys():
            retry_at_start(lambda: refuse_slot_of_others(settings, found), settings.postgres.start_timeout_s)
            _refuse_making_again(connection, settings, missing)
        else:
            raise publication_gone(missing)
    ensure_publication(connection, settings)
    for name in names:
        say(f"publication {name}: {'created' if name in missing else 'exists'}")
    _warn_of_left_out(connection, settings, say)
    return {name: name in missing for name in names}


def _refuse_making_again(connection: psycopg.Connection[Any], settings: Settings, missing: Sequence[str]) -> None:
    """As ``named_publications``, with progress as Kafka has it; unless all tables are to be copied again.

    Raises:
        StreamLost: one was followed.
    """
    is_there = TopicAdmin(settings).partition_counts_of([progress_topic(settings.name)])
    progress = read_progress(settings) if is_there else None
    if progress is None:  # the slot had another name's pipeline before
        raise publication_gone(missing)
    with unless_copied_again(settings, progress):
        refuse_making_again(settings, connection, progress, missing)


def _warn_of_left_out(connection: psycopg.Connection[Any], settings: Settings, say: Callable[[str], None]) -> None:
    """Warn of tables in publication_tables that an existing publication lacks, as ``walbridge check`` does: it is not
    altered."""
    names, wanted = settings.postgres.publication_names, set(map(split_name, settings.postgres.publication_tables))
    published = {(table.namespace, table.name) for table in catalog.published_tables(connection, names)}
    if left_out := sorted(wanted - published):
        tables = ", ".join(sql.Identifier(*table).as_string(connection) for table in left_out)
        add = f"ALTER PUBLICATION {sql.Identifier(names[0]).as_string(connection)} ADD TABLE {tables};"
        say(f"publication {names[0]}: does not publish all that publication_tables names, and is left as it is: {add}")


def _data_topics(
    connection: psycopg.Connection[Any], settings: Settings, tables: Sequence[PublishedTable]
) -> list[TopicSpec]:
    specs, compacted = [], settings.topics.compacted
    for table in tables:
        facts = catalog.table_facts(connection, table.relation_id)
        if facts is None:
            raise dropped_meanwhile(table.qualified_name)
        relation = announced(table, facts)
        types = catalog.type_facts(connection, {column.type_oid for column in relation.columns})
        topic = data_topic(settings.name, table.namespace, table.name, settings.topics.names)
        has_key, is_compacted = bool(describe(relation, facts, types).key_columns), table.qualified_name in compacted
        specs.append(data_topic_spec(settings, topic, has_key=has_key, is_compacted=is_compacted))
    refuse_topic_collisions(spec.name for spec in [*control_topics(settings), status_topic_spec(settings), *specs])
    return specs
