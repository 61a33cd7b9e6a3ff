"""The base of embedded servers: one server with its own data, which can be started, stopped and killed.

In: from the subclass, how to prepare data, choose ports and launch. Out: a context manager, started
on entry and gone on exit. Data and port outlive a stop and a kill: clients come back to the same
server. Only before anybody knows the port is another one tried, should somebody else take it.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import ClassVar, Self

from walbridge.embedded.folders import RunFolder
from walbridge.embedded.server_process import ServerProcess, tail
from walbridge.schemas.errors import OperatorError

STOP_S = 20.0
STARTS_MAX = 5  # another process may take the port between our look and the server's


class Server(ABC):
    """One server with its own data.

    Args:
        kind: names its folder under home.
        keep: leave data and log under home when it stops.
    """

    stop_signals: ClassVar[Sequence[int]]
    """Sent in turn, each with ``STOP_S`` of patience."""

    def __init__(self, kind: str, *, keep: bool) -> None:
        self._folder = RunFolder(kind, keep=keep)
        self._process: ServerProcess | None = None
        self.data = self._folder.path / "data"
        self.log = self._folder.path / f"{kind}.log"
        self.host, self.port = "127.0.0.1", 0

    @abstractmethod
    def _prepare(self, *, first: bool) -> None:
        """Make the data, or repair it after a crash."""

    @abstractmethod
    def _choose_ports(self) -> None:
        """Choose free ports, and write the files that name them."""

    @abstractmethod
    def _launch(self) -> ServerProcess:
        """Start the server; returns when it takes requests."""

    def start(self) -> Self:
        """Start, or start again on the same data and port. Returns when it takes requests."""
        if self.running:
            return self
        first = not self.data.exists()
        self._prepare(first=first)
        for starts_left in reversed(range(STARTS_MAX)):
            if first:
                self._choose_ports()
            began = self._log_bytes()
            try:
                self._process = self._launch()
                break
            except OperatorError:
                # Once clients know the port it is not changed under them.
                if not first or not starts_left or not self._met_a_taken_port(began):
                    raise
        return self

    def _log_bytes(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _met_a_taken_port(self, began: int) -> bool:
        """In the whole log of this start: a broker says much after it, and an error quotes the end only."""
        with self.log.open("rb") as log:
            log.seek(began)
            return b"Address already in use" in log.read()

    def stop(self) -> None:
        """Orderly shutdown. Data stays until ``remove``."""
        if self._process:
            self._process.stop(self.stop_signals, STOP_S)
            self._process = None

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process:
            self._process.kill()
            self._process = None

    def clear(self) -> None:
        """Kill it and delete its data: the next start makes new ones."""
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop it and, unless ``keep``, delete its data and log."""
        self.stop()
        self._folder.remove()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def exit_code(self) -> int | None:
        """The code of a process that ended by itself, negative for a signal; None if it runs, or was stopped by us."""
        return self._process.exit_code if self._process else None

    def log_end(self) -> str:
        """The last lines that it wrote, indented for a message."""
        return tail(self.log)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
