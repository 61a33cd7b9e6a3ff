"""Servers that a run shares: one that dies fails the test that it died in, and lives again for the next.

In: servers, each with the name of the fixture that hands it out. Out: before a test that uses one it
runs; when a phase of the test is over and it has died meanwhile, that test fails with how it ended
and the end of its log, whatever else it found. A server that was stopped or killed on purpose
(``Server.stop``, ``Server.kill``) is only started again.

Postgres and Kafka come back on the data and port that they had, as the same object, so that what a
whole module holds of them stays good. A JVM comes back empty: its session is asked for in each test.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import pytest

from tests.wait import wait_until
from walbridge.embedded.server import Server
from walbridge.embedded.server_process import accepts
from walbridge.schemas.errors import OperatorError

T = TypeVar("T")
S = TypeVar("S", bound=Server)
ANSWER_S = 10.0
LINGERING_S = 30.0
"""Backends of a Postgres whose main process was killed may outlive it, and keep a new one out."""


class SharedServer(Protocol):
    """What is looked after."""

    name: str
    fixture: str
    """Tests that use it ask for this, directly or through others."""

    def death(self) -> str | None:
        """How it ended by itself, with the end of its log; None: it runs, or was stopped on purpose."""

    def revive(self) -> None:
        """Start it, if it does not run."""


class DiedMeanwhile(Exception):
    """A shared server did, while a test ran that uses it."""


_watched: list[SharedServer] = []
_HAD_A_DEATH = pytest.StashKey[bool]()


@contextmanager
def watched(server: SharedServer) -> Iterator[None]:
    """Look after it until the block ends."""
    _watched.append(server)
    try:
        yield
    finally:
        _watched.remove(server)


@contextmanager
def shared(server: S, name: str, fixture: str) -> Iterator[S]:
    """A server with data of its own, looked after."""
    with server, watched(OfData(server, name, fixture)):
        yield server


class OfData:
    """Postgres or a broker."""

    def __init__(self, server: Server, name: str, fixture: str) -> None:
        self._server, self.name, self.fixture = server, name, fixture

    def death(self) -> str | None:
        server = self._server
        if (code := server.exit_code) is not None:
            return f"ended with code {code}{_log(server)}"
        if server.running and not self._takes_connections():
            return f"takes no connections any more{_log(server)}"
        return None

    def revive(self) -> None:
        server = self._server
        if server.running and self._takes_connections():
            return
        server.kill()
        try:
            wait_until(self._starts, "it to start again", LINGERING_S, poll_s=0.5)
        except AssertionError:
            # From what the crash left it cannot be: better new data than no test from here on.
            server.clear()
            server.start()

    def _starts(self) -> bool:
        try:
            self._server.start()
        except OperatorError:
            return False
        return True

    def _takes_connections(self) -> bool:
        try:
            wait_until(lambda: accepts(self._server.port, self._server.host), "a connection", ANSWER_S, poll_s=0.1)
        except AssertionError:
            return False
        return True


def _log(server: Server) -> str:
    return f"; its log ends with:\n{server.log_end()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, T, T]:
    for server in _used_by(item):
        server.revive()
    return (yield from _blaming(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, T, T]:
    return (yield from _blaming(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, T, T]:
    try:
        return (yield from _blaming(item))
    finally:
        if item.stash.get(_HAD_A_DEATH, False):
            _make_module_fixtures_anew(item)


def _blaming(item: pytest.Item) -> Generator[None, T, T]:
    """Fail with what died, above what the test itself has failed with."""
    __tracebackhide__ = True
    try:
        result = yield
    except (KeyboardInterrupt, SystemExit, pytest.exit.Exception):
        raise
    except BaseException as error:
        if deaths := _deaths(item):
            raise DiedMeanwhile(deaths) from error
        raise
    if deaths := _deaths(item):
        raise DiedMeanwhile(deaths)
    return result


def _deaths(item: pytest.Item) -> str:
    """Each is told once: it is started again at once, for the teardown and for the next test."""
    told = []
    for server in _used_by(item):
        if death := server.death():
            told.append(f"while this test ran the shared {server.name} {death}")
            server.revive()
            item.stash[_HAD_A_DEATH] = True
    return "\n".join(told)


def _used_by(item: pytest.Item) -> list[SharedServer]:
    names = set(getattr(item, "fixturenames", ()))
    return [server for server in _watched if server.fixture in names]


def _make_module_fixtures_anew(item: Any) -> None:
    """They may hold connections to what died; and one that could not be made then stays refused for its module."""
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            if definition.scope in ("class", "module", "package"):
                with contextlib.suppress(Exception):
                    definition.finish(item._request)
