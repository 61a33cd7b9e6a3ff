"""The metadata topic as a reader needs it: relation versions by frame id, and the tables that they are of.

In: ``<p>.metadata``, read further whenever something is not known yet. Out: Relation records. A record is written
before the first event that names it (I2) and never changes: what was read is kept, and reading to the end finds all
that the events read so far name. A relation id is unique in one cluster only: after ``walbridge copy --all`` against
another cluster it may be another table's, in another topic. So this module gives each table a number of its own.
"""

import time
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from confluent_kafka import KafkaError, Message, TopicPartition

from walbridge.consumer.client import ANSWER_S, bounds, partitions_of, reader, refusal
from walbridge.schemas.avro.framing import JSON_KEY, frame_of, is_control_record
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import SYSTEM_HEADER, RelationRecord, decode_metadata
from walbridge.schemas.errors import KafkaAway, OperatorError, ProtocolError, unreadable_record
from walbridge.schemas.json_format.codec import has_key
from walbridge.schemas.topics import metadata_topic

Key = TypeVar("Key")
Value = TypeVar("Value")
_SLICE_S = 0.5


class Relations:
    """Relation versions of one pipeline.

    Raises:
        OperatorError: there is no such pipeline.
        KafkaAway: no broker answers.
    """

    def __init__(self, kafka: Mapping[str, Any], pipeline: str) -> None:
        self.topic = metadata_topic(pipeline)
        self._consumer = reader(kafka)
        self._next_offset = 0
        self._versions: dict[tuple[str, int], RelationRecord] = {}
        self._by_frame: dict[str, RelationRecord] = {}
        self._keys: dict[str, str] = {}
        self._by_key_frame: dict[tuple[str, str | None], RelationRecord] = {}
        """By key frame id and topic, or any topic."""
        self._json_by_topic: dict[str, list[RelationRecord]] = {}
        """Versions of topics with JSON keys, which name no schema, by topic: the oldest first."""
        self._tables: dict[int, tuple[int, str | None]] = {}
        """By relation id: the number of the table that has it now, and its cluster where that is known."""
        self.newest: dict[int, RelationRecord] = {}
        """The newest version, by table number."""
        self.names: dict[str, set[int]] = {}
        """By ``schema.table``: the numbers of all tables that ever had this name."""
        self.topics: dict[int, dict[str, None]] = {}
        """By table number: every topic that its events ever went to, in their order."""
        if partitions_of(self._consumer, self.topic) is None:
            raise OperatorError(
                f"there is no topic {self.topic}, so no pipeline {pipeline} has written here",
                remedy="name the pipeline as walbridge.toml does, and its brokers",
            )
        self._next_offset = bounds(self._consumer, self.topic, 0)[0]
        self._consumer.assign([TopicPartition(self.topic, 0, self._next_offset)])
        self.read_new()

    def close(self) -> None:
        self._consumer.close()

    def read_new(self) -> None:
        """Read the records that have come since.

        Raises:
            OperatorError: a record that this code cannot read.
            KafkaAway: no broker answers.
        """
        self.read_to(bounds(self._consumer, self.topic, 0)[1])

    def read_to(self, end_offset: int) -> None:
        """Read all before this offset. Raises as ``read_new``."""
        heard_s = time.monotonic()
        while self._next_offset < end_offset:
            message = self._consumer.poll(_SLICE_S)
            error = message.error() if message is not None else None
            if message is not None and error is None:
                self._receive(message.value() or b"", message.offset() or 0, _system_id_of(message))
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._next_offset = max(self._next_offset, message.offset() or 0)  # type: ignore[union-attr]
            elif error is not None and (refused := refusal(error, self.topic)) is not None:
                raise refused
            heard_s = time.monotonic() if message is not None and error is None else heard_s
            if time.monotonic() - heard_s > ANSWER_S:
                raise KafkaAway(f"topic {self.topic} cannot be read: no answer within {ANSWER_S:g} s")

    def _receive(self, value: bytes, offset: int, system_id: str | None) -> None:
        if not is_control_record(value):  # another program wrote it
            self._next_offset = offset + 1
            return
        try:
            record = decode_metadata(value)
        except ProtocolError as error:
            raise unreadable_record(self.topic, error, offset) from None
        self._next_offset = offset + 1
        if not isinstance(record, RelationRecord) or record.table.relation_id == MESSAGES_RELATION_ID:
            return
        self._versions[record.frame_id, record.table.relation_id] = record
        self._by_frame.setdefault(record.frame_id, record)
        table = self._table_of(record, system_id)
        self.newest[table] = record
        self.names.setdefault(record.table.qualified_name, set()).add(table)
        self.topics.setdefault(table, {}).setdefault(record.topic)
        if record.is_json:
            self._json_by_topic.setdefault(record.topic, []).append(record)
        elif record.key_frame_id is not None and record.key_schema is not None:
            self._keys.setdefault(record.key_frame_id, record.key_schema)
            self._by_key_frame[record.key_frame_id, record.topic] = self._by_key_frame[record.key_frame_id, None] = (
                record
            )

    def _table_of(self, record: RelationRecord, system_id: str | None) -> int:
        table, known = self._tables.get(record.table.relation_id, (None, None))
        if table is None or not _is_same_table(self.newest[table], known, record, system_id):
            table = len(self.newest)
        self._tables[record.table.relation_id] = table, system_id
        return table

    def version(self, frame_id: str, relation_id: int | None) -> RelationRecord:
        """The version that wrote an event.

        Raises:
            ProtocolError: there is none.
        """
        if relation_id is not None:
            return self._find(self._versions, (frame_id, relation_id), frame_id)
        return self._find(self._by_frame, frame_id, frame_id)

    def key_schema(self, frame_id: str) -> str:
        """The schema of a key. Raises as ``version``."""
        return self._find(self._keys, frame_id, frame_id)

    def version_of_key(self, key: bytes, topic: str) -> RelationRecord:
        """The newest version that has a key of this form, preferably one of this topic. Raises as ``version``."""
        if key.startswith(JSON_KEY):
            return self._version_of_json_key(key, topic)
        frame_id = frame_of(key).frame_id
        is_known = (frame_id, topic) in self._by_key_frame
        return self._find(self._by_key_frame, (frame_id, topic if is_known else None), frame_id)

    def _version_of_json_key(self, key: bytes, topic: str) -> RelationRecord:
        self.read_new()
        for record in reversed(self._json_by_topic.get(topic, [])):
            if has_key(record, key):
                return record
        raise ProtocolError("no schema in the metadata topic has its key")

    def _find(self, known: Mapping[Key, Value], key: Key, frame_id: str) -> Value:
        if key not in known:
            self.read_new()
        try:
            return known[key]
        except KeyError:
            raise ProtocolError(f"its schema {frame_id} is not in the metadata topic") from None


def _system_id_of(message: Message) -> str | None:
    headers = cast(list[tuple[str, bytes]], message.headers() or [])
    return next((value.decode() for name, value in headers if name == SYSTEM_HEADER), None)


def _is_same_table(before: RelationRecord, of: str | None, now: RelationRecord, system_id: str | None) -> bool:
    """Whether two records with the same relation id are of the same table. Where a record does not name its cluster: a
    renamed table keeps its topic, a table that gets a new topic keeps its name; another cluster's table has neither."""
    if of is not None and system_id is not None:
        return of == system_id
    return before.topic == now.topic or before.table.qualified_name == now.table.qualified_name
