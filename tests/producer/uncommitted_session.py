"""The producer's session as far as it puts streamed and prepared transactions together, for the tests of that."""

from __future__ import annotations

from collections.abc import Iterator

from producer.pgoutput.decoder import decode_message, decode_tuple, decoders_for
from producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES
from producer.pgoutput.messages import (
    Begin,
    Commit,
    Insert,
    Message,
    Origin,
    Relation,
)
from producer.session.pending_transactions import Committed, Uncommitted
from producer.session.session_relations import Announced
from producer.session.transaction_spool import Spool
from schemas.errors import ProtocolError
from schemas.position import Lsn
from tests.producer.pgoutput.encoder import encode_message, xlog_data
from tests.producer.uncommitted_server import Change

OPTIONS = {"proto_version": "3", "streaming": "on", "two_phase": "true"}
FIXED, FAULTY = 180006, 180004
"""Minors that send no Commit Prepared without its prepare, and that do."""


class Session:
    """Changes by their relation's columns."""

    def __init__(self, spool: Spool, *, options: dict[str, str] | None = None, version: int = FIXED) -> None:
        self.announced = Announced(self._install, lambda relation_id: None)
        self._decoders = decoders_for(OPTIONS if options is None else options)
        self.uncommitted = Uncommitted(spool, self.announced, self._decoders, version, Lsn(100))
        self.committed: list[tuple[int, list[Change]]] = []
        self.installed: dict[int, Relation] = {}
        self._replays = False
        self._arrivals: Iterator[int] = iter(())

    def _install(self, relation: Relation) -> None:
        self.installed[relation.relation_id] = relation

    def receive(self, message: Message | bytes) -> None:
        frame = xlog_data(message if isinstance(message, bytes) else encode_message(message))
        if self.uncommitted.takes is not None and not self._replays:
            self.uncommitted.takes(frame)
            return
        self._dispatch(decode_message(frame[XLOG_DATA_HEADER_BYTES:], self._decoders))

    def _dispatch(self, message: Message) -> None:
        match message:
            case Begin():
                self.committed.append((message.xid, []))
            case Relation() if self._replays:
                self.announced.show(message, next(self._arrivals, None))
            case Relation():
                self.announced.receive(message)
            case Insert():
                self.announced.settle(message.relation_id)
                self._insert(message)
            case Commit() | Origin():
                pass
            case _:
                committed = self.uncommitted.receive(message)
                if committed is not None:
                    self._replay(committed)

    def _insert(self, message: Insert) -> None:
        relation = self.installed.get(message.relation_id)
        fields = decode_tuple(message.new)
        if relation is None or len(relation.columns) != len(fields) or not self.committed:
            raise ProtocolError("a change that fits no announced table, or no transaction")
        value = fields[0]
        self.committed[-1][1].append((message.relation_id, len(fields), value if isinstance(value, bytes) else b""))

    def _replay(self, committed: Committed) -> None:
        self.committed.append((committed.xid, []))
        self.announced.show_all(committed.relations)
        spooled = committed.spooled
        if spooled is not None:
            self._arrivals = spooled.arrivals_left() if committed.joins else iter(())
            self._replays = True
            for frame in spooled.frames(lambda: None):
                self._dispatch(decode_message(frame[XLOG_DATA_HEADER_BYTES:], self._decoders))
            self._replays = False
            spooled.remove()
        self.announced.put_back()
