"""A session without Kafka, for the tests of pending transactions: the replay itself is the producer's."""

from __future__ import annotations

from tests.producer.pgoutput.encoder import encode_message, xlog_data
from tests.producer.uncommitted_server import Change
from walbridge.producer.pgoutput.decoder import decode_message, decode_tuple, decoders_for
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES
from walbridge.producer.pgoutput.messages import Begin, Commit, Insert, Message, Origin, Relation, Truncate
from walbridge.producer.session.transactions.pending_transactions import PendingTransactions
from walbridge.producer.session.transactions.replay import Replay
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

OPTIONS = {"proto_version": "3", "streaming": "on", "two_phase": "true"}
DONE = Lsn(100)
FIXED, FAULTY = 180006, 180004
"""Minors that send no Commit Prepared without its prepare, and that do."""


class Session:
    """Changes by their relation's columns."""

    def __init__(
        self,
        spool: Spool,
        *,
        options: dict[str, str] | None = None,
        version: int = FIXED,
        asks_for_no_origin: bool = False,
    ) -> None:
        self._relations = SessionRelations(self._install, lambda relation_id: None)
        self._decoders = decoders_for(OPTIONS if options is None else options)
        self.pending = PendingTransactions(
            spool, self._relations, self._decoders, version, DONE, asks_for_no_origin=asks_for_no_origin
        )
        self._replay = Replay(self.pending, self._relations, lambda: None)
        self.committed: list[tuple[int, list[Change]]] = []
        self.installed: dict[int, Relation] = {}

    def _install(self, relation: Relation) -> None:
        self.installed[relation.relation_id] = relation

    def receive(self, message: Message | bytes) -> None:
        frame = xlog_data(message if isinstance(message, bytes) else encode_message(message))
        if self.pending.take_frame is not None:
            self.pending.take_frame(frame)
        else:
            self._dispatch(frame)

    def _dispatch(self, frame: bytes) -> None:
        match message := decode_message(frame[XLOG_DATA_HEADER_BYTES:], self._decoders):
            case Begin():
                self.committed.append((message.xid, []))
            case Relation():
                self._replay.relation(message)
            case Insert():
                self._relations.install_due(message.relation_id)
                self._insert(message)
            case Commit() | Origin() | Truncate():
                pass
            case _:
                begin = self._replay.receive(message)
                if begin is not None:
                    self._replay_all(begin)

    def _insert(self, message: Insert) -> None:
        relation = self.installed.get(message.relation_id)
        fields = decode_tuple(message.new)
        if relation is None or len(relation.columns) != len(fields) or not self.committed:
            raise ProtocolError("a change that fits no announced table, or no transaction")
        value = fields[0]
        self.committed[-1][1].append((message.relation_id, len(fields), value if isinstance(value, bytes) else b""))

    def _replay_all(self, begin: Begin) -> None:
        self.committed.append((begin.xid, []))
        while (frame := self._replay.read()) is not None:
            self._dispatch(frame)
        self._replay.end()
