"""What catalogue and broker say at this moment, whoever of a session asks.

In: tables. Out: their names, their baseline, the state of the publications. Nothing is kept here, so no answer is old.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from walbridge.producer.guards.baseline import Baseline
from walbridge.producer.guards.doubts.rewrites import as_text
from walbridge.producer.guards.doubts.stream_facts import StreamFacts
from walbridge.producer.guards.unfit.foreign_rows import refuse_foreign_rows
from walbridge.producer.guards.unfit.unfit_tables import refuse_unfit
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres.catalog import table_names
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState, PublishedTable
from walbridge.producer.postgres.publications.publication import next_xid, publication_state
from walbridge.producer.postgres.storage.table_files import table_storages
from walbridge.producer.relations.table_names import Name
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.errors import KafkaAway
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, metadata_topic


class SourceNow:
    """The source, asked anew at each call."""

    def __init__(
        self, settings: Settings, connection: SqlConnection, admin: TopicAdmin, tables: Tables, facts: StreamFacts
    ) -> None:
        self._settings, self._connection, self._admin = settings, connection, admin
        self._tables, self._facts = tables, facts

    def publications(self, relation_ids: Iterable[int]) -> PublicationState:
        """The state of the publications. Where archives are allowed, no operation counts as missing."""
        names = self._settings.postgres.publication_names
        state = publication_state(self._connection, names, relation_ids)
        return replace(state, missing_operations=()) if self._settings.postgres.archives else state

    def names_of(self, relation_ids: Iterable[int]) -> dict[int, Name]:
        """The names that these relations have, as far as the catalogue has them."""
        return table_names(self._connection, relation_ids)

    def next_xid(self) -> int:
        """``publication.next_xid``: an xid above those of all transactions that have written until now."""
        return next_xid(self._connection)

    def baseline(self, tables: Iterable[TableProgress], snapshot: SqlConnection | None = None) -> Baseline:
        """The baseline with these tables.

        Args:
            snapshot: a connection whose catalogue counts, where that is not the one of now.

        Raises:
            RetryableError: a server is away, or does not know all topics yet.
        """
        asked, names = snapshot or self._connection, self._settings.postgres.publication_names
        wanted = {table.relation_id: table for table in tables}
        state = publication_state(asked, names, wanted)
        storages = table_storages(asked, wanted, names)
        control = [metadata_topic(self._settings.name), cuts_topic(self._settings.name)]
        topics = {relation.table.relation_id: relation.topic for relation in self._tables.versions.newest(wanted)}
        ids = self._topic_ids([*control, *topics.values()])
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

    def _topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        ids = {topic: found.topic_id for topic, found in self._admin.describe(topics).found().items()}
        if unknown := sorted(set(topics) - ids.keys()):
            # A broker may not have heard of them yet, and the baseline is written only once.
            raise KafkaAway(f"the broker does not know all topics yet, {len(unknown)} of them, {unknown[0]} for one")
        return ids

    def baseline_of(self, table: TableProgress) -> TableProgress:
        """The table with its topic and membership; the membership is None where it is no member.

        Raises:
            RetryableError: a server is away, or does not know the topic yet.
        """
        return self._facts.with_unused_partitions(self.baseline([table]).tables[table.relation_id])

    def refuse_copy(self, table: PublishedTable) -> None:
        """Refuse to copy a table that cannot be followed as it is, or not all of whose rows are followed.

        Raises:
            OperatorError: why.
        """
        refuse_unfit(self._connection, self._settings, [table])
        refuse_foreign_rows(self._connection, self._settings, [table])
