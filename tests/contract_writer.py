"""Writes what the producer would: Relation records, events and a cut, in real Kafka transactions.

Events are given as values; every ``send`` is one Kafka transaction that ends in a cut. So the
Spark job is tested against the contract alone, without Postgres and without the producer.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.contract_events import (
    Barriers,
    ColumnSpec,
    Event,
    Row,
    copy_barriers,
    described,
    encode_event,
    encode_key,
    last_commit,
)
from tests.log_ends import LogEnds
from walbridge.schemas.avro.codec import schema_id
from walbridge.schemas.avro.schema import key_schema, value_schema
from walbridge.schemas.control.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges, encode_cut
from walbridge.schemas.control.metadata_record import RelationRecord, encode_metadata
from walbridge.schemas.position import COPIED_ORDINAL
from walbridge.schemas.table_schema import TableSchema
from walbridge.schemas.topics import cuts_topic, data_topic, metadata_topic

WAIT_S = 60
FIRST_EPOCH = Epoch("7000000000000000001", 1, "walbridge", 0x1000)


# Whoever writes needs what is written.
__all__ = ["ColumnSpec", "ContractWriter", "Event", "copy_barriers", "encode_event", "encode_key"]


@dataclass
class _Sent:
    topic: str
    partition: int
    offset: int


@dataclass
class ContractWriter:
    """A producer of one epoch. ``end_lsn`` and ``cut_id`` go on by themselves."""

    bootstrap_servers: str
    pipeline: str
    epoch: Epoch = FIRST_EPOCH
    cut_id: int = 0
    end_lsn: int = 0
    metadata_end_offset: int = 0
    relations: list[RelationRecord] = field(default_factory=list)
    _topics: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.end_lsn = self.end_lsn or self.epoch.consistent_point
        self._metadata = Producer(
            {"bootstrap.servers": self.bootstrap_servers, "enable.idempotence": True, "log_level": 2}
        )
        self._producer = self._transactional_producer()
        self._log_ends = LogEnds(self.bootstrap_servers)
        self._make_topic(metadata_topic(self.pipeline), 1, {"cleanup.policy": "compact"})
        self._make_topic(cuts_topic(self.pipeline), 1, {})

    def _transactional_producer(self, name: str = "contract") -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "transactional.id": f"{self.pipeline}-{name}",
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                # A new topic refuses a first batch now and then, and then a later one must not speak for it.
                "max.in.flight.requests.per.connection": 1,
                # Tests kill the broker, and producers outlive it: nothing of that is news.
                "log_level": 2,
            }
        )
        producer.init_transactions(WAIT_S)
        return producer

    def _make_topic(self, topic: str, partitions: int, config: dict[str, str]) -> None:
        if topic in self._topics:
            return
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        made = admin.create_topics([NewTopic(topic, partitions, 1, config=config)], operation_timeout=WAIT_S)
        error = made[topic].exception(WAIT_S)
        if error and "already exists" not in str(error):
            raise error
        self._topics.add(topic)

    def relation(
        self,
        name: str,
        columns: Sequence[ColumnSpec],
        *,
        relation_id: int,
        namespace: str = "public",
        replica_identity: str = "d",
        partitions: int = 1,
        revision: int = 0,
        announce: bool = True,
    ) -> RelationRecord:
        """Create the topic, announce the Relation (I2), return its record."""
        of_table = tuple(described(spec, attnum, replica_identity) for attnum, spec in enumerate(columns, 1))
        table = TableSchema(relation_id, namespace, name, replica_identity, of_table)
        value, key = value_schema(self.pipeline, table, revision), key_schema(self.pipeline, table, revision)
        topic = data_topic(self.pipeline, namespace, name)
        record = RelationRecord(
            table,
            topic,
            partitions,
            schema_id(value),
            json.dumps(value),
            schema_id(key) if key else None,
            json.dumps(key) if key else None,
            revision,
        )
        self._make_topic(topic, partitions, {})
        if announce:
            self._announce(record)
        self.relations.append(record)
        return record

    def _announce(self, record: RelationRecord) -> None:
        delivered: list[_Sent] = []
        self._metadata.produce(
            metadata_topic(self.pipeline),
            key=record.key,
            value=encode_metadata(record),
            on_delivery=_collect_into(delivered),
        )
        assert self._metadata.flush(WAIT_S) == 0
        self.metadata_end_offset = delivered[0].offset + 1

    def send(
        self,
        events: Sequence[Event] = (),
        *,
        end_lsn: int | None = None,
        barriers: Barriers = (),
        complete: bool = True,
        alter: Mapping[str, Any] | None = None,
    ) -> Cut:
        """One Kafka transaction: the events, then the cut. ``alter`` replaces fields of the cut (to break it).

        An incomplete cut ends where the one before it ended. Readers see it when this returns.
        """
        self._producer.begin_transaction()
        delivered: list[_Sent] = []
        for event in events:
            self._produce(event, delivered)
        assert self._producer.flush(WAIT_S) == 0
        cut = self._cut(events, delivered, barriers, end_lsn, complete)
        cut = replace(cut, **(alter or {}))
        self._producer.produce(cuts_topic(self.pipeline), value=encode_cut(cut))
        self._producer.commit_transaction(WAIT_S)
        self._log_ends.wait_visible(cuts_topic(self.pipeline))
        self.cut_id, self.end_lsn = cut.cut_id, cut.end_lsn
        return cut

    def abort(self, events: Sequence[Event]) -> None:
        """A transaction that is aborted: its records are in the log, no reader may see them."""
        self._producer.begin_transaction()
        for event in events:
            self._produce(event, [])
        self._producer.flush(WAIT_S)
        self._producer.abort_transaction(WAIT_S)

    @contextmanager
    def open_transaction(self, events: Sequence[Event]) -> Iterator[None]:
        """Another producer's transaction, open within the block and committed after it."""
        mine, self._producer = self._producer, self._transactional_producer("other")
        try:
            self._producer.begin_transaction()
            for event in events:
                self._produce(event, [])
            assert self._producer.flush(WAIT_S) == 0
            yield
            self._producer.commit_transaction(WAIT_S)
        finally:
            self._producer = mine

    def copy(self, rows: Sequence[tuple[RelationRecord, Sequence[Row]]], *, complete: bool = True) -> Cut:
        """The first copy of these tables in one cut, at the epoch's consistent point."""
        lsn = self.epoch.consistent_point
        events: list[Event] = []
        barriers: list[tuple[RelationRecord, Barrier]] = []
        for relation, copied in rows:
            events.append(Event(relation, "t", lsn, -1))
            events += [Event(relation, "r", lsn, -1, after=row) for row in copied]
            barriers += copy_barriers(relation, lsn)
        return self.send(events, end_lsn=lsn, barriers=barriers, complete=complete)

    def new_epoch(self, consistent_point: int) -> None:
        """The slot was made anew: cuts count from 1 again."""
        self.epoch = self.epoch._replace(consistent_point=consistent_point)
        self.cut_id, self.end_lsn = 0, consistent_point

    def _produce(self, event: Event, delivered: list[_Sent]) -> None:
        value, key = encode_event(event, self.pipeline), encode_key(event)
        everywhere = event.has_no_row and event.partition is None
        places: Sequence[int | None] = range(event.relation.partition_count) if everywhere else [event.partition]
        if event.has_no_row:
            key = None
        for place in places:
            if place is None and key is None:
                place = 0
            self._produce_one(event.relation.topic, key, value, -1 if place is None else place, delivered)

    def _produce_one(self, topic: str, key: bytes | None, value: bytes, partition: int, delivered: list[_Sent]) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, partition, _collect_into(delivered))
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _cut(
        self,
        events: Sequence[Event],
        delivered: Sequence[_Sent],
        barriers: Barriers,
        end_lsn: int | None,
        complete: bool,
    ) -> Cut:
        newest = max((event.commit_lsn for event in events), default=None)
        if not complete:
            end_lsn = self.end_lsn
        elif end_lsn is None:
            end_lsn = newest + 8 if newest is not None else self.end_lsn
        last = last_commit(events)
        return Cut(
            epoch=self.epoch,
            cut_id=self.cut_id + 1,
            previous_end_lsn=self.end_lsn,
            end_lsn=end_lsn,
            commit_lsn=last,
            commit_time_us=1_700_000_000_000_000 + last if last is not None else None,
            transactions=len({event.commit_lsn for event in events if event.ordinal != COPIED_ORDINAL}),
            complete=complete,
            metadata_end_offset=self.metadata_end_offset,
            partitions=tuple(_ranges(delivered)),
            tables=tuple(_table_changes(events, barriers)),
        )


def _collect_into(delivered: list[_Sent]) -> Any:
    def on_delivery(error: Any, message: Message) -> None:
        if error is not None:
            raise AssertionError(f"not delivered: {error}")
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        delivered.append(_Sent(topic, partition, offset))

    return on_delivery


def _ranges(delivered: Sequence[_Sent]) -> list[PartitionRange]:
    offsets: dict[tuple[str, int], list[int]] = {}
    for sent in delivered:
        offsets.setdefault((sent.topic, sent.partition), []).append(sent.offset)
    return [PartitionRange(*place, min(all_), max(all_) + 1, len(all_)) for place, all_ in sorted(offsets.items())]


def _table_changes(events: Sequence[Event], barriers: Barriers) -> list[TableChanges]:
    records: dict[int, list[RelationRecord]] = {}
    counts: dict[int, int] = {}
    for event in events:
        relation_id = event.relation.table.relation_id
        seen = records.setdefault(relation_id, [])
        if event.relation not in seen:
            seen.append(event.relation)
        everywhere = event.has_no_row and event.partition is None
        counts[relation_id] = counts.get(relation_id, 0) + (event.relation.partition_count if everywhere else 1)
    for relation, _ in barriers:
        records.setdefault(relation.table.relation_id, [relation])
    return [
        TableChanges(
            relation_id,
            versions[0].topic,
            tuple(version.schema_id for version in versions),
            counts.get(relation_id, 0),
            tuple(barrier for of, barrier in barriers if of.table.relation_id == relation_id),
        )
        for relation_id, versions in records.items()
    ]
