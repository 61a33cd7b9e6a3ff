"""Small transactions on table ``t (id int PRIMARY KEY, v int)``, until left; a server that ends is waited for."""

from __future__ import annotations

import threading
from typing import Any, ClassVar, Protocol, Self

import psycopg

from tests.fix_postgres import Database
from tests.wait import wait_until


class OfDatabase(Protocol):
    """A pipeline under test."""

    @property
    def database(self) -> Database: ...


class Writer:
    """Writes in a thread of its own. Others write something else: ``write`` is one turn."""

    pause_s: ClassVar[float] = 0.005

    def __init__(self, pipeline: OfDatabase) -> None:
        self._database = pipeline.database
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def _run(self) -> None:
        while not self._stop.wait(self.pause_s):
            try:
                self._write_until_left()
            except psycopg.OperationalError as error:
                if not _is_of_server_that_ended(error):
                    raise

    def _write_until_left(self) -> None:
        with self._database.connect() as connection:
            while not self._stop.wait(self.pause_s):
                self.count += 1
                self.write(connection)

    def write(self, connection: psycopg.Connection[Any]) -> None:
        """The transactions of one turn, of which ``count`` is the number."""
        connection.execute("INSERT INTO t VALUES (%s, 0)", (self.count,))
        connection.execute("UPDATE t SET v = v + 1 WHERE id = %s", (self.count // 2,))

    def wait_for(self, more: int) -> None:
        """Until so many more transactions are written."""
        wanted = self.count + more
        wait_until(lambda: self.count >= wanted or not self._thread.is_alive(), f"{more} more transactions")
        assert self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()


def _is_of_server_that_ended(error: psycopg.OperationalError) -> bool:
    """No answer has no code; those of a server that stops or starts are of class 57P."""
    return error.sqlstate is None or error.sqlstate.startswith("57P")
