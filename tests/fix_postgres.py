"""One Postgres for the whole run, and a database of its own for each test."""

from __future__ import annotations

import contextlib
import signal
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.faults.proxy import TcpProxy
from tests.postgres_versions import PostgresOfVersion
from tests.shared_servers import shared
from tests.wait import wait_until
from tests.which_servers import servers_are_docker
from walbridge.embedded.postgres import PostgresServer

OF_VERSION = {"autovacuum": "off", "shared_buffers": "16MB"}
"""Vacuum makes the server send a Relation again, whenever it likes."""


@dataclass(frozen=True, slots=True)
class Database:
    """A database that only one test knows."""

    server: PostgresServer
    name: str

    @property
    def dsn(self) -> str:
        return self.server.dsn(self.name)

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A connection with autocommit; use ``with connection.transaction()`` for several statements."""
        return psycopg.connect(self.dsn, autocommit=True, **options)

    def execute(self, statement: str, parameters: Any = None) -> None:
        """Run SQL; without parameters it may be several statements, which are one transaction."""
        with self.connect() as connection:
            connection.execute(statement.encode(), parameters)

    def rows(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    def value(self, query: str, parameters: Any = None) -> Any:
        """First column of the first row."""
        return self.rows(query, parameters)[0][0]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The shared server. A test that kills or stops it starts it again."""
    with shared(_shared_server(), "Postgres", "postgres") as server:
        yield server


def _shared_server() -> PostgresServer:
    if not servers_are_docker():
        return PostgresServer()
    from tests.docker_servers import DockerPostgres

    return DockerPostgres()


@contextlib.contextmanager
def having_vector(server: PostgresServer) -> Iterator[PostgresServer]:
    """This server, or an embedded one where it lacks pgvector: the image has it not."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        found = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchall()
    if found:
        yield server
        return
    with shared(PostgresServer(), "Postgres that has pgvector", "postgres") as embedded:
        yield embedded


@pytest.fixture(scope="session")
def postgres_version() -> Iterator[Callable[[int], PostgresServer]]:
    """Servers of each major version, started when first asked for and kept for the run."""
    servers: dict[int, PostgresServer] = {}
    with contextlib.ExitStack() as stack:

        def of(major: int) -> PostgresServer:
            if major not in servers:
                servers[major] = stack.enter_context(
                    shared(PostgresOfVersion(major, OF_VERSION), f"Postgres {major}", "postgres_version")
                )
            return servers[major]

        yield of


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """For tests that change what holds for a whole server."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    """A fresh, empty database; its slots and connections are dropped with it."""
    with new_database(postgres) as made:
        yield made


@pytest.fixture
def make_database(postgres: PostgresServer) -> Iterator[Callable[[], Database]]:
    """For tests that need several databases."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(new_database(postgres))


@pytest.fixture
def postgres_proxy(postgres: PostgresServer) -> Iterator[TcpProxy]:
    """A breakable way to the shared server."""
    with TcpProxy(postgres.port) as proxy:
        yield proxy


@contextlib.contextmanager
def new_database(server: PostgresServer) -> Iterator[Database]:
    name = f"test_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        # Since 15 a copy goes through the log by default: 7 MB of it for each, which every walsender reads.
        as_files = sql.SQL("STRATEGY file_copy" if admin.info.server_version >= 150000 else "")
        admin.execute(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), as_files))
    try:
        yield Database(server, name)
    finally:
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            _drop(admin, name)


def stop_in_order(server: PostgresServer) -> None:
    """The first signal, for a fast shutdown, is enough: nobody has to tell it to hurry, or to kill it."""
    server.stop()
    said = server.log_end()
    assert said.endswith("database system is shut down"), said
    assert said.rfind("received immediate shutdown") < said.rfind("received fast shutdown"), said


def stop_at_once(server: PostgresServer) -> None:
    """An immediate shutdown: no session ends in order, and the next start recovers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "stop_signals", (signal.SIGQUIT,))
        server.stop()


def _drop(admin: psycopg.Connection[Any], name: str) -> None:
    def slots_are_gone() -> bool:
        """A walsender holds its slot until it notices that its client left."""
        left = "FROM pg_replication_slots WHERE database = %s"
        admin.execute(f"SELECT pg_terminate_backend(active_pid) {left} AND active".encode(), [name])
        # A temporary one goes by itself, maybe just now.
        with contextlib.suppress(psycopg.errors.ObjectInUse, psycopg.errors.UndefinedObject):
            admin.execute(f"SELECT pg_drop_replication_slot(slot_name) {left} AND NOT active".encode(), [name])
        return not admin.execute(f"SELECT 1 {left}".encode(), [name]).fetchall()

    wait_until(slots_are_gone, "the test's slots to be dropped")
    admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
    for (gid,) in admin.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", [name]).fetchall():
        with psycopg.connect(admin.info.dsn, dbname=name, autocommit=True) as inside:
            inside.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
    # Before 13 there is no FORCE: who was told to go may take a moment.
    force = sql.SQL("WITH (FORCE)" if admin.info.server_version >= 130000 else "")
    drop = sql.SQL("DROP DATABASE {} {}").format(sql.Identifier(name), force)

    def is_dropped() -> bool:
        with contextlib.suppress(psycopg.errors.ObjectInUse):
            admin.execute(drop)
            return True
        return False

    wait_until(is_dropped, "the test's database to be dropped")
