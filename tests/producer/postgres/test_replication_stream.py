"""What Postgres is told: what was received and what is confirmed, when it is due, and never too much."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from struct import unpack
from types import SimpleNamespace
from typing import Any, cast

import pytest
from psycopg import pq

from walbridge.producer.postgres import replication_stream
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.position import Lsn

PATIENCE_S = 30.0


class Walsender:
    """Stands for libpq's connection: keeps each status, and says nothing by itself."""

    socket = 0
    backend_pid = 7

    def __init__(self) -> None:
        self.statuses: list[tuple[int, int, bool]] = []
        """Received, confirmed, and whether an answer is asked for."""
        self.commands: list[str] = []

    def put_copy_data(self, status: bytes) -> int:
        received, written, flushed, _, asks = unpack(">QQQqB", status[1:])
        assert written == flushed
        self.statuses.append((received, flushed, bool(asks)))
        return 1

    def flush(self) -> int:
        return 0

    def get_copy_data(self, is_async: int) -> tuple[int, bytes]:
        return 0, b""

    def consume_input(self) -> None:
        """It said something."""

    def exec_(self, command: bytes) -> SimpleNamespace:
        self.commands.append(command.decode())
        return SimpleNamespace(status=pq.ExecStatus.COPY_BOTH)


class Wire:
    """A stream, its server, and the clock; ``speaks``: something has arrived."""

    def __init__(self, patch: pytest.MonkeyPatch, wal_sender_timeout_ms: int) -> None:
        self.now_s = 1000.0
        self.speaks = False
        self.server = Walsender()
        patch.setattr(replication_stream, "select", SimpleNamespace(select=self._select))
        clock = SimpleNamespace(monotonic=lambda: self.now_s, time_ns=lambda: 0)
        patch.setattr(replication_stream, "time", clock)
        patch.setattr(replication_stream, "walsender_query", lambda *_: [{"setting": str(wal_sender_timeout_ms)}])
        pgconn = cast(pq.abc.PGconn, self.server)
        self.stream = ReplicationStream(pgconn, "s", 10_000, silence_timeout_ms=int(2000 * PATIENCE_S))

    def _select(self, readable: list[Any], *_: Any) -> tuple[list[Any], list[Any], list[Any]]:
        return (readable if self.speaks else []), [], []

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.stream.wait(1.0)


@contextmanager
def wired(wal_sender_timeout_ms: int = 60_000) -> Iterator[Wire]:
    with pytest.MonkeyPatch.context() as patch:
        wire = Wire(patch, wal_sender_timeout_ms)
        wire.stream.start(Lsn(100), {"proto_version": "1", "walbridge.timeline": "2"})
        yield wire


class Deaf(Walsender):
    """Takes the command and never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = socket.socketpair()
        self.socket = self.near.fileno()
        self.near.settimeout(30)

    def exec_(self, command: bytes) -> SimpleNamespace:
        assert self.near.recv(1) == b""  # as libpq: until somebody ends the connection
        return SimpleNamespace(status=pq.ExecStatus.FATAL_ERROR, error_field=lambda field: None)

    def get_error_message(self) -> str:
        return "server closed the connection unexpectedly"


def test_server_that_never_answers_the_start_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication_stream, "walsender_query", lambda *_: [{"setting": "0"}])
    server = Deaf()
    stream = ReplicationStream(cast(pq.abc.PGconn, server), "s", 10_000, silence_timeout_ms=100)

    with server.near, server.far, pytest.raises(RetryableError, match="closed the connection"):
        stream.start(Lsn(100), {"proto_version": "1"})


def test_confirmed_is_told_at_once_beside_what_was_received() -> None:
    """I1: only what is confirmed moves the slot."""
    with wired() as wire:
        wire.stream.received = Lsn(500)
        wire.stream.confirm(Lsn(300))

    assert wire.server.statuses == [(500, 300, False)]


def test_confirmed_never_goes_back() -> None:
    """I1: old minors would move the slot back."""
    with wired() as wire:
        wire.stream.received = Lsn(500)
        for lsn in (300, 200, 300):
            wire.stream.confirm(Lsn(lsn))
        wire.stream.send_status()

    assert [status[1] for status in wire.server.statuses] == [300, 300]


def test_more_than_the_server_reported_is_never_confirmed() -> None:
    """I1: it would skip every later commit without a word."""
    with wired() as wire:
        wire.stream.received = Lsn(500)
        wire.stream.confirm(Lsn(500))
        with pytest.raises(AssertionError, match="server reported"):
            wire.stream.confirm(Lsn(501))

    assert [status[1] for status in wire.server.statuses] == [500]


def test_session_confirms_where_it_began_until_something_is_published() -> None:
    """The slot is never told less than it knows."""
    with wired() as wire:
        wire.stream.send_status()

    assert wire.server.statuses == [(100, 100, False)]


def test_options_of_ours_are_not_asked_of_the_server() -> None:
    with wired() as wire:
        pass

    assert wire.server.commands == ["START_REPLICATION SLOT \"s\" LOGICAL 0/64 (proto_version '1')"]


@pytest.mark.parametrize(("wal_sender_timeout_ms", "due_s"), [(60_000, 10.0), (6_000, 2.0), (0, 10.0)])
def test_status_is_due_often_enough_for_the_server(wal_sender_timeout_ms: int, due_s: float) -> None:
    """It does not ask behind a large transaction, and gives us up."""
    with wired(wal_sender_timeout_ms) as wire:
        wire.stream.send_status()
        wire.passes(due_s - 0.1)
        assert len(wire.server.statuses) == 1
        wire.passes(0.1)

    assert len(wire.server.statuses) == 2


def test_server_that_fell_silent_is_asked_and_then_given_up() -> None:
    with wired() as wire:
        wire.passes(PATIENCE_S + 1)
        assert wire.server.statuses[-1][2]
        wire.passes(PATIENCE_S - 1)
        with pytest.raises(RetryableError, match="said nothing"):
            wire.passes(2)


def test_server_that_answers_is_not_given_up() -> None:
    with wired() as wire:
        wire.passes(PATIENCE_S + 1)
        wire.speaks = True
        assert wire.stream.read() is None
        wire.speaks = False
        wire.passes(PATIENCE_S - 1)
        assert not wire.server.statuses[-1][2]
        wire.passes(2)

    assert wire.server.statuses[-1][2]


def test_status_that_is_owed_is_due_sooner_and_never_later() -> None:
    with wired() as wire:
        wire.stream.send_status()
        wire.stream.owe_status(0.2)
        wire.stream.owe_status(5.0)
        wire.passes(0.2)

    assert len(wire.server.statuses) == 2
