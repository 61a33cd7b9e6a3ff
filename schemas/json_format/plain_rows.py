"""Plain events in JSON, put together of pieces: what many rows share is made once.

In: the Avro of rows whose values are all known and fit their types, and the pieces that the producer joined it of. Out:
the bytes that ``JsonCodec`` makes of the whole. A row is decoded by itself; the parts of ``source`` and the end of the
envelope are those of the row before, as a rule, and their JSON is kept.
"""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

import fastavro

from walbridge.schemas.avro.codec import long_bytes
from walbridge.schemas.avro.value_encoders import NULL, VALUE
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.json_format.codec import SCHEMA_ID, JsonCodec, dumped

Json = Any
Encoded = tuple[bytes | None, bytes]
_TRANSACTION_FROM, _ORDINAL, _REST_FROM = "ts_ms", "ordinal", "origin_lsn"
"""In ``source``: the first field of a transaction's part, the ordinal, and the first field behind it."""


class PlainRows:
    """Of one relation version."""

    def __init__(self, codec: JsonCodec) -> None:
        fields = codec.schema["fields"]
        names = [each["name"] for each in fields]
        source = fields[names.index("source")]["type"]["fields"]
        behind = fields[names.index("source") + 1 :]
        at = {each["name"]: place for place, each in enumerate(source)}
        transaction, ordinal, rest = at[_TRANSACTION_FROM], at[_ORDINAL], at[_REST_FROM]
        self._codec = codec
        self._row_at = len(codec.avro_prefix + NULL + VALUE)
        self._row_schema = fastavro.parse_schema(fields[0]["type"][1])
        self._part = _Piece(source[:transaction], (), codec)
        self._transaction = _Piece(source[transaction:ordinal], (), codec)
        self._rest = _Piece(source[rest:], behind, codec)
        self._end = _Piece(source[transaction:], behind, codec)
        self._head = dumped({SCHEMA_ID: codec.schema_id, "before": None})[:-1] + b',"after":'

    def row(self, value: bytes, part: bytes, transaction: bytes, ordinal: int, rest: bytes) -> Encoded:
        """Key and value of a row; its envelope in Avro is joined of these pieces behind the row.

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
        row = self._codec.row.to_json(_decoded(value, self._row_at, end, self._row_schema))
        names = self._codec.key_columns
        return None if names is None else dumped({name: row[column] for name, column in names}), dumped(row)


class _Piece:
    """Consecutive fields of ``source``, and of the envelope behind it where they reach beyond its end."""

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
            self._json = self._made(_decoded(encoded, 0, len(encoded), self._schema))
            self._last = encoded
        return self._json

    def _made(self, record: Json) -> bytes:
        source = _inner(record, self._of_source)
        return source + b"}," + _inner(record, self._of_envelope) + b"}" if self._of_envelope else source


def _inner(record: Json, fields: Iterable[tuple[str, str]]) -> bytes:
    return dumped({name: record[number] for number, name in fields})[1:-1]


def _decoded(value: bytes, at: int, end: int, schema: Json) -> Json:
    source = BytesIO(value)
    source.seek(at)
    try:
        record = fastavro.schemaless_reader(source, schema, None)
    except Exception as error:  # fastavro lets IndexError, EOFError, struct.error and others through
        raise ProtocolError(f"malformed Avro body: {type(error).__name__}") from error
    if source.tell() != end:
        raise ProtocolError("a row of another length")
    return record
