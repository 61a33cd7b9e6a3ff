"""A change of one row to the Kafka records it becomes, in topics whose format is JSON.

In: what ``RecordWriter`` takes. Out: its records, made JSON once they are whole (``schemas.json_format``): with the
same positions, in the same number. What tells keys apart inside this program (``row_key``, encoded rows) stays Avro.
"""

from collections.abc import Sequence
from functools import cached_property

from walbridge.producer.encoding.kafka_record import NEW_KEY, OLD_KEY, Headers, KafkaRecord
from walbridge.producer.encoding.record import Parts, RecordWriter
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.encoding.transcoder import PlainEncoder
from walbridge.producer.pgoutput.messages import Delete, Insert, Update
from walbridge.schemas.json_format.codec import JsonCodec, json_codec
from walbridge.schemas.json_format.plain_rows import PlainRows


class JsonRecordWriter(RecordWriter):
    """Makes the records of one relation version. Arguments are those of ``RecordWriter``.

    Each method also raises ProtocolError where text of the row is not UTF-8, which JSON cannot hold.
    """

    @cached_property
    def _codec(self) -> JsonCodec:
        return json_codec(self.relation)

    @cached_property
    def _plain_rows(self) -> PlainRows:
        return PlainRows(self._codec)

    @cached_property
    def _copied_parts(self) -> list[bytes]:
        """Each part of ``source`` that a copied row may have, the most common first."""
        of_ends = (f"{end}{of}" for end in ("first", "last") for of in ("", "_in_data_collection"))
        return [*map(self.source_part, ("true", "incremental", *of_ends))]

    @cached_property
    def _json_whole_table_keys(self) -> dict[bytes, bytes]:
        """The JSON keys of records about the whole table, by their Avro keys."""
        return {key: self._codec.whole_table_key(n) for n, key in enumerate(self._whole_table_keys.values())}

    def _interpreting_plain(self) -> PlainEncoder:
        return self._in_json(super()._interpreting_plain())

    def _generated_plain(self) -> PlainEncoder:
        return self._in_json(super()._generated_plain())

    def _in_json(self, encode: PlainEncoder) -> PlainEncoder:
        def encode_json(
            data: bytes, at: int, part: bytes, transaction: bytes, ordinal: int, rest: bytes
        ) -> tuple[bytes | None, bytes] | None:
            encoded = encode(data, at, part, transaction, ordinal, rest)
            return None if encoded is None else self._plain_rows.row(encoded[1], part, transaction, ordinal, rest)

        return encode_json

    def with_end(self, rows: Sequence[Parts], end: bytes) -> tuple[Sequence[Parts], bytes]:
        """The rows with their ends: in JSON these cannot be appended later."""
        made = []
        for _, value in rows:
            part = next(each for each in self._copied_parts if value.endswith(each))
            made.append(self._plain_rows.copied(value, part, end))
        return made, b""

    def insert(self, change: Insert, source: TransactionSource, ordinal: int, ts_ms: bytes) -> list[KafkaRecord]:
        """``c``."""
        return self._each(super().insert(change, source, ordinal, ts_ms))

    def update(self, change: Update, source: TransactionSource, ordinal: int, ts_ms: bytes) -> list[KafkaRecord]:
        """``u``; or ``d`` and ``c`` when the key changed."""
        return self._each(super().update(change, source, ordinal, ts_ms))

    def delete(self, change: Delete, source: TransactionSource, ordinal: int, ts_ms: bytes) -> list[KafkaRecord]:
        """``d``, with the key or the whole old row."""
        return self._each(super().delete(change, source, ordinal, ts_ms))

    def copied(self, row: bytes, source: TransactionSource, part: bytes, ts_ms: bytes) -> KafkaRecord:
        """``r``."""
        return self._record_in_json(super().copied(row, source, part, ts_ms))

    def marker(self, snapshot: str, source: TransactionSource, ts_ms: bytes) -> KafkaRecord:
        """``m``: where a copy beside the stream begins or ends."""
        return self._record_in_json(super().marker(snapshot, source, ts_ms))

    def truncate(
        self, source: TransactionSource, ordinal: int, ts_ms: bytes, *, copies: bool = False, options: bytes = b""
    ) -> KafkaRecord:
        """``t``."""
        return self._record_in_json(super().truncate(source, ordinal, ts_ms, copies=copies, options=options))

    def _each(self, records: Sequence[KafkaRecord]) -> list[KafkaRecord]:
        return [self._record_in_json(record) for record in records]

    def _record_in_json(self, record: KafkaRecord) -> KafkaRecord:
        value = None if record.value is None else self._codec.value(record.value)
        return KafkaRecord(self._key(record.key), value, self._headers(record.headers))

    def _headers(self, headers: Headers) -> Headers:
        """The headers, with keys in JSON: those of a key change hold the other key."""
        if not headers or headers[0][0] not in (NEW_KEY, OLD_KEY):
            return headers
        return [(name, self._key(part) if isinstance(part, bytes) and part else part) for name, part in headers]

    def _key(self, key: bytes | None) -> bytes | None:
        if key is None:
            return None
        return self._json_whole_table_keys.get(key) or self._codec.key(key)
