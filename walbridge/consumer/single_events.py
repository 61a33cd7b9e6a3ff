"""Records of partitions as events, including deletes of which compaction kept only the tombstone.

In: the records of each partition in their order. Out: an event for each record, except for a tombstone whose delete
(``d``) was read. The producer writes a delete and its tombstone side by side. So if the record at the offset before the
tombstone was read, that was the delete. Else compaction removed the delete, which has the same key, and the tombstone
stands for it (I7). Topics that are not compacted have no such gaps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from walbridge.consumer.event import Event, EventDecoder, KafkaRecord, Operation, time_of
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.json_format.codec import has_key
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position

VersionOfKey = Callable[[bytes, str], RelationRecord]
"""The newest relation version that has such a key, in this topic."""
Decoded = TypeVar("Decoded")
_UNKNOWN = Position(Lsn(0), COPIED_ORDINAL)


@dataclass(frozen=True, slots=True)
class _LastEvent:
    """The last event of a partition: its position and relation stand for those that a tombstone does not have."""

    position: Position
    relation: RelationRecord


class SingleEvents:
    """Decodes what is read of partitions, each in its order."""

    def __init__(self, decoder: EventDecoder, version_of_key: VersionOfKey) -> None:
        self._decoder, self._version_of_key = decoder, version_of_key
        self._last: dict[tuple[str, int], _LastEvent] = {}

    def decode(self, record: KafkaRecord) -> Event:
        """The event of a record with a value. Raises as ``EventDecoder.decode``."""
        event = self._decoder.decode(record)
        self._last[record.topic, record.partition] = _LastEvent(event.position, event.relation)
        return event

    def tombstone(self, record: KafkaRecord, next_offset: int, timestamp_ms: int) -> Event | None:
        """The delete that a record without a value stands for; None where the delete itself was read.

        Args:
            next_offset: the offset behind the last record read of the partition, or where the reader began.
            timestamp_ms: the record's timestamp in Kafka, since 1970.

        Raises:
            ProtocolError: the key is none of this pipeline.
        """
        if next_offset == record.offset:
            return None
        if record.key is None:
            raise ProtocolError("it has neither a key nor a value")
        last = self._last.get((record.topic, record.partition))
        if last is not None and has_key(last.relation, record.key):
            relation = last.relation
        else:
            relation = self._version_of_key(record.key, record.topic)
        key = self._decoder.key(record.key, relation) or {}
        return Event(
            operation=Operation.DELETE,
            table=relation.table.qualified_name,
            position=_UNKNOWN if last is None else last.position,
            key=key,
            before=dict(key),
            after=None,
            unchanged=(),
            is_before_whole=False,
            new_key=None,
            old_key=None,
            xid=None,
            commit_time=time_of(timestamp_ms * 1000),
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            relation=relation,
        )


def decoded(decode: Callable[[KafkaRecord], Decoded], record: KafkaRecord) -> Decoded:
    """A record, decoded.

    Raises:
        OperatorError: it is no record of this pipeline. The error names its offset, never its bytes (I10).
    """
    try:
        return decode(record)
    # LookupError, TypeError: valid Avro that is not an event.
    except (ProtocolError, LookupError, TypeError) as error:
        reason = str(error) if isinstance(error, ProtocolError) else "it is not an event"
        raise OperatorError(
            f"{record.topic}, partition {record.partition}, offset {record.offset}: {reason}",
            remedy="see who else writes to this topic; if walbridge itself did, read with the version that wrote it",
        ) from None
