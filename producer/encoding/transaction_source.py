"""The parts of an event's ``source`` that all events of one Postgres transaction share, encoded once.

In: what its Commit says. Out: bytes before and behind the ordinal, Debezium's ``sequence`` and ``transaction``. Pure.
"""

from typing import NamedTuple

from walbridge.schemas.avro.codec import long_bytes, string_value
from walbridge.schemas.avro.value_encoders import NULL, VALUE
from walbridge.schemas.errors import ProtocolError


class TransactionSource(NamedTuple):
    """The parts of ``source`` that one Postgres transaction shares, encoded once: before and behind the ordinal."""

    encoded: bytes
    origin_lsn: bytes = NULL
    sequence_at: int = 0
    """Where in ``encoded`` the null stands that ``sequence`` is."""
    transaction_id: bytes = b""
    """Encoded; empty where events have no ``transaction``."""
    other_events: int = 0
    """Of other tables, in the transaction, before the event."""

    @classmethod
    def of(
        cls, commit_lsn: int, commit_time_us: int, xid: int | None, origin: str | None, origin_lsn: int | None = None
    ) -> "TransactionSource":
        """Fields ts_ms … commit_lsn of ``Source``, and its last. ``commit_time_us``: since 1970."""
        lsn = long_bytes(_signed(commit_lsn))
        before = (
            long_bytes(commit_time_us // 1000),
            long_bytes(commit_time_us),
            NULL if xid is None else VALUE + long_bytes(xid),
            VALUE + lsn,
        )
        behind = NULL if origin is None else VALUE + string_value(origin), lsn
        encoded = b"".join((*before, NULL, *behind))
        placed = NULL if origin_lsn is None else VALUE + long_bytes(_signed(origin_lsn))
        return cls(encoded, placed, len(b"".join(before)))

    def in_sequence(self, last_commit: int | None, lsn: int) -> "TransactionSource":
        """With Debezium's ``sequence``."""
        return self._replace(encoded=self.sequenced(last_commit, lsn))

    def sequenced(self, last_commit: int | None, lsn: int) -> bytes:
        """``encoded`` with Debezium's ``sequence``, a JSON array of texts: the end of the last commit before the event,
        None in a copy; and the LSN of the event itself."""
        at, last = self.sequence_at, b"null" if last_commit is None else b'"%d"' % last_commit
        text = b'[%b,"%d"]' % (last, lsn)
        return b"".join((self.encoded[:at], VALUE, long_bytes(len(text)), text, self.encoded[at + 1 :]))

    def block(self, ordinal: int) -> bytes:
        """Debezium's ``transaction``: its id, the event's number in it, and that among those of its table; from 1."""
        if not self.transaction_id:
            return NULL
        number = ordinal + 1
        return VALUE + self.transaction_id + long_bytes(number) + long_bytes(number - self.other_events)


def _signed(lsn: int) -> int:
    if lsn >= 1 << 63:
        raise ProtocolError("an LSN beyond 2^63 does not fit Avro's long")
    return lsn
