"""The part of an event's ``source`` that all events of one Postgres transaction share, encoded once.

In: the transaction's commit LSN, time, xid and origin. Out: the bytes before and after the ordinal, and Debezium's
``sequence`` and ``transaction``. Pure.
"""

from typing import NamedTuple

from walbridge.schemas.avro.codec import long_bytes, string_value
from walbridge.schemas.avro.value_encoders import NULL, VALUE
from walbridge.schemas.errors import ProtocolError


class TransactionSource(NamedTuple):
    """``encoded``: the fields of ``source`` before the ordinal; ``origin_lsn``: the one after it."""

    encoded: bytes
    origin_lsn: bytes = NULL
    sequence_at: int = 0
    """The index in ``encoded`` of the null that stands for ``sequence``."""
    transaction_id: bytes = b""
    """Debezium's id of the transaction, encoded; empty where events have no ``transaction`` block."""
    other_events: int = 0
    """The number of events of other tables in the transaction before this event."""

    @classmethod
    def of(
        cls, commit_lsn: int, commit_time_us: int, xid: int | None, origin: str | None, origin_lsn: int | None = None
    ) -> "TransactionSource":
        """Encode the fields from ``ts_ms`` to ``commit_lsn``, and ``origin_lsn``. ``commit_time_us``: since 1970."""
        lsn = long_bytes(_signed(commit_lsn))
        times = long_bytes(commit_time_us // 1000) + long_bytes(commit_time_us)
        before = times + (NULL if xid is None else VALUE + long_bytes(xid)) + VALUE + lsn
        encoded = before + NULL + (NULL if origin is None else VALUE + string_value(origin)) + lsn
        placed = NULL if origin_lsn is None else VALUE + long_bytes(_signed(origin_lsn))
        return cls(encoded, placed, len(before))

    def with_sequence(self, last_commit: int | None, lsn: int) -> "TransactionSource":
        """This source with Debezium's ``sequence``."""
        return self._replace(encoded=self.encoded_with_sequence(last_commit, lsn))

    def encoded_with_sequence(self, last_commit: int | None, lsn: int) -> bytes:
        """``encoded`` with Debezium's ``sequence``: a JSON array of the end LSN of the last commit before the event
        (null in a copy) and the LSN of the event itself, both as texts."""
        at, last = self.sequence_at, b"null" if last_commit is None else b'"%d"' % last_commit
        text = b'[%b,"%d"]' % (last, lsn)
        return b"".join((self.encoded[:at], VALUE, long_bytes(len(text)), text, self.encoded[at + 1 :]))

    def transaction_block(self, ordinal: int) -> bytes:
        """Debezium's ``transaction`` block, encoded: its id, the number of the event in the transaction, and its number
        among the events of its table, both from 1."""
        if not self.transaction_id:
            return NULL
        number = ordinal + 1
        return VALUE + self.transaction_id + long_bytes(number) + long_bytes(number - self.other_events)


def _signed(lsn: int) -> int:
    if lsn >= 1 << 63:
        raise ProtocolError("an LSN beyond 2^63 does not fit Avro's long")
    return lsn
