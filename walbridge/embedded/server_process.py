"""A server as a child process that never outlives us.

In: a command and a log file. Out: a running process, or an ``OperatorError`` with the tail of
its log. Each server leads its own session, so Ctrl-C reaches only us and we end it in order; if
we die without a word the kernel ends it (``launch.py``). Servers are ended by process id only.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from walbridge.schemas.errors import OperatorError

LAUNCH = Path(__file__).with_name("launch.py")
POLL_S = 0.02
LOG_TAIL_LINES = 25
# Below the range that Linux gives to outgoing connections: while a server is down, a client that
# tries to reconnect could otherwise be given the very same port and connect to itself.
PORTS = range(15_000, 32_000)


@dataclass(frozen=True, slots=True)
class RunAs:
    """The user and group that a server runs as."""

    uid: int
    gid: int


OURSELVES = RunAs(os.getuid(), os.getgid())


class ServerProcess:
    """One start of one server."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        run_as: RunAs = OURSELVES,
        environ: Mapping[str, str] | None = None,
        death_signal: int = signal.SIGKILL,
    ) -> None:
        self.name = name
        self.log = log
        # The kernel means the thread, not the process, when it watches a parent: a server begun
        # in a worker thread would end with that thread. There only the exit hook is left.
        watched = threading.current_thread() is threading.main_thread()
        launch = [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid())]
        launch += [str(int(death_signal) if watched else 0), str(run_as.uid), str(run_as.gid)]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*launch, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=dict(environ) if environ is not None else None,
                start_new_session=True,
            )
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; below 0 the signal that ended it."""
        return self._process.poll()

    def wait_until(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Return when ``ready``.

        Raises:
            OperatorError: the process ended, or time is up; it is then killed.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while self.running and time.monotonic() < deadline:
                if ready():
                    return
                time.sleep(POLL_S)
        except BaseException:
            self.kill()
            raise
        ended = not self.running
        self.kill()
        raise self._failure("ended while starting" if ended else f"was not ready after {timeout_s:.0f} s")

    def finish(self, timeout_s: float) -> None:
        """Return when the program has ended well: for one that prepares data and exits.

        Raises:
            OperatorError: its exit code is not 0, or time is up; it is then killed.
        """
        try:
            code: int | None = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        self.kill()
        if code != 0:
            problem = f"took more than {timeout_s:.0f} s" if code is None else f"ended with code {code}"
            raise self._failure(problem)

    def stop(self, signals: Sequence[int], patience_s: float) -> None:
        """Send each signal in turn, waiting for the end after each; then kill."""
        for number in signals:
            if not self.running:
                break
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to the process and to its children, and wait until all are gone."""
        family = _children(self.pid) if self.running else []
        if self.running:
            self._process.kill()
        self._process.wait()
        for child in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while any(map(_is_alive, family)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        atexit.unregister(self.kill)

    def _failure(self, problem: str) -> OperatorError:
        return OperatorError(
            f"{self.name} {problem}; its log ends:\n{tail(self.log)}", "mend what its log says, then start again"
        )


def free_port() -> int:
    """A port on loopback that nobody listens on, and that nobody else on this machine is given while we live.

    So a server that is down, or that is only about to start, finds its port free when it comes.
    """
    for port in random.SystemRandom().sample(PORTS, min(200, len(PORTS))):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            _claim(port)
            return port
    raise OperatorError("no free port was found on loopback", "end some of the servers on this machine")


_claims: list[socket.socket] = []


def _claim(port: int) -> None:
    """Claim a port among walbridge's own processes by an abstract socket name. Like the port it
    belongs to the network namespace; it is no file, and the kernel drops it when the process ends.

    Raises:
        OSError: another process has claimed it.
    """
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0walbridge port {port}")
    except OSError:
        claim.close()
        raise
    _claims.append(claim)


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server takes connections on this port."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The end of a log, indented for a message."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join("    " + line for line in text.splitlines()[-lines:]) or "    (nothing)"


def exit_on_sigterm() -> None:
    """Let SIGTERM unwind the stack like Ctrl-C, so that every ``with`` ends its server."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def _children(pid: int) -> list[int]:
    children = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += [int(child) for child in (thread / "children").read_text().split()]
    return children


def _is_alive(pid: int) -> bool:
    """A zombie counts as gone: its memory and its locks are."""
    with contextlib.suppress(OSError, IndexError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False
