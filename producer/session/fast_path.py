"""The short way for plain changes, which come by the million.

In: frames of a transaction that is published. Out: rows in the open batch, byte for byte as the general way
(``changes.py``) makes them, but without a decoded message in between. It takes an Insert or Update that has a new tuple
only, with all values, of a relation version that has had its barrier. Everything else goes the general way, also a row
that is large or cannot be read.
"""

import struct

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.encoding.record import RecordWriter, with_transaction_block
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES, wal_start
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.schemas.errors import OperatorError, ProtocolError

_unpack_change = struct.Struct(">BIB").unpack_from
"""Tag, relation id, kind of the first tuple."""
_TUPLE_AT = XLOG_DATA_HEADER_BYTES + 6
_NEW = ord("N")
_TAGS = {"c": ord("I"), "u": ord("U")}


class FastPath:
    """The fast path of one session."""

    def __init__(self, out: OpenBatch, transactions: TransactionTracker) -> None:
        self._out = out
        self._transactions = transactions
        self._writers: dict[tuple[int, ...], tuple[RecordWriter, str]] = {}
        """Writer and op, by the tag, relation id and tuple kind that a plain change begins with."""

    def add(self, relation_id: int, writer: RecordWriter) -> None:
        """Let plain changes of this relation take the short way: its version has begun, so they need no barrier."""
        for op in writer.plain_ops:
            self._writers[_TAGS[op], relation_id, _NEW] = writer, op

    def forget(self, relation_id: int) -> None:
        """Its next change goes the general way."""
        for tag in _TAGS.values():
            self._writers.pop((tag, relation_id, _NEW), None)

    def publish(self, data: bytes) -> bool:
        """Queue the record of a plain change; False for any other frame. Only while the tracker ``publishes``."""
        try:
            # What is too short for a change is refused on the general way.
            ready = self._writers.get(_unpack_change(data, XLOG_DATA_HEADER_BYTES))
        except struct.error:
            return False
        if ready is None:
            return False
        writer, op = ready
        out, transactions = self._out, self._transactions
        if not out.is_open:
            out.open()
        transaction = transactions.open
        assert transaction is not None
        source, tail = transaction.source.encoded, out.plain_tails[op]
        if transaction.has_source_details:
            transaction.change_lsn = wal_start(data)
            more = transaction.source_of(writer.relation.table.relation_id)
            source, tail = more.encoded, with_transaction_block(tail, more.transaction_block(transaction.ordinal))
        try:
            # What fails here fails on the general way again, which knows how to leave the table. Nothing is counted
            # yet.
            encoded = writer.plain(data, _TUPLE_AT, writer.source, source, transaction.ordinal, tail)
        except (ProtocolError, OperatorError):
            return False
        if encoded is None or len(encoded[1]) > out.plain_limit:
            return False
        transactions.unhashed.append(data)
        out.send_plain(writer, *encoded)
        if transaction.events is not None:
            transaction.count(writer.relation.table.relation_id, 1)
        transaction.ordinal += 1
        return True
