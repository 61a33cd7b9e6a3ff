"""Which of Postgres and Kafka answer, and the facts that later checks compare, asked from each at once."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from walbridge.check.finding import Finding, ok
from walbridge.check.source import server
from walbridge.control_records import newest_progress, relations
from walbridge.producer.kafka.topic_specs import control_topics, status_topic_spec
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, connect_sql, retry_at_start
from walbridge.producer.postgres.facts import PublishedTable, ServerIdentity, SlotState
from walbridge.producer.postgres.slots import slot
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.schemas.topics import transaction_topic

ANSWER_S = 5.0
"""How long an answer may take: a peer answers at once, except on a busy machine."""


@dataclass(slots=True)
class Reached:
    """The answers of the peers. None for a peer that did not answer."""

    settings: Settings
    connection: SqlConnection | None = None
    identity: ServerIdentity | None = None
    slot_state: SlotState | None = None
    tables: list[PublishedTable] = field(default_factory=list)
    is_locked: bool = False
    """Whether a published table is being altered, so that the published tables cannot be listed."""
    admin: TopicAdmin | None = None
    counts: dict[str, int] | None = None
    progress: Progress | None = None
    relations: list[RelationRecord] = field(default_factory=list)

    @property
    def connected(self) -> SqlConnection:
        """For checks that are made only where Postgres answered."""
        assert self.connection is not None
        return self.connection

    @property
    def topics(self) -> TopicAdmin:
        """For checks that are made only where Kafka answered: what one of them has asked, the next need not ask."""
        assert self.admin is not None
        return self.admin

    @property
    def streams(self) -> Progress | None:
        """The progress of a pipeline that has begun to stream."""
        return self.progress if self.progress is not None and self.progress.state == "streaming" else None

    def answers(self, peer: str) -> bool:
        """Whether this peer answered, and answered all that was asked."""
        return (self.connection if peer == "Postgres" else self.counts) is not None


def reach_postgres(reached: Reached) -> Iterator[Finding]:
    """A connection, the slot and the published tables."""
    postgres = reached.settings.postgres
    dsn = dsn_of(reached.settings)
    connection = retry_at_start(lambda: connect_sql(dsn, "walbridge check"), ANSWER_S)
    with ExitStack() as on_failure:
        on_failure.callback(connection.close)
        info = connection.info
        yield ok(server.AREA, f"reachable: database {info.dbname} at {info.host}:{info.port}, as {info.user}")
        reached.slot_state = slot.inspect(connection, postgres.slot)
        published = catalog.published_tables_unless_locked(connection, postgres.publication_names)
        reached.tables, reached.is_locked = published or [], published is None
        # Last: without both answers a slot or tables would seem to be missing.
        reached.connection = connection
        on_failure.pop_all()


def reach_kafka(reached: Reached) -> Iterator[Finding]:
    """The pipeline's topics, of which a cluster may have ten thousand others; progress and relation versions."""
    settings = reached.settings
    admin = reached.admin = TopicAdmin(settings, alters=False)
    specs = [*control_topics(settings), status_topic_spec(settings)]
    own = [*(spec.name for spec in specs), transaction_topic(settings.name)]
    counts = retry_at_start(lambda: admin.partition_counts_of(own), ANSWER_S)
    reached.progress = newest_progress(settings, counts)
    reached.relations = relations(settings, counts)
    counts |= admin.partition_counts_of({record.topic for record in reached.relations})
    reached.counts = counts  # last: without all of these answers the slot would seem to be nobody's
    yield from ()
