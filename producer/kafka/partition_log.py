"""One partition as a read_committed reader sees it: forwards, from its end, or from a position.

In: settings, topic, partition. Out: messages. No group is joined and nothing is committed, so a
look disturbs nobody; each wait has a bound. Transaction markers and aborted records take offsets
but are never delivered, so the end is told by the partition-EOF event and never by counting: an
end offset only says from how far before it to begin, and more is read until enough is found.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from walbridge.producer.kafka.client_config import client_config, refusing_properties
from walbridge.producer.kafka.topics import CONTACT_TIMEOUT_S
from walbridge.schemas.errors import KafkaAway, OperatorError
from walbridge.schemas.settings import Settings

T = TypeVar("T")
SLICE_S = 0.5
SILENCE_S = 10.0
"""Without a message or an end, the partition counts as unreadable."""
_SPAN = 16
_FORBIDDEN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
_AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


def reader_config(settings: Settings) -> dict[str, Any]:
    """A consumer that only looks. Buffers are small: a merge holds one of each partition."""
    return client_config(settings) | {
        "group.id": f"walbridge-{settings.name}-look",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
        "queued.max.messages.kbytes": 4096,
        "log_level": 0,
        "error_cb": lambda error: None,
    }


def read_only_consumer(settings: Settings, properties: dict[str, Any]) -> Consumer:
    """A consumer with ``reader_config`` and what else is given.

    Raises:
        OperatorError: [kafka.client] has a property that a consumer does not take.
    """
    with refusing_properties(settings):
        return Consumer(reader_config(settings) | properties)


class PartitionLog:
    """Reads one partition; a context manager, since it holds a consumer. ``next_offset``: where the next read would go
    on.

    Args:
        is_over: returns true once nobody needs the result any more: a read then gives up instead of waiting.
    """

    def __init__(
        self, settings: Settings, topic: str, partition: int, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        # The broker would hold the fetch that finds the end for as long as this.
        self._consumer = read_only_consumer(settings, {"fetch.wait.max.ms": 10})
        self._group = reader_config(settings)["group.id"]
        self._topic = topic
        self._partition = partition
        self._is_over = is_over
        self._is_leader_known = False
        self.next_offset = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def bounds(self) -> tuple[int, int]:
        """The first offset that is still there, and the one after the last that is committed.

        Raises:
            RetryableError: no broker answers.
            OperatorError: it may not be read.
        """
        try:
            first, end = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, self._partition), timeout=CONTACT_TIMEOUT_S
            )
        except KafkaException as error:
            raise self._unreadable(error.args[0]) from None
        self._is_leader_known = True
        return int(first), int(end)

    def read(self, start: int, stop: int | None = None) -> Iterator[Message]:
        """From an offset up to ``stop``, else to the end as it is when it is reached.

        Raises:
            RetryableError: no broker answers.
            OperatorError: it may not be read.
        """
        self._find_leader()
        try:
            self._consumer.assign([TopicPartition(self._topic, self._partition, start or OFFSET_BEGINNING)])
        except KafkaException as error:
            raise self._unreadable(error.args[0]) from None
        heard_s = time.monotonic()
        while True:
            message = self._consumer.poll(SLICE_S)
            if message is None:
                self._refuse_silence(heard_s)
                continue
            fault, offset = message.error(), message.offset() or 0
            if fault is None:
                if stop is not None and offset >= stop:
                    self._pause()
                    return
                heard_s = time.monotonic()
                self.next_offset = offset + 1
                yield message
            elif fault.code() == KafkaError._PARTITION_EOF:
                self.next_offset = max(self.next_offset, offset)
                self._pause()
                return
            elif not fault.retriable() and fault.code() not in _AWAY:
                raise self._unreadable(fault)
            else:
                self._refuse_silence(heard_s)

    def _find_leader(self) -> None:
        """A client that is given a partition whose leader it does not know looks again after half a second."""
        if not self._is_leader_known:
            with suppress(KafkaException):  # who is away is told by the read
                self._consumer.list_topics(self._topic, timeout=SLICE_S)
            self._is_leader_known = True

    def _pause(self) -> None:
        """Stop fetching until the next read: the client would ask for more a hundred times a second."""
        self._consumer.unassign()

    def _refuse_silence(self, heard_s: float) -> None:
        silent_s = time.monotonic() - heard_s
        if silent_s > SILENCE_S or self._is_over():
            raise KafkaAway(f"topic {self._topic} cannot be read: no answer within {min(silent_s, SILENCE_S):.0f} s")

    def last(self, count: int) -> list[Message]:
        """The last ``count`` messages, oldest first; fewer where there are no more."""
        first, end = self.bounds()
        span = max(_SPAN, 2 * count)
        while True:
            start = max(first, end - span)
            found = list(self.read(start))
            if len(found) >= count or start == first:
                return found[max(0, len(found) - count) :]
            span *= 8  # markers and aborted records took their place

    def newest(self, wanted: Callable[[Message], T | None]) -> T | None:
        """The first result of ``wanted`` that is not None, from the newest message backwards; None if there is none."""
        return next((value for message in self.backwards() if (value := wanted(message)) is not None), None)

    def backwards(self) -> Iterator[Message]:
        """All messages from the newest to the oldest, read span by span as they are consumed."""
        first, end = self.bounds()
        span, stop = _SPAN, None
        while True:
            start = max(first, end - span)
            yield from reversed(list(self.read(start, stop)))
            if start == first:
                return
            span, stop = span * 8, start

    def first_offset(self, is_reached: Callable[[Message], bool], is_asked: Callable[[Message], bool]) -> int:
        """The offset of the first message that ``is_reached`` accepts; it must accept all that follow as well. It is
        asked of those alone that ``is_asked`` accepts.

        By bisection, so that a position in a large topic is found with a few dozen reads.
        """
        low, high = self.bounds()
        while low < high:
            middle = (low + high) // 2
            message = next((each for each in self.read(middle) if is_asked(each)), None)
            if message is None or (message.offset() or 0) >= high or is_reached(message):
                high = middle
            else:
                low = (message.offset() or 0) + 1
        return low

    def _unreadable(self, error: KafkaError) -> KafkaAway | OperatorError:
        if error.code() not in _FORBIDDEN:
            return KafkaAway(f"topic {self._topic} cannot be read: {error.str()}")
        return OperatorError(
            f"topic {self._topic} may not be read: {error.str()}",
            remedy=f"let walbridge's principal READ and DESCRIBE topic {self._topic}, and READ group {self._group}",
        )
