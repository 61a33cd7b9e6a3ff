"""Waits for a server that a stop may end: connecting, which libpq does not let be interrupted, and one answer.

In: what to wait for, and whether a stop was asked for. Out: its result, or what ``check_stop`` raises. A connection
that comes too late is closed by the thread that waited for it, and no process waits for such a thread at its end.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
SLICE_S = 0.1
PATIENCE_S = 1.0
"""How long an answer is still waited for after a stop was asked for."""


class Stop(Protocol):
    """Whether a stop was asked for, and the exception that it means."""

    should_stop: Callable[[], bool]

    def check(self) -> None:
        """Raises where a stop was asked for."""


class NoStop:
    """Nobody asks."""

    def __init__(self) -> None:
        self.should_stop: Callable[[], bool] = lambda: False

    def check(self) -> None:
        """Never raises."""


class _Waited(Generic[T]):
    """The result of a thread, or its error, unless nobody waits for it any more."""

    def __init__(self, connect: Callable[[], T], close: Callable[[T], object]) -> None:
        self._connect, self._close = connect, close
        self._lock, self.done = threading.Lock(), threading.Event()
        self._made: list[T] = []
        self._error: BaseException | None = None
        self._is_left = False

    def run(self) -> None:
        try:
            made = self._connect()
        except BaseException as error:
            self._error = error
        else:
            with self._lock:
                self._made.append(made)
                if self._is_left:
                    self._close(self._made.pop())
        self.done.set()

    def leave(self) -> None:
        with self._lock:
            self._is_left = True
            while self._made:
                self._close(self._made.pop())

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._made[0]


def connecting(connect: Callable[[], T], close: Callable[[T], object], check_stop: Callable[[], None]) -> T:
    """What ``connect`` returns or raises.

    Args:
        close: closes one that nobody waits for any more.
        check_stop: called every ``SLICE_S``; may raise, and then nobody waits any more.
    """
    waited = _Waited(connect, close)
    threading.Thread(target=waited.run, name="connect", daemon=True).start()
    try:
        while not waited.done.wait(SLICE_S):
            check_stop()
    except BaseException:
        waited.leave()
        raise
    return waited.result()


@contextlib.contextmanager
def hung_up_after(
    descriptor: int, timeout_s: float | None, should_stop: Callable[[], bool] | None = None
) -> Iterator[None]:
    """Shut the socket down under whoever still waits on it then: libpq itself would wait for ever.

    Args:
        timeout_s: None: an answer may take as long as it takes.
        should_stop: once it is true, ``PATIENCE_S`` are enough.
    """
    if timeout_s is None:
        yield
        return
    over, deciding = threading.Event(), threading.Lock()
    watch = threading.Thread(target=_hang_up, args=(descriptor, timeout_s, should_stop, over, deciding), daemon=True)
    watch.start()
    try:
        yield
    finally:
        with deciding:
            over.set()


def _hang_up(
    descriptor: int,
    timeout_s: float,
    should_stop: Callable[[], bool] | None,
    over: threading.Event,
    deciding: threading.Lock,
) -> None:
    left_s = timeout_s
    while left_s > 0:
        slice_s = left_s if should_stop is None else min(left_s, PATIENCE_S / 2)
        if over.wait(slice_s):
            return
        left_s -= slice_s
        if should_stop is not None and should_stop():
            left_s, should_stop = min(left_s, PATIENCE_S), None
    with deciding:
        # Its number may be another socket's once the wait is over.
        if over.is_set():
            return
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as twin:
            twin.shutdown(socket.SHUT_RDWR)
