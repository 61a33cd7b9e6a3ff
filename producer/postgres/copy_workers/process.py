"""One worker process, as the producer sees it: a child that takes questions and answers them over a socket.

It has the producer's environment, and signals that ask to end are held back from it: a terminal and a service manager
send them to all processes, and only the producer knows what to end. It ends when the socket does.
"""

import contextlib
import signal
import subprocess
import sys
from multiprocessing.connection import Pipe
from multiprocessing.reduction import recv_handle
from pathlib import Path

import walbridge
from walbridge.producer.postgres.copy_workers.protocol import Beginning, Message, Wanted
from walbridge.producer.postgres.table_reads.row_spool import RowSpool

DEATHS_MAX = 3
"""By which another one is started: what kills each of them is not ended by more."""
_OURS = (signal.SIGINT, signal.SIGTERM)
_END_S = 5.0
_MAIN = (
    "import sys; sys.path.append(sys.argv[1]); from walbridge.producer.postgres.copy_workers.worker import main; "
    "main(int(sys.argv[2]))"
)
"""It finds the modules where this process did, after all others, and none in the folder that it happens to be in."""


class WorkerDied(Exception):
    """Its socket ended."""


class WorkerProcess:
    """Runs from the beginning on, until it is ended.

    Raises:
        OSError: the system has no room for another process.
    """

    def __init__(self, beginning: Beginning) -> None:
        self.socket, its = Pipe()
        # A process inherits its mask, so that no signal comes before the worker could say that it does not want any.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _MAIN, str(Path(walbridge.__file__).parents[1]), str(its.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        except OSError:
            self.socket.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            its.close()
        self.send(beginning)

    @property
    def exit_code(self) -> int | None:
        """None until it has been ended."""
        return self._process.returncode

    def send(self, message: Beginning | Wanted) -> None:
        """One question; where the worker has died its socket says so when it is listened to."""
        with contextlib.suppress(OSError):
            self.socket.send(message)

    def receive(self) -> Message:
        """Its next answer.

        Raises:
            WorkerDied: there is none.
        """
        try:
            message: Message = self.socket.recv()
        except (EOFError, OSError):
            raise WorkerDied from None
        return message

    def receive_rows(self) -> RowSpool:
        """The file that follows an answer. Raises as ``receive``."""
        try:
            return RowSpool(None, recv_handle(self.socket))
        except (EOFError, OSError, RuntimeError):
            raise WorkerDied from None

    def end(self) -> None:
        """It ends at once, unless it is stopped or the server does not answer."""
        self.socket.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
