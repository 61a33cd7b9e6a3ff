"""Plain events in JSON, put together of pieces: what many rows share is made once.

In: the Avro of rows whose values are all known and fit their types, and the pieces that the producer joined it of. Out:
the bytes that ``JsonCodec`` makes of the whole. A row is decoded by itself; the parts of ``source`` and the end of the
envelope are those of the row before, as a rule, and their JSON is kept.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import fastavro

from walbridge.schemas.avro.codec import decode_between, long_bytes
from walbridge.schemas.avro.value_encoders import NULL, VALUE
from walbridge.schemas.json_format.codec import (
    FINER_OF_ENVELOPE,
    FINER_OF_SOURCE,
    SCHEMA_ID,
    FinerTimes,
    JsonCodec,
    dumped,
    with_finer,
)
from walbridge.schemas.json_format.values import dumped_text

Json = Any
Encoded = tuple[bytes | None, bytes]
_TRANSACTION_FROM, _ORDINAL, _REST_FROM = "ts_ms", "ordinal", "origin_lsn"
"""In ``source``: the first field of a transaction's part, the ordinal, and the first field after it."""


class PlainRows:
    """One for each relation version."""

    def __init__(self, codec: JsonCodec) -> None:
        fields = codec.schema["fields"]
        names = [each["name"] for each in fields]
        source = fields[names.index("source")]["type"]["fields"]
        after = fields[names.index("source") + 1 :]
        at = {each["name"]: place for place, each in enumerate(source)}
        transaction, ordinal, rest = at[_TRANSACTION_FROM], at[_ORDINAL], at[_REST_FROM]
        self._codec = codec
        self._row_at = len(codec.avro_prefix + NULL + VALUE)
        self._row_schema = fastavro.parse_schema(fields[0]["type"][1])
        self._part = _Piece(source[:transaction], (), codec)
        self._transaction = _Piece(source[transaction:ordinal], (), codec)
        self._rest = _Piece(source[rest:], after, codec)
        self._end = _Piece(source[transaction:], after, codec)
        self._row_text = _object_of(codec.row.column_names)
        self._key_text: str | None = None
        if (keys := codec.key_columns) is not None:
            self._key_text = _object_of([name for name, _ in keys])
            self._key_at = [codec.row.column_names.index(column) for _, column in keys]
        self._head = dumped({SCHEMA_ID: codec.schema_id, "before": None})[:-1] + b',"after":'

    def row(self, value: bytes, part: bytes, transaction: bytes, ordinal: int, rest: bytes) -> Encoded:
        """Key and value of a row; its envelope in Avro is joined of these pieces after the row.

        Raises:
            ProtocolError: it holds text that is not UTF-8.
        """
        end = len(value) - len(part) - len(transaction) - len(long_bytes(ordinal)) - len(rest)
        key, row = self._row(value, end)
        pieces = (
            *(self._head, row, b',"source":{', self._part.json(part), b",", self._transaction.json(transaction)),
            *(b',"ordinal":%d,' % ordinal, self._rest.json(rest)),
        )
        return key, b"".join(pieces)

    def copied(self, value: bytes, part: bytes, end: bytes) -> Encoded:
        """Of a row as a copy encodes it, up to and with ``part``; ``end`` is what all rows of the copy share. Raises as
        ``row``."""
        key, row = self._row(value, len(value) - len(part))
        return key, b"".join((self._head, row, b',"source":{', self._part.json(part), b",", self._end.json(end)))

    def _row(self, value: bytes, end: int) -> Encoded:
        record = decode_between(value, self._row_at, end, self._row_schema)
        texts = ["null" if (found := record[name]) is None else text(found) for name, text in self._codec.row.texts]
        row = (self._row_text % tuple(texts)).encode()
        if self._key_text is None:
            return None, row
        return (self._key_text % tuple([texts[at] for at in self._key_at])).encode(), row


class _Piece:
    """Consecutive fields of ``source``, and of the envelope after it where they reach beyond its end."""

    def __init__(self, of_source: Sequence[Json], of_envelope: Sequence[Json], codec: JsonCodec) -> None:
        # By number: both have a ts_ms.
        fields = [each | {"name": f"f{number}"} for number, each in enumerate([*of_source, *of_envelope])]
        self._schema = fastavro.parse_schema({"type": "record", "name": "Piece", "fields": fields})
        names = [each["name"] for each in (*of_source, *of_envelope)]
        numbered = [(f"f{number}", name) for number, name in enumerate(names)]
        self._of_source = numbered[: len(of_source)]
        self._of_envelope = [each for each in numbered[len(of_source) :] if each[1] in codec.fields]
        self._last = self._json = b""

    def json(self, encoded: bytes) -> bytes:
        """The fields, without the braces around them."""
        if encoded != self._last or not self._json:
            self._json = self._made(decode_between(encoded, 0, len(encoded), self._schema))
            self._last = encoded
        return self._json

    def _made(self, record: Json) -> bytes:
        source = _inner(record, self._of_source, FINER_OF_SOURCE)
        if not self._of_envelope:
            return source
        return source + b"}," + _inner(record, self._of_envelope, FINER_OF_ENVELOPE) + b"}"


def _object_of(names: Iterable[str]) -> str:
    """To be filled in with the texts of their values."""
    return "{" + ",".join(dumped_text(name).replace("%", "%%") + ":%s" for name in names) + "}"


def _inner(record: Json, fields: Iterable[tuple[str, str]], finer: FinerTimes) -> bytes:
    return dumped(with_finer({name: record[number] for number, name in fields}, finer))[1:-1]
