"""The producer started from a process that has imported it: a test starts dozens, and each would import for 0.7 s.

In: arguments, environment and a log file of one start. Out: a process of its own, which runs the program's ``main``
and ends with its exit code, as ``python -m walbridge.producer`` does. The template has no threads, no connections and
no open files of ours when it forks; what is read from the environment at import is read again.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import itertools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parent.parent
MESSAGE_BYTES = 2**20
PACES = {
    ("guards.look_pace", "INTERVAL_S"): 3.0,
    ("guards.topic_watch", "INTERVAL_S"): 2.0,
    ("kafka.table_requests", "LOOK_S"): 1.0,
    ("session.copies.state.tables_to_copy", "AGAIN_S"): 0.2,
    ("session.copies.state.tables_to_copy", "_REFUSED_AGAIN_S"): 1.0,
}
"""By module of the producer and name: how soon it looks, or tries, again here. It is one to ten seconds else, which
dozens of tests would wait out."""
_TURN_S = 0.05


class ForkedProducer:
    """One start, with the methods of ``subprocess.Popen`` that tests use."""

    def __init__(self, template: Template, number: int, pid: int) -> None:
        self._template, self._number, self.pid = template, number, pid
        self.returncode: int | None = None
        try:
            self._pidfd: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = None  # it has ended

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._template.code_of(self._number, timeout_s=0)
        return self.returncode

    def __del__(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code.

        Raises:
            subprocess.TimeoutExpired: it runs still.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            self.returncode = self._template.code_of(self._number, _TURN_S)
            if self.returncode is None and deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("walbridge.producer", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """By its descriptor: its id may be another process's once it has ended."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Template:
    """The process that forks; it ends with this one."""

    def __init__(self) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.forked_producer", str(its.fileno())]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()])
        its.close()
        self._socket, self._lock = ours, threading.Lock()
        self._numbers = itertools.count()
        # By number of the start: ids of processes come again.
        self._pids: dict[int, int] = {}
        self._codes: dict[int, int] = {}

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def start(self, arguments: Sequence[str], environ: Mapping[str, str], log: int) -> ForkedProducer:
        """Start one that writes to the file ``log``."""
        number = next(self._numbers)
        request = {"number": number, "arguments": list(arguments), "environ": dict(environ)}
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [log])
            while number not in self._pids:
                self._receive(None)
            return ForkedProducer(self, number, self._pids.pop(number))

    def code_of(self, number: int, timeout_s: float) -> int | None:
        """The exit code of one that ended; None after so long."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            with self._lock:  # not held for long: other threads ask too
                while number not in self._codes and self._receive(0):
                    pass
                if number not in self._codes and left:
                    self._receive(min(_TURN_S, left))
                if (code := self._codes.get(number)) is not None or not left:
                    return code

    def _receive(self, timeout_s: float | None) -> bool:
        self._socket.settimeout(timeout_s)
        try:
            message = self._socket.recv(MESSAGE_BYTES)
        except (TimeoutError, BlockingIOError):
            return False
        if not message:
            raise RuntimeError(f"the template of producers ended with code {self._process.wait()}")
        said = json.loads(message)
        if "pid" in said:
            self._pids[said["number"]] = said["pid"]
        else:
            self._codes[said["number"]] = said["code"]
        return True


_of_this_process: list[Template] = []


def template() -> Template:
    """That of this process; a new one where the last has died, so that one test fails of it and not all that follow."""
    if not _of_this_process or _of_this_process[-1].has_ended:
        _of_this_process.append(Template())
    return _of_this_process[-1]


def _serve(channel: socket.socket) -> int:
    """Fork at each request; a child is the program, and ends with its exit code."""
    waited = selectors.DefaultSelector()
    waited.register(channel, selectors.EVENT_READ)
    while True:
        for key, _ in waited.select():
            if key.fileobj is not channel:
                _tell_end(channel, *key.data)
                waited.unregister(key.fileobj)
                os.close(key.fd)
                continue
            message, files, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 1)
            if not message:
                return 0
            request = json.loads(message)
            if (pid := os.fork()) == 0:
                waited.close()
                channel.close()
                _end(_run(request, files[0]))
            os.close(files[0])
            channel.send(json.dumps({"number": request["number"], "pid": pid}).encode())
            waited.register(os.pidfd_open(pid), selectors.EVENT_READ, (request["number"], pid))


def _tell_end(channel: socket.socket, number: int, pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    channel.send(json.dumps({"number": number, "code": os.waitstatus_to_exitcode(status)}).encode())


def _run(request: dict[str, object], log: int) -> int:
    from tests.held import hold_if_asked
    from walbridge.producer.__main__ import main
    from walbridge.runtime import kill_points

    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environ"])  # type: ignore[call-overload]  # JSON of ours
    importlib.reload(kill_points)
    hold_if_asked()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return main(request["arguments"])  # type: ignore[arg-type]  # JSON of ours


def _end(code: int) -> NoReturn:
    """As Python ends, but for its objects: to free each, in pages that are copied first, is 60 ms of a start's 300."""
    threading._shutdown()  # type: ignore[attr-defined]  # Python's own, which waits for threads that are no daemons
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for those who wait for it
    importlib.import_module("walbridge.producer.__main__")
    for (module, name), pace_s in PACES.items():
        paced = importlib.import_module(f"walbridge.producer.{module}")
        assert isinstance(getattr(paced, name), float), name
        setattr(paced, name, pace_s)
    gc.collect()
    gc.freeze()  # else the first collection in each child writes to, and so copies, every page that it shares
    sys.exit(_serve(socket.socket(fileno=int(sys.argv[1]))))
