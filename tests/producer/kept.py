"""A producer without servers: real batches, tables, progress and records, between peers that keep what they are told.

``happened`` is the order of it all: what an order between Kafka and Postgres must be is asserted there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.producer.streaming_progress import STREAMING, whole
from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.encoding.copied_rows import EncodedRow
from walbridge.producer.encoding.kafka_record import Headers
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.guards.doubts.storage_comparison import StorageComparison
from walbridge.producer.guards.doubts.stream_facts import StreamFacts
from walbridge.producer.guards.news.altered_tables import AlteredTable
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.kafka.control_topics import MetadataWriter
from walbridge.producer.kafka.described_topic import DescribedTopic
from walbridge.producer.kafka.kafka_transaction import BatchAborted
from walbridge.producer.kafka.publisher import ControlRecord, Publisher
from walbridge.producer.kafka.topic_descriptions import TopicDescriptions
from walbridge.producer.kafka.topic_specs import TopicSpec
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable, TableFacts
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.cut import Cut, PartitionId, PartitionRange, decode_cut
from walbridge.schemas.control.metadata_record import RelationRecord, TypeRecord
from walbridge.schemas.control.progress_record import Progress, read_back
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, free_topic, progress_topic, transaction_topic

SETTINGS = Settings(name="p")
PROGRESS = progress_topic(SETTINGS.name)
ORDERS, ITEMS = 16_384, 16_390
"""Relation ids."""
INT4, TEXT = 23, 25
XID = 700
"""Of the transaction that is being read."""


@dataclass(frozen=True)
class Row:
    """As it was queued; partition -1: by its key."""

    topic: str
    key: bytes | None
    value: bytes
    partition: int


@dataclass
class Batch:
    """What one Kafka transaction holds."""

    rows: list[Row]
    topics: list[str]
    """Of the control records, in their order."""
    progress: Progress
    cut: Cut | None = None
    told: list[tuple[str, str]] = field(default_factory=list)
    """Keys and values of begins and ends of transactions."""


class Kafka:
    """Stands for the publisher."""

    def __init__(self, happened: list[str], progress: Progress) -> None:
        self.happened = happened
        self.batches: list[Batch] = []
        self.progress_topic = whole(progress)
        self.expected: list[RelationRecord] = []
        self.rows: list[Row] = []
        self.refuses = False

    def begin(self) -> None:
        self.happened.append("begin")
        self.rows = []

    def expect(self, relation: RelationRecord) -> None:
        self.happened.append(f"expect {relation.table.qualified_name}")
        self.expected.append(relation)

    def send(self, topic: str, key: bytes | None, value: bytes, headers: Headers = None, partition: int = -1) -> None:
        self.rows.append(Row(topic, key, value, partition))

    def send_rows(self, topic: str, rows: Iterable[EncodedRow], end: bytes) -> None:
        for key, value in rows:
            self.send(topic, key, value + end)

    def delivered_ranges(self) -> list[PartitionRange]:
        topics = sorted({row.topic for row in self.rows})
        counts = {topic: sum(row.topic == topic for row in self.rows) for topic in topics}
        return [PartitionRange(topic, 0, 0, count, count) for topic, count in counts.items()]

    def commit(self, control_records: list[ControlRecord]) -> None:
        if self.refuses:
            raise BatchAborted("simulated")
        slot = (self.progress_topic[-1][0] or b"").decode()
        self.progress_topic += [(key, value) for topic, key, value in control_records if topic == PROGRESS]
        cut = next((value for topic, _, value in control_records if topic == cuts_topic(SETTINGS.name)), None)
        progress = read_back(slot, reversed(self.progress_topic))
        assert progress is not None
        topics = [topic for topic, _, _ in control_records]
        told = [
            ((key or b"").decode(), (value or b"").decode())
            for topic, key, value in control_records
            if topic == transaction_topic(SETTINGS.name)
        ]
        self.batches.append(Batch(self.rows, topics, progress, None if cut is None else decode_cut(cut), told))
        self.happened.append("commit")

    def abort(self) -> None:
        self.happened.append("abort")


class Metadata:
    """Stands for the writer of the metadata topic."""

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened
        self.records: list[RelationRecord | TypeRecord] = []

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def on_wait(self) -> None:
        """Nothing waits."""

    def write(self, records: list[RelationRecord | TypeRecord]) -> None:
        self.happened.append("metadata")
        self.records += records


class Admin:
    """Stands for the broker's topics: those that are asked for are made."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.deleted: set[str] = set()
        self.ids: dict[str, str] = {}
        """Of topics that were made anew."""
        self.answers = True
        """Whether what is asked is answered at once."""
        self.asked_count = 0
        """Calls of ``ensure``."""
        self.ends: dict[PartitionId, int] = {}
        """Of partitions that end before they should."""

    def ensure(self, specs: Iterable[TopicSpec]) -> dict[str, int]:
        self.asked_count += 1
        for spec in specs:
            self.counts.setdefault(spec.name, spec.partition_count)
        return self.counts

    def partition_counts(self) -> dict[str, int]:
        return self.counts

    def partition_counts_of(self, names: Collection[str]) -> dict[str, int]:
        return {name: self.counts[name] for name in names if name in self.counts}

    def describe(self, names: Iterable[str]) -> TopicDescriptions:
        asked = list(names)
        there = [name for name in asked if name not in self.deleted]
        found = {name: DescribedTopic(self.ids.get(name, "one"), self.counts.get(name, 1)) for name in there}
        answer = SimpleNamespace(names=frozenset(asked), is_answered=self.answers, found=lambda: found)
        return cast(TopicDescriptions, answer)

    def cut_short(self, ends: Mapping[PartitionId, int]) -> set[str]:
        return {topic for (topic, number), end in ends.items() if self.ends.get((topic, number), end) < end}

    def check(self, specs: Iterable[TopicSpec]) -> None:
        """Nobody changes a setting."""


class Stream:
    """Stands for the stream: frames that have arrived, and what Postgres was told."""

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened
        self.frames: deque[bytes] = deque()
        self.later: deque[bytes] = deque()
        """Each arrives while the session waits."""
        self.received = Lsn(0)
        self.owed_s: float | None = None
        """Within which a status is owed."""

    def read(self) -> bytes | None:
        return self.frames.popleft() if self.frames else None

    def wait(self, timeout_s: float) -> None:
        self.happened.append("wait")
        if self.later:
            self.frames.append(self.later.popleft())

    def note_received(self, lsn: Lsn) -> None:
        self.received = max(self.received, lsn)

    def confirm(self, lsn: Lsn) -> None:
        assert lsn <= self.received, "I1: the server has not reported it"
        self.happened.append(f"confirm {lsn}")

    def send_status(self) -> None:
        self.happened.append("status")

    def owe_status(self, within_s: float) -> None:
        """It is late."""
        self.owed_s = within_s

    def keep_alive(self) -> None:
        """None is due."""


@dataclass
class AtCut:
    """Notes which tables cuts drop; ``before_cut_at`` is called where a batch ends."""

    dropped: list[int] = field(default_factory=list)
    before_cut_at: Callable[[Lsn], None] = lambda lsn: None

    def drop(self, relation_id: int) -> None:
        self.dropped.append(relation_id)


class Watch:
    """Stands for the source watch: tables that left, each from an LSN on, and tables that came."""

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened
        self.leaving: dict[int, int] = {}
        self.renamed: dict[int, tuple[str, str]] = {}
        self.altered: dict[int, AlteredTable] = {}
        self.names: dict[int, tuple[str, str]] = {}
        self.doubts: Doubts
        self.stream_facts: StreamFacts
        self.storage: StorageComparison
        self.awaits = False
        """Whether what comes next may end a doubt."""
        self.fault: Exception | None = None
        self.appeared: set[int] = set()
        self.xid = 1
        """The next one."""
        self.unfit: Exception | None = None
        """Of tables that are to be copied."""
        self.lost: dict[str, OperatorError] = {}
        """Topics that a table's next copy may not go into."""
        self.there: dict[str, DescribedTopic | None] = {}
        """Topics that are not as all others: None where there is none."""
        self.topics = self.now = self.news = self
        self.strangers: set[int] = set()
        """Tables that are no members of the publication any more."""
        self.missing_in_catalogue: set[int] = set()
        """Tables that are gone from the catalogue."""

    def look(self) -> None:
        self.happened.append("look")
        if self.fault is not None:
            raise self.fault

    def is_renamed_at(self, lsn: Lsn) -> bool:
        return bool(self.renamed or self.altered)

    def take_renamed(self, lsn: Lsn) -> dict[int, tuple[str, str]]:
        renamed, self.renamed = self.renamed, {}
        return renamed

    def take_altered(self, lsn: Lsn) -> dict[int, AlteredTable]:
        altered, self.altered = self.altered, {}
        return altered

    def names_of(self, relation_ids: Iterable[int]) -> dict[int, tuple[str, str]]:
        return {each: self.names[each] for each in relation_ids if each in self.names}

    def look_if_due(self) -> None:
        """It is not."""

    def look_before_cut(self) -> None:
        """It shows nothing new."""

    def may_be_explained(self, end: Lsn, received: Lsn) -> bool:
        return self.awaits

    def look_at(self, relation_id: int, xid: int) -> None:
        """It shows nothing new."""

    def take_dropped(self, lsn: Lsn) -> set[int]:
        gone = {relation_id for relation_id, since in self.leaving.items() if since <= lsn}
        self.leaving = {each: since for each, since in self.leaving.items() if each not in gone}
        return gone

    def take_appeared(self) -> set[int]:
        appeared, self.appeared = self.appeared, set()
        return appeared

    def next_xid(self) -> int:
        self.happened.append("xid")
        self.xid += 1
        return self.xid - 1

    @property
    def walsender_cache(self) -> Watch:
        return self

    def knows_partitions_of(self, table: TableProgress) -> bool:
        return True

    def knows_membership_of(self, table: TableProgress) -> bool:
        return True

    def refuse_copy(self, table: PublishedTable) -> None:
        if self.unfit is not None:
            raise self.unfit

    def why_lost(self, record: RelationRecord) -> OperatorError | None:
        return self.lost.get(record.topic)

    def found(self, topic: str) -> DescribedTopic | None:
        return self.there.get(topic, DescribedTopic("one", 1))

    def free_topic(self, wanted: str, taken: Iterable[str]) -> str:
        return free_topic(wanted, taken)

    def baseline_of(self, table: TableProgress) -> TableProgress:
        membership = None if table.relation_id in self.strangers else "of its own"
        return replace(table, topic=f"p.{table.name}", topic_id="one", membership=membership)


@dataclass
class Kept:
    """One producer's parts, with peers that keep what they are told."""

    settings: Settings = SETTINGS
    progress: Progress = STREAMING
    known: list[RelationRecord | TypeRecord] = field(default_factory=list)
    """What the metadata topic holds."""

    def __post_init__(self) -> None:
        self.happened: list[str] = []
        self.kafka, self.metadata = Kafka(self.happened, self.progress), Metadata(self.happened)
        self.kept_stream, self.kept_watch = Stream(self.happened), Watch(self.happened)
        self.admin = Admin()
        self.stream = cast(ReplicationStream, self.kept_stream)
        self.watch = cast(SourceWatch, self.kept_watch)
        self.cache = RelationCache(self.settings.name, self.known)
        self.tracker = ProgressTracker(self.progress)
        publisher, metadata = cast(Publisher, self.kafka), cast(MetadataWriter, self.metadata)
        self.out = OpenBatch(self.settings, publisher, metadata, self.tracker)
        self.tables = Tables(
            self.settings, CONNECTION, cast(TopicAdmin, self.admin), self.cache, metadata, publisher, "shop"
        )
        self.kept_watch.doubts = doubts = Doubts(self.settings, self.tables, self.tracker)
        self.kept_watch.stream_facts = StreamFacts(self.settings, CONNECTION, self.tables, self.tracker, doubts)
        self.kept_watch.storage = StorageComparison(
            self.settings, CONNECTION, self.tables, self.tracker, self.kept_watch.stream_facts, doubts
        )

    @property
    def last(self) -> Batch:
        """What was committed last."""
        return self.kafka.batches[-1]


CONNECTION = cast(SqlConnection, SimpleNamespace(info=SimpleNamespace(server_version=180006)))


def relation(
    relation_id: int = ORDERS, *more: RelationColumn, name: str | None = None, identity: str = "d"
) -> Relation:
    """A table with the key ``id`` and a ``note``."""
    id_column = RelationColumn(identity != "n", "id", INT4, -1)
    columns = (id_column, RelationColumn(identity == "f", "note", TEXT, -1), *more)
    return Relation(relation_id, "public", name or {ORDERS: "orders", ITEMS: "items"}[relation_id], identity, columns)


@contextmanager
def catalogue(facts: Mapping[int, TableFacts] | None = None, **more: Any) -> Iterator[None]:
    """What the catalogue knows of tables, unless told more; of a table that it does not know, nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "table_facts", lambda connection, relation_id: (facts or {}).get(relation_id))
        patch.setattr(catalog, "tables_facts", lambda connection, relation_ids: (facts or {}, None))
        patch.setattr(catalog, "wait_for_alterations", lambda *_: None)
        patch.setattr(catalog, "type_facts", lambda *_: {})
        for name, value in more.items():
            patch.setattr(catalog, name, value)
        yield
