"""SIGTERM, Ctrl-C and a terminal that is closed, as an event that is set at once, whatever the main thread does.

In: an event. Out: it is set as soon as the process has the signal. Python runs a signal's handler in the main thread,
between two of its bytecodes: one that sets the event there comes too late while that thread is in a call of a library,
is lost when the signal comes just before it waits, and waits for itself when it comes while that thread holds the
event's lock. So a thread reads the numbers that the interpreter writes as signals come (``signal.set_wakeup_fd``), and
the handlers do nothing.
"""

import signal
import socket
import threading
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
EXIT_CTRL_C = 130
"""Of a command, or of a program that had not begun: what a shell shows for one that SIGINT ended."""


def handled_signals() -> tuple[signal.Signals, ...]:
    """Without what the program was started to outlive, as by nohup."""
    is_to_outlive = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return tuple(each for each in STOP_SIGNALS if each is not signal.SIGHUP or not is_to_outlive)


def set_on_stop_signals(stop: threading.Event) -> None:
    """Once in a process, from its main thread."""
    heard, written = socket.socketpair()
    written.setblocking(False)
    signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    install_empty_handlers()
    threading.Thread(target=_listen, args=(heard, written, stop), name="stop signals", daemon=True).start()


def install_empty_handlers() -> None:
    """The handlers do nothing (again): who had set others has done with them."""
    for each in handled_signals():
        signal.signal(each, _nothing)


def _nothing(number: int, frame: FrameType | None) -> None:
    """A signal without a handler would end the process, and an ignored one would not be written."""


def _listen(heard: socket.socket, _written: socket.socket, stop: threading.Event) -> None:
    """``_written`` is held open, which only its number is known of elsewhere."""
    while number := heard.recv(1):
        if number[0] in STOP_SIGNALS:
            stop.set()
