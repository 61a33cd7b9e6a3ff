"""One record of a topic of rows: key, value, and the headers that say what its key cannot.

Pure. A record without a value is a tombstone: it is no event, and takes no ordinal (I4).
"""

from collections.abc import Iterable
from typing import NamedTuple

from walbridge.producer.pgoutput.messages import Truncate

Headers = list[tuple[str, str | bytes | None]] | None
NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"
"""Headers of the two halves of a key change: the other's key."""
TRUNCATE = "walbridge.truncate"
"""Header of a ``t``: predicates of Kafka Connect see headers alone, and most transforms drop what has no row. Its value
names the statement's options, between commas."""


def truncate_options(change: Truncate) -> bytes:
    """As the header has them; empty where there are none."""
    options = (b"cascade", change.cascade), (b"restart_identity", change.restart_identity)
    return b",".join(name for name, is_given in options if is_given)


class KafkaRecord(NamedTuple):
    """``headers`` only on the two halves of a key change, and on a truncate. Without a value: a tombstone, which is no
    event."""

    key: bytes | None
    value: bytes | None
    headers: Headers = None

    @property
    def size_bytes(self) -> int:
        """The bytes that a broker counts, without its own framing."""
        headers = sum(len(name) + len(value or b"") + _HEADER_BYTES for name, value in self.headers or ())
        return len(self.key or b"") + len(self.value or b"") + headers


_HEADER_BYTES = 10
"""Two lengths of five bytes at most."""


def event_count(records: Iterable[KafkaRecord]) -> int:
    """How many of them are events, which take an ordinal each: a tombstone takes none (I4)."""
    return sum([record.value is not None for record in records])
