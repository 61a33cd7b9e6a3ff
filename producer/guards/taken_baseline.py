"""Takes the baseline of a copy or a session from the catalogue and the broker as they are now."""

from collections.abc import Iterable
from dataclasses import replace

from walbridge.producer.guards.baseline import Baseline
from walbridge.producer.guards.doubts.rewrites import as_text
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.publications.publication import publication_state
from walbridge.producer.postgres.storage.table_files import table_storages
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.errors import KafkaAway
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, metadata_topic


def taken_baseline(
    settings: Settings,
    admin: TopicAdmin,
    tables: Tables,
    wanted_tables: Iterable[TableProgress],
    connection: SqlConnection,
) -> Baseline:
    """The baseline with these tables.

    Args:
        connection: shows the catalogue that counts, which may be that of a snapshot.

    Raises:
        RetryableError: a server is away, or does not know all topics yet.
    """
    wanted = {table.relation_id: table for table in wanted_tables}
    state = publication_state(connection, settings.postgres.publication_names, wanted)
    storages = table_storages(connection, wanted, settings.postgres.publication_names)
    control = [metadata_topic(settings.name), cuts_topic(settings.name)]
    topics = {relation.table.relation_id: relation.topic for relation in tables.versions.newest(wanted)}
    needed = {*control, *topics.values()}
    ids = {topic: found.topic_id for topic, found in admin.describe([*control, *topics.values()]).found().items()}
    if unknown := sorted(needed - ids.keys()):
        # A broker may not have heard of them yet, and the baseline is written only once.
        raise KafkaAway(f"the broker does not know all topics yet, {len(unknown)} of them, {unknown[0]} for one")
    known = {
        each: replace(
            table,
            topic=topics.get(each),
            topic_id=ids.get(topics.get(each, "")),
            membership=state.members.get(each),
            storage=as_text(storages[each]) if each in storages else None,
        )
        for each, table in wanted.items()
    }
    oids = frozenset(state.oids.values())
    return Baseline(oids, known, {topic: ids[topic] for topic in control}, state.generated_columns)
