"""Generators of what Postgres sends: messages, tuples, values of every type, LSNs."""

from datetime import UTC
from decimal import Context, Decimal

import numpy as np
from hypothesis import strategies as st

from tests.producer.pgoutput.encoder import tuple_data
from tests.schemas.strategies import INT_32, pg_names
from walbridge.producer.pgoutput.frames import EARLIEST_US, LATEST_US
from walbridge.producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Binary,
    Commit,
    CommitPrepared,
    Delete,
    Field,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Prepare,
    Relation,
    RelationColumn,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Unsent,
    Update,
)
from walbridge.schemas.pg_types import ColumnType
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import TableSchema

LSNS = st.integers(0, 2**64 - 1).map(Lsn)
OIDS = st.integers(0, 2**32 - 1)
TIMES_US = st.integers(EARLIEST_US, LATEST_US)
FIELDS: st.SearchStrategy[Field] = (
    st.sampled_from(Unsent) | st.binary(max_size=40) | st.builds(Binary, st.binary(max_size=40))
)
TUPLES = st.lists(FIELDS, max_size=12)
TUPLE_BYTES = TUPLES.map(lambda fields: tuple_data(*fields))
_COLUMNS = st.builds(RelationColumn, st.booleans(), pg_names(), OIDS, INT_32)

_PREPARED = (LSNS, LSNS, TIMES_US, OIDS, pg_names())

PREFIXED: st.SearchStrategy[Message] = st.one_of(
    st.builds(LogicalMessage, st.booleans(), LSNS, pg_names(), st.binary(max_size=40)),
    st.builds(
        Relation, OIDS, pg_names(), pg_names(), st.sampled_from("dnfi"), st.lists(_COLUMNS, max_size=5).map(tuple)
    ),
    st.builds(Type, OIDS, pg_names(), pg_names()),
    st.builds(Insert, OIDS, TUPLE_BYTES),
    st.builds(Update, OIDS, st.none() | TUPLE_BYTES, st.none(), TUPLE_BYTES),
    st.builds(Update, OIDS, st.none(), TUPLE_BYTES, TUPLE_BYTES),
    st.builds(Delete, OIDS, TUPLE_BYTES, st.none()),
    st.builds(Delete, OIDS, st.none(), TUPLE_BYTES),
    st.builds(Truncate, st.booleans(), st.booleans(), st.lists(OIDS, max_size=8).map(tuple)),
)
"""Those that carry an xid inside a streamed block."""
MESSAGES: st.SearchStrategy[Message] = PREFIXED | st.one_of(
    st.builds(Begin, LSNS, TIMES_US, OIDS),
    st.builds(Commit, LSNS, LSNS, TIMES_US),
    st.builds(Origin, LSNS, pg_names()),
    st.builds(StreamStart, OIDS, st.booleans()),
    st.just(StreamStop()),
    st.builds(StreamCommit, OIDS, LSNS, LSNS, TIMES_US),
    st.builds(StreamAbort, OIDS, OIDS),
    st.builds(StreamAbort, OIDS, OIDS, LSNS, TIMES_US),
    st.builds(BeginPrepare, *_PREPARED),
    st.builds(Prepare, *_PREPARED),
    st.builds(CommitPrepared, *_PREPARED),
    st.builds(RollbackPrepared, LSNS, LSNS, TIMES_US, TIMES_US, OIDS, pg_names()),
    st.builds(StreamPrepare, *_PREPARED),
)


EXCEPTIONAL = object()
"""Stands for a value that the Avro type cannot hold: its text is to be kept."""
Value = tuple[bytes, object]
"""Postgres text, and what an Avro reader is to find."""


def _decimals(scale: int, precision: int) -> st.SearchStrategy[Value]:
    numbers = st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: Decimal(n).scaleb(-scale, _EXACT))
    return numbers.map(lambda number: (f"{number:f}".encode(), number))


_EXACT = Context(prec=100)
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
_OUTSIDE = st.sampled_from([b"infinity", b"-infinity", b"10000-01-01", b"0044-03-15 BC"])
_SCALARS: dict[str, st.SearchStrategy[Value]] = {
    "bool": st.sampled_from([(b"t", True), (b"f", False)]),
    "int": INT_32.map(lambda n: (str(n).encode(), n)),
    "float": st.floats(width=32, allow_nan=False).map(lambda x: (repr(x).replace("inf", "Infinity").encode(), x)),
    "double": st.floats(allow_nan=False).map(lambda x: (repr(x).replace("inf", "Infinity").encode(), x)),
    "string": _TEXT.map(lambda text: (text.encode(), text)),
    "bytes": st.binary().map(lambda value: (b"\\x" + value.hex().encode(), value)),
    "date": st.dates().map(lambda day: (str(day).encode(), day)) | _OUTSIDE.map(lambda text: (text, EXCEPTIONAL)),
    "timestamp": st.datetimes().map(lambda at: (at.isoformat(" ").encode(), at))
    | _OUTSIDE.map(lambda text: (text, EXCEPTIONAL)),
    "timestamptz": st.datetimes().map(lambda at: (at.isoformat(" ").encode() + b"+00", at.replace(tzinfo=UTC)))
    | _OUTSIDE.map(lambda text: (text, EXCEPTIONAL)),
}


def values(known: ColumnType) -> st.SearchStrategy[Value]:
    """Values of a column's type, with the text that Postgres prints for them."""
    if known.codec == "decimal":
        not_numbers = st.sampled_from([b"NaN", b"Infinity", b"-Infinity"]).map(lambda text: (text, EXCEPTIONAL))
        return _decimals(known.scale, known.avro["precision"]) | not_numbers
    if known.codec == "array":
        assert known.item is not None
        shapes = st.sampled_from([b"[0:0]={1}", b"{{1},{2}}"]).map(lambda text: (text, EXCEPTIONAL))
        return st.lists(st.none() | values(known.item), max_size=4).map(_array) | shapes
    if known.codec == "map":
        return st.dictionaries(_TEXT, st.none() | _TEXT, max_size=4).map(_map)
    if known.codec == "vector":
        return st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9).map(_vector)
    return _SCALARS[known.codec]


def _array(items: list[Value | None]) -> Value:
    text = b"{" + b",".join(b"NULL" if item is None else _quoted(item[0]) for item in items) + b"}"
    found = [None if item is None else item[1] for item in items]
    return text, EXCEPTIONAL if EXCEPTIONAL in found else found


def _quoted(text: bytes) -> bytes:
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _map(entries: dict[str, str | None]) -> Value:
    """As ``hstore_out`` prints it."""
    pairs = (
        _quoted(key.encode()) + b"=>" + (b"NULL" if value is None else _quoted(value.encode()))
        for key, value in entries.items()
    )
    return b", ".join(pairs), entries


def _vector(items: list[float]) -> Value:
    return b"[" + b",".join(str(np.float32(item)).encode() for item in items) + b"]", items


def fields_of(table: TableSchema) -> st.SearchStrategy[list[Value | Unsent]]:
    """A value, null or unchanged TOAST for each column."""
    return st.tuples(*(values(c.column_type) | st.sampled_from(Unsent) for c in table.columns)).map(list)
