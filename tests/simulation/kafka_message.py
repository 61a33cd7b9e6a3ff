"""Messages and errors as ``confluent_kafka`` gives them, of the simulated broker."""

from confluent_kafka import KafkaError, KafkaException

from tests.simulation.broker import Entry, Place


class Delivered:
    """A message as callbacks and readers get it."""

    __slots__ = ("_end", "_entry", "_error", "_place")

    def __init__(self, place: Place, entry: Entry | None, error: KafkaError | None = None, end: int = -1001) -> None:
        self._place, self._entry, self._error, self._end = place, entry, error, end

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int | None:
        offset = self._entry.offset if self._entry else self._end
        return offset if offset >= 0 else None

    def key(self) -> bytes | None:
        return self._entry.key if self._entry else None

    def value(self) -> bytes | None:
        return self._entry.value if self._entry else None

    def error(self) -> KafkaError | None:
        return self._error


def failure(code: int, *, fatal: bool = False, retriable: bool = False, abort: bool = False) -> KafkaException:
    """An error as librdkafka raises it."""
    return KafkaException(KafkaError(code, "simulated", fatal, retriable, abort))
