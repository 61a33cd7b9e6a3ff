"""What a change does to keys: from which key to which, and with which row.

In: Insert, Update and Delete of a table with a key. Out: ``Step``s. Keys are the Avro bytes that
the table's ``RecordWriter`` makes, equal for a value as text and in binary.
"""

from collections.abc import Callable
from dataclasses import dataclass

from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Delete, Insert, Unsent, Update
from walbridge.producer.pgoutput.tuple_data import encode_tuple, fill


class KeyNotSent(Exception):
    """A change from which its row's key cannot be told. The pipeline refuses it where it publishes it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A row goes from a key to a key. ``old`` is None where it is new, ``new`` and ``row`` where it is removed.

    ``row`` is TupleData; what the change itself tells of unchanged TOAST is filled in.
    """

    old: bytes | None
    new: bytes | None
    row: bytes | None
    is_whole: bool
    """Nothing of the row is unknown."""

    @property
    def size_bytes(self) -> int:
        """With what Python takes for it."""
        return 400 + sum(len(each) for each in (self.old, self.new, self.row) if each)

    @property
    def moves_unknown(self) -> bool:
        """A row came to its key with values that are known only to whoever holds the row of the old key."""
        return self.new is not None and self.new != self.old and not self.is_whole


def is_whole(row: bytes) -> bool:
    """Whether a tuple has no unchanged TOAST."""
    return b"u" not in row or Unsent.UNCHANGED_TOAST not in decode_tuple(row)


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The keys of one relation version.

    ``key_of``: of TupleData; None where a value of the key was not sent. ``flags``: the columns of the key.
    """

    key_of: Callable[[bytes], bytes | None]
    flags: tuple[bool, ...]
    has_full_identity: bool = False

    @classmethod
    def of(cls, writer: RecordWriter) -> "RowKeys":
        """Those of a table with a key."""
        assert writer.has_key, f"{writer.relation.table.qualified_name} has no key"
        return cls(writer.row_key, writer.key_flags, writer.relation.table.replica_identity == "f")

    def step(self, change: Insert | Update | Delete) -> Step:
        """What the change does.

        Raises:
            KeyNotSent: the key is not in it.
        """
        match change:
            case Insert():
                return self._step(None, change.new)
            case Delete():
                return Step(self._key(change.old or change.key or b""), None, None, is_whole=True)
            case Update(old=None, key=None):
                if self.has_full_identity:
                    raise KeyNotSent  # of the old row
                return self._step(key := self._key(change.new), change.new, key)
            case Update(old=None, key=bytes(key_tuple)):
                return self._step(self._key(key_tuple), fill(change.new, key_tuple, self.flags))
            case Update(old=bytes(old)):
                return self._step(self._key(old), fill(change.new, old, None))
        raise AssertionError(change)

    def key_tuple(self, row: bytes) -> bytes:
        """The key of a row as Postgres sends an old key: all columns, with nulls outside of the key."""
        fields = zip(decode_tuple(row), self.flags, strict=True)
        return encode_tuple([field if is_key else Unsent.NULL for field, is_key in fields])

    def _step(self, old: bytes | None, row: bytes, new: bytes | None = None) -> Step:
        return Step(old, new or self._key(row), row, is_whole(row))

    def _key(self, row: bytes) -> bytes:
        key = self.key_of(row) if row else None
        if key is None:
            raise KeyNotSent
        return key
