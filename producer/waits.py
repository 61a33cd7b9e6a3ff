"""Waits that end when the operator asks to stop.

In: whether a stop was asked for. Out: ``Stopped``, raised at a place where stopping loses nothing. While a
stream is open, Postgres hears from us during every wait.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from walbridge.runtime.back_off import BackOff

PATIENCE_S = 1.0
"""How long a stop waits for the open batch when Kafka is slow. A batch that is given up comes again."""
_SLICE_S = 0.1


class Stopped(Exception):
    """The operator asked to stop, at a place where stopping loses nothing."""


class Stream(Protocol):
    """A server that ends the session when it does not hear from us."""

    def keep_alive(self) -> None:
        """Send a status if one is due."""


class Waits:
    """The waits of one run. Remembers when a stop was first seen."""

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self.should_stop = should_stop
        self._seen_s: float | None = None
        self._streams: list[Stream] = []

    @contextmanager
    def keeping_alive(self, stream: Stream) -> Iterator[None]:
        """Inside the block, waits for Kafka keep this stream's session alive."""
        self._streams.append(stream)
        try:
            yield
        finally:
            self._streams.remove(stream)

    def for_kafka(self) -> None:
        """Between slices of a wait for Kafka: keep Postgres' session alive, listen for a stop.

        Raises:
            Stopped: as ``check``; beside an open stream as ``check_patience``.
        """
        for stream in self._streams:
            stream.keep_alive()
        if self._streams:
            self.check_patience()
        else:
            self.check()

    def check(self) -> None:
        """End here, if asked to.

        Raises:
            Stopped: a stop was asked for.
        """
        if self.should_stop():
            raise Stopped

    def check_patience(self) -> None:
        """End here, if a stop was asked for and the open batch has had ``PATIENCE_S`` to commit.

        Raises:
            Stopped: as ``check``.
        """
        if self.should_stop():
            self._seen_s = self._seen_s or time.monotonic()
            if time.monotonic() - self._seen_s > PATIENCE_S:
                raise Stopped

    def sleep(self, pause_s: float) -> None:
        """Sleep. Raises as ``check``."""
        deadline_s = time.monotonic() + pause_s
        self.check()
        while (left_s := deadline_s - time.monotonic()) > 0:
            time.sleep(min(_SLICE_S, left_s))
            self.check()

    def back_off(self, due: BackOff) -> None:
        """Sleep between two attempts, longer the next time. Raises as ``check``."""
        self.sleep(due.pause_s)
        due.grow()
