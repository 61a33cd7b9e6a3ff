"""A tuple as Postgres sends it to Avro without generated code: for the first rows of a relation version.

In: TupleData bytes and where they begin. Out: the ``EncodedTuple`` that the generated function
(``transcoder.py``) gives, or its ``ProtocolError``. A row takes several times as long here, but nothing
precedes the first: generating a function takes as long as hundreds of rows, and a session in which many
tables change sees only a few rows of most of them.
"""

import struct
from struct import Struct

from walbridge.producer.encoding.binary.lines import BinaryColumn
from walbridge.producer.encoding.label_finders import LabelColumns
from walbridge.producer.encoding.transcoder import (
    BinaryColumns,
    EncodedTuple,
    PlainEncoder,
    Transcoder,
    exceptional_names,
    key_exceptional,
)
from walbridge.schemas.avro.codec import long_bytes
from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.avro.value_encoders import NULL, VALUE, Encoder, encoder_of
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import ProtocolError

_unpack_count = Struct(">h").unpack_from
_unpack_length = Struct(">I").unpack_from
_TEXT, _BINARY, _NULL, _UNCHANGED = b"tbnu"


def interpreting_transcoder(
    record: RelationRecord, binary: BinaryColumns = None, labels: LabelColumns = None
) -> Transcoder:
    """A function for any tuple of a relation version."""
    return _Interpreter(record, binary, labels).transcode


class _Interpreter:
    def __init__(self, record: RelationRecord, binary: BinaryColumns, labels: LabelColumns) -> None:
        columns = record.table.columns
        sent, found = binary or [None] * len(columns), labels or [None] * len(columns)
        self._columns = [
            (column.name, encoder_of(column.column_type), of, labels_of)
            for column, of, labels_of in zip(columns, sent, found, strict=True)
        ]
        self._table = record.table.qualified_name
        self._join_key = _KeyJoin(record)

    def transcode(self, data: bytes, at: int) -> EncodedTuple:
        """Raises ProtocolError: malformed."""
        try:
            return self._decode(data, at)
        except (IndexError, KeyError, ValueError, struct.error, OverflowError, RecursionError) as error:
            raise ProtocolError(f"malformed tuple of {self._table}: {type(error).__name__}") from None

    def _decode(self, data: bytes, at: int) -> EncodedTuple:
        pieces: list[bytes] = []
        unchanged: list[str] = []
        exceptional: dict[str, bytes] = {}
        (count,) = _unpack_count(data, at)
        if count != len(self._columns):
            raise ProtocolError(f"a tuple of {count} fields for the {len(self._columns)} columns of {self._table}")
        at += 2
        for name, encode_text, sent, labels in self._columns:
            kind = data[at]
            at += 1
            if kind in (_NULL, _UNCHANGED):
                pieces.append(NULL)
                unchanged += [name] if kind == _UNCHANGED else []
                continue
            (size,) = _unpack_length(data, at)
            at += 4
            value = data[at : at + size]
            at += size
            if labels is not None:
                (labels.find if kind == _TEXT else labels.find_binary)(value)
            piece, text = self._encoded(kind, value, encode_text, sent)
            pieces.append(piece)
            if text is not None:
                exceptional[name] = text
        if at != len(data):
            raise ProtocolError(f"a tuple of {self._table} ends at {at} of {len(data)} bytes")
        missing = tuple(unchanged)
        key = self._join_key(pieces, missing, exceptional)
        return EncodedTuple(b"".join(pieces), key, missing, exceptional or None)

    def _encoded(
        self, kind: int, value: bytes, encode_text: Encoder, sent: BinaryColumn | None
    ) -> tuple[bytes, bytes | None]:
        """Avro bytes; and the text, where the type cannot hold the value."""
        if kind == _TEXT:
            piece = encode_text(value)
            return (NULL, value) if piece is None else (piece, None)
        if kind != _BINARY or sent is None:
            raise ProtocolError(f"unknown kind of field {kind} in {self._table}")
        piece = sent.encode(value)
        return (NULL, sent.read(value)) if piece is None else (piece, None)


class _KeyJoin:
    """The key of a row from the pieces of its columns; None without one, or where a key value was not sent."""

    def __init__(self, record: RelationRecord) -> None:
        self._header = None if record.key_frame_id is None else prefix_of(record.key_frame_id)
        columns = record.table.columns
        self._at = [i for i, column in enumerate(columns) if column.is_key]
        self._names = tuple(columns[i].name for i in self._at)
        may_be_exceptional = any(columns[i].column_type.may_be_exceptional for i in self._at)
        self._exceptional_names = exceptional_names(record) if self._header and may_be_exceptional else None

    def __call__(self, pieces: list[bytes], unchanged: tuple[str, ...], exceptional: dict[str, bytes]) -> bytes | None:
        if self._header is None or not set(unchanged).isdisjoint(self._names):
            return None
        names = self._exceptional_names
        texts = [] if names is None else [key_exceptional(exceptional, names)]
        return b"".join([self._header, *(pieces[i] for i in self._at), *texts])


def interpreting_plain_encoder(record: RelationRecord, transcode: Transcoder) -> PlainEncoder:
    """A function that encodes a row if all its values are known and fit their types; it returns None for others."""
    head = record.avro_prefix + NULL + VALUE

    def encode(
        data: bytes, at: int, part: bytes, transaction: bytes, ordinal: int, rest: bytes
    ) -> tuple[bytes | None, bytes] | None:
        row = transcode(data, at)
        if row.unchanged or row.exceptional is not None:
            return None
        return row.key, b"".join((head, row.row, part, transaction, long_bytes(ordinal), rest))

    return encode
