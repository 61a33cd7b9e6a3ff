"""Messages of streamed and prepared transactions, in short."""

from __future__ import annotations

from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.uncommitted_server import Server
from tests.producer.uncommitted_session import Session
from walbridge.producer.pgoutput.messages import (
    BeginPrepare,
    Insert,
    Prepare,
)
from walbridge.schemas.position import Lsn


def insert(value: bytes) -> Insert:
    return Insert(1, tuple_data(value))


def relation(name: str) -> bytes:
    server = Server()
    server.transaction([1])
    return next(payload for payload in server.payloads if payload[:1] == b"R").replace(b"t1", name.encode())


PREPARED = (Lsn(150), Lsn(158), 5, 7, "")
"""Position, time, xid and name, which may be empty."""


def prepare(session: Session, *values: bytes, xid: int = 7, gid: str = "", lsn: int = 150) -> None:
    session.receive(BeginPrepare(Lsn(lsn), Lsn(lsn + 8), 5, xid, gid))
    session.receive(relation("t1"))
    for value in values:
        session.receive(insert(value))
    session.receive(Prepare(Lsn(lsn), Lsn(lsn + 8), 5, xid, gid))
