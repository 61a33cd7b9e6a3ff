"""A second server that follows a first one byte by byte, keeps its slots that are made for failover, and takes over.

In: a server that runs. Out: a standby of it with a physical slot, whose confirmation changes of such slots wait for.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

import psycopg

from tests.postgres_versions import PostgresOfVersion
from tests.wait import wait_until
from walbridge.embedded.postgres import PostgresServer

PHYSICAL = "standby"
OF_PRIMARY = {"shared_buffers": "16MB", "synchronized_standby_slots": PHYSICAL}


class Standby(PostgresOfVersion):
    """Not promoted yet."""

    def __init__(self, primary: PostgresServer, major: int) -> None:
        self._primary = primary
        following = {
            "shared_buffers": "16MB",
            "hot_standby_feedback": "on",
            "sync_replication_slots": "on",
            "primary_slot_name": PHYSICAL,
            "primary_conninfo": primary.dsn(),
        }
        super().__init__(major, following)

    def _init_data(self) -> None:
        """The primary's own files, as they are while it is stopped."""
        self._primary.stop()
        subprocess.run(["cp", "-a", str(self._primary.data), str(self.data)], check=True)
        self._primary.start()
        signal = self.data / "standby.signal"
        signal.touch()
        os.chown(signal, self._run_as.uid, self._run_as.gid)

    def has_synchronised(self, slot: str) -> bool:
        """Whether it would have the slot after a failover."""
        found = _rows(self, "SELECT synced AND NOT temporary FROM pg_replication_slots WHERE slot_name = %s", slot)
        return found == [(True,)]

    def promote(self) -> None:
        """Take over: a new timeline."""
        _rows(self, "SELECT pg_promote()")
        wait_until(lambda: _rows(self, "SELECT pg_is_in_recovery()") == [(False,)], "the end of recovery")


@contextlib.contextmanager
def followed(primary: PostgresServer, major: int) -> Iterator[Standby]:
    """A standby of this server, which is restarted for it."""
    _rows(primary, "SELECT pg_create_physical_replication_slot(%s, true)", PHYSICAL)
    with Standby(primary, major) as standby:
        yield standby


def either(primary: PostgresServer, standby: PostgresServer) -> str:
    """A connection string for whichever of them takes writes."""
    ports = f"{primary.port},{standby.port}"
    return f"host=127.0.0.1,127.0.0.1 port={ports} user=postgres dbname=postgres target_session_attrs=read-write"


def _rows(server: PostgresServer, query: str, *parameters: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        return connection.execute(query.encode(), parameters).fetchall()
