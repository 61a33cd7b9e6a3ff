"""A change of one row to the Kafka records it becomes.

In: Insert, Update, Delete, Truncate, a copied row; the relation version; position and source.
Out: ``KafkaRecord``s in position order: one, or two for a key change, each with the key's
partition left to the partitioner (I3). What Postgres did not send is never sent as null (I6).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from walbridge.producer.encoding.interpreted import interpreting_plain_encoder, interpreting_transcoder
from walbridge.producer.encoding.kafka_record import NEW_KEY, OLD_KEY, TRUNCATE, KafkaRecord
from walbridge.producer.encoding.label_finders import LabelColumns
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.encoding.transcoder import (
    BinaryColumns,
    EncodedTuple,
    PlainEncoder,
    Transcoder,
    make_plain_encoder,
    make_transcoder,
    text_array,
    text_map,
)
from walbridge.producer.encoding.whole_table_keys import TRUNCATED, whole_table_keys
from walbridge.producer.errors.rows import key_not_sent, old_row_not_sent, values_not_sent
from walbridge.producer.pgoutput.messages import Delete, Insert, Update
from walbridge.producer.pgoutput.tuple_data import fill
from walbridge.schemas.avro.codec import long_bytes, string_value
from walbridge.schemas.avro.value_encoders import NULL, VALUE
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.version import VERSION

INTERPRETED_ROWS = 3
"""The number of rows of a version that are encoded without generated code. Generating a function takes a millisecond,
and many tables have only a few rows in a session."""
_FOUR_NULLS = NULL * 4  # unchanged, before_image, exceptional, before_exceptional
_ALL_NULL = NULL + _FOUR_NULLS  # transaction before them


def plain_tails(ts_ms: bytes, origin_lsn: bytes = NULL) -> dict[str, bytes]:
    """By op, the bytes after the ordinal that end the envelope of a plain row."""
    return {op: origin_lsn + string_value(op) + ts_ms + _ALL_NULL for op in ("c", "u", "r")}


def with_transaction_block(plain_tail: bytes, block: bytes) -> bytes:
    """The end of a plain row's envelope, with this ``transaction`` block instead of null."""
    return plain_tail[: -len(_ALL_NULL)] + block + _FOUR_NULLS


Parts = tuple[bytes | None, bytes]
"""The key and the value of a row; for copied rows, the value without its end (``copied_rows``)."""


class Images(NamedTuple):
    """The images of a row in a record. ``kind``: whether ``before`` is full or only the key; None without
    ``before``."""

    before: EncodedTuple | None
    after: EncodedTuple | None
    kind: str | None


class RecordWriter:
    """Makes the records of one relation version.

    Args:
        labels: collects the names of enum labels in these columns.
        tombstones: if the table has a key, each delete is followed by a tombstone: a record of its key without a value.
        is_compacted: Kafka compacts the topic, so every record needs a key, and tombstones follow deletes.
    """

    def __init__(
        self,
        record: RelationRecord,
        pipeline: str,
        database: str,
        binary: BinaryColumns = None,
        labels: LabelColumns = None,
        *,
        tombstones: bool = False,
        is_compacted: bool = False,
    ) -> None:
        self.relation = record
        self.topic = record.topic
        self._binary, self._labels = binary, labels
        self._interpret = interpreting_transcoder(record, binary, labels)
        self._interpret_plain = self._interpreting_plain()
        self._interpreted_rows = 0
        self.plain: PlainEncoder = self._encode_first_plain
        """Encodes a row if all its values are known and fit their types; returns None for any other row."""
        self._transcode: Transcoder = self._transcode_first
        # Under FULL an UPDATE without its old row is refused.
        self.plain_ops = ("c",) if record.table.replica_identity == "f" else ("c", "u")
        self.has_key = record.key_schema_id is not None
        self._tombstones = (tombstones or is_compacted) and self.has_key
        self._whole_table_keys = whole_table_keys(record) if is_compacted else {}
        """Keys of records about the whole table, by the kind of record."""
        self._header = record.avro_prefix
        self._insert_head = self._header + NULL + VALUE  # before is null, after follows
        table = record.table
        self._names = pipeline, database, table.namespace, table.name
        self.source, self.snapshot_source = map(self.source_part, ("false", "true"))
        self.key_flags = tuple(column.is_key for column in record.table.columns)

    def is_renamed(self, before: RelationRecord) -> bool:
        """Whether the version before differs in the table's name only, so that rows and keys have the same bytes."""
        table = self.relation.table
        named = replace(before.table, namespace=table.namespace, name=table.name)
        return (named, before.topic, before.key_schema) == (table, self.topic, self.relation.key_schema)

    def source_part(self, snapshot: str) -> bytes:
        """The table's part of ``source``; ``snapshot``: one of Debezium's words."""
        names = (VERSION, "walbridge", *self._names)
        relation_id = long_bytes(self.relation.table.relation_id)
        return b"".join((*map(string_value, names), relation_id, VALUE + string_value(snapshot)))

    def _encode_first_plain(
        self, data: bytes, at: int, part: bytes, transaction: bytes, ordinal: int, rest: bytes
    ) -> tuple[bytes | None, bytes] | None:
        """``plain`` for the first rows. After these it replaces itself by the generated function."""
        if self._interpreted_rows >= INTERPRETED_ROWS:
            self.plain = self._generated_plain()
            return self.plain(data, at, part, transaction, ordinal, rest)
        self._interpreted_rows += 1
        return self._interpret_plain(data, at, part, transaction, ordinal, rest)

    def _interpreting_plain(self) -> PlainEncoder:
        return interpreting_plain_encoder(self.relation, self._interpret)

    def _generated_plain(self) -> PlainEncoder:
        return make_plain_encoder(self.relation, self._binary, self._labels)

    def with_end(self, rows: Sequence[Parts], end: bytes) -> tuple[Sequence[Parts], bytes]:
        """Rows of a copy and the common end of their values, in the form in which they are sent.

        Raises:
            ProtocolError: one of them has no record in the topic's format.
        """
        return rows, end

    def _transcode_first(self, data: bytes, at: int) -> EncodedTuple:
        """``_transcode`` for the first rows, in the same way. The two functions are generated separately, since many
        tables only ever have plain rows."""
        if self._interpreted_rows >= INTERPRETED_ROWS:
            self._transcode = make_transcoder(self.relation, self._binary, self._labels)
            return self._transcode(data, at)
        self._interpreted_rows += 1
        return self._interpret(data, at)

    def row_key(self, data: bytes) -> bytes | None:
        """The key of a tuple; None if the table has no key, or a value of the key was not sent."""
        return self._transcode(data, 0).key

    def insert(self, change: Insert, source: TransactionSource, ordinal: int, ts_ms: bytes) -> list[KafkaRecord]:
        """The record of an Insert, ``c``. If a row filter made the Insert of an UPDATE, a value may be missing (I6)."""
        row = self._transcode(change.new, 0)
        if row.unchanged:
            raise values_not_sent(self.relation.table, row.unchanged)
        return [self._plain(row, b"\x02c", source, self.source, ordinal, ts_ms)]

    @cached_property
    def incremental_source(self) -> bytes:
        """The table's part of ``source`` in rows of a copy beside the stream."""
        return self.source_part("incremental")

    def copied(self, row: bytes, source: TransactionSource, part: bytes, ts_ms: bytes) -> KafkaRecord:
        """The record of a copied row, ``r``, at (LSN, -1): the LSN of the snapshot, or of the stream when the row
        entered. ``part``: from ``source_part``."""
        return self._plain(self._transcode(row, 0), b"\x02r", source, part, -1, ts_ms)

    def marker(self, snapshot: str, source: TransactionSource, ts_ms: bytes) -> KafkaRecord:
        """``m`` without a row, at (LSN, -1): where a copy beside the stream begins or ends, in every partition.

        Args:
            snapshot: ``first_in_data_collection`` or ``last_in_data_collection``, Debezium's words.
        """
        part = self.source_part(snapshot)
        ordinal_and_origin = long_bytes(-1) + source.origin_lsn
        pieces = (self._header, NULL, NULL, part, source.encoded, ordinal_and_origin, b"\x02m", ts_ms, _ALL_NULL)
        return KafkaRecord(self._whole_table_keys.get(snapshot), b"".join(pieces))

    def update(self, change: Update, source: TransactionSource, ordinal: int, ts_ms: bytes) -> list[KafkaRecord]:
        """The record of an Update: ``u``, or ``d`` and ``c`` if the key changed."""
        if change.old is not None:
            return self._update_with(change.old, fill(change.new, change.old, None), "full", source, ordinal, ts_ms)
        if change.key is not None and self.has_key:
            new = fill(change.new, change.key, self.key_flags)
            return self._update_with(change.key, new, "key", source, ordinal, ts_ms)
        if self.relation.table.replica_identity == "f":
            raise old_row_not_sent(self.relation.table)
        row = self._transcode(change.new, 0)
        if row.key is None and self.has_key:
            raise key_not_sent(self.relation.table)
        if not row.unchanged:
            return [self._plain(row, b"\x02u", source, self.source, ordinal, ts_ms)]
        return [self._record(row.key, Images(None, row, None), "u", source, ordinal, ts_ms)]

    def delete(self, change: Delete, source: TransactionSource, ordinal: int, ts_ms: bytes) -> list[KafkaRecord]:
        """The record of a Delete, ``d``, with the key or the whole old row; and a tombstone if asked for."""
        before = self._old(change.old or change.key or b"")
        image = "full" if change.old is not None else "key"
        gone = self._record(before.key, Images(before, None, image), "d", source, ordinal, ts_ms)
        return [gone, *self._tombstone(before.key)]

    def _tombstone(self, key: bytes | None) -> list[KafkaRecord]:
        return [KafkaRecord(key, None)] if self._tombstones else []

    def truncate(
        self, source: TransactionSource, ordinal: int, ts_ms: bytes, *, copies: bool = False, options: bytes = b""
    ) -> KafkaRecord:
        """The record of a truncate, ``t``, which goes to every partition. ``copies``: it makes room for a copy."""
        part = self.snapshot_source if copies else self.source
        ordinal_and_origin = long_bytes(ordinal) + source.origin_lsn
        nulls = source.transaction_block(ordinal) + _FOUR_NULLS
        pieces = (self._header, NULL, NULL, part, source.encoded, ordinal_and_origin, b"\x02t", ts_ms, nulls)
        return KafkaRecord(self._whole_table_keys.get(TRUNCATED), b"".join(pieces), [(TRUNCATE, options)])

    def _update_with(
        self, old: bytes, new: bytes, image: str, source: TransactionSource, ordinal: int, ts_ms: bytes
    ) -> list[KafkaRecord]:
        before, after = self._old(old), self._transcode(new, 0)
        if self.has_key and after.key is None:
            raise key_not_sent(self.relation.table)
        if before.key == after.key:
            # A key stored out of line comes as an old tuple though it did not change.
            images = Images(before, after, image) if image == "full" else Images(None, after, None)
            return [self._record(after.key, images, "u", source, ordinal, ts_ms)]
        gone = self._record(before.key, Images(before, None, image), "d", source, ordinal, ts_ms)
        came = self._record(after.key, Images(before, after, image), "c", source, ordinal + 1, ts_ms)
        return [
            gone._replace(headers=[(NEW_KEY, after.key or b"")]),
            *self._tombstone(before.key),
            came._replace(headers=[(OLD_KEY, before.key or b"")]),
        ]

    def _old(self, data: bytes) -> EncodedTuple:
        """An old tuple. Postgres sends it whole: there is no unknown in a before image (I6)."""
        old = self._transcode(data, 0)
        if old.unchanged:
            raise ProtocolError(f"an old row of {self.relation.table.qualified_name} with values that were not sent")
        return old

    def _plain(
        self, row: EncodedTuple, op: bytes, source: TransactionSource, part: bytes, ordinal: int, ts_ms: bytes
    ) -> KafkaRecord:
        """A record of the common form, with ``after`` only and all values known."""
        nulls = _FOUR_NULLS if row.exceptional is None else NULL * 2 + text_map(row.exceptional) + NULL
        ordinal_and_origin = long_bytes(ordinal) + source.origin_lsn
        block = source.transaction_block(ordinal)
        pieces = (self._insert_head, row.row, part, source.encoded, ordinal_and_origin, op, ts_ms, block, nulls)
        return KafkaRecord(row.key, b"".join(pieces))

    def _record(
        self, key: bytes | None, images: Images, op: str, source: TransactionSource, ordinal: int, ts_ms: bytes
    ) -> KafkaRecord:
        """A record of any form, with images, unchanged columns and exceptional texts."""
        before, after, kind = images
        pieces = (
            self._header,
            VALUE + before.row if before else NULL,
            VALUE + after.row if after else NULL,
            self.source,
            source.encoded,
            long_bytes(ordinal),
            source.origin_lsn,
            string_value(op),
            ts_ms,
            source.transaction_block(ordinal),
            text_array(after.unchanged) if after else NULL,
            VALUE + string_value(kind) if kind else NULL,
            text_map(after.exceptional) if after else NULL,
            text_map(before.exceptional) if before else NULL,
        )
        return KafkaRecord(key, b"".join(pieces))


def records_of(
    change: Insert | Update | Delete, writer: RecordWriter, source: TransactionSource, ordinal: int, ts_ms: bytes
) -> list[KafkaRecord]:
    """The records that a change of one row becomes."""
    match change:
        case Insert():
            return writer.insert(change, source, ordinal, ts_ms)
        case Update():
            return writer.update(change, source, ordinal, ts_ms)
        case Delete():
            return writer.delete(change, source, ordinal, ts_ms)
