"""Changes of the open transaction: into the open batch, each with its ordinal.

In: changes, and the transaction that they are of. Out: records of their tables; barriers where a
version begins and where a table is emptied. What is known of a relation version that has begun is
kept for the session's short way for plain rows.
"""

from collections.abc import Callable

from producer.batch.open_batch import OpenBatch
from producer.encoding.record import KafkaRecord, RecordWriter, TransactionSource, UnknownValue
from producer.pgoutput.messages import Delete, Insert, Truncate, Update
from producer.relations.tables import Tables
from producer.session.dropped_tables import Change, UnfollowedTables
from producer.session.transaction import OpenTransaction
from schemas.position import Position

NEW = ord("N")
PLAIN_TAGS = {"c": ord("I"), "u": ord("U")}


class Changes:
    """Of one session.

    Args:
        settle: installs what the next change of a relation wants.
        leaves: a table of which a value is nowhere is left, not refused.
        on_left: told its relation id.
    """

    def __init__(
        self,
        out: OpenBatch,
        tables: Tables,
        settle: Callable[[int], None],
        *,
        leaves: bool,
        on_left: Callable[[int], None],
    ) -> None:
        self._out = out
        self._tables = tables
        self._settle = settle
        self._leaves = leaves
        self._on_left = on_left
        self._unfollowed = UnfollowedTables(out)
        self.transaction: OpenTransaction | None = None
        self.source = TransactionSource(b"")
        self.ready: dict[tuple[int, ...], tuple[RecordWriter, str]] = {}
        """Writers whose version has begun, and ops, by what plain changes begin with: such a row wants no barrier."""

    def rest_of(self, change: Change) -> Change | None:
        """What of it is followed still."""
        return self._unfollowed.rest_of(change)

    def publish(self, change: Change) -> None:
        """Queue what it becomes."""
        _CHANGES[type(change)](self, change)

    def is_ready_no_more(self, relation_id: int) -> None:
        """Its next change goes the general way."""
        for tag in PLAIN_TAGS.values():
            self.ready.pop((tag, relation_id, NEW), None)

    def _insert(self, change: Insert) -> None:
        writer, ordinal = self._place(change.relation_id)
        try:
            self._send(writer, writer.insert(change, self.source, ordinal, self._out.ts_ms))
        except UnknownValue as reason:
            if not self._leaves:
                raise
            self._unfollowed.leave(writer.relation, self._position(), reason)
            self._on_left(change.relation_id)

    def _update(self, change: Update) -> None:
        writer, ordinal = self._place(change.relation_id)
        self._send(writer, writer.update(change, self.source, ordinal, self._out.ts_ms))

    def _delete(self, change: Delete) -> None:
        writer, ordinal = self._place(change.relation_id)
        self._send(writer, writer.delete(change, self.source, ordinal, self._out.ts_ms))

    def _truncate(self, change: Truncate) -> None:
        for relation_id in change.relation_ids:
            writer, ordinal = self._place(relation_id)
            self._out.add_barrier(writer, "truncate", self._position())
            self._out.send_to_all_partitions(writer, writer.truncate(self.source, ordinal, self._out.ts_ms))
            self._open().ordinal += 1

    def _place(self, relation_id: int) -> tuple[RecordWriter, int]:
        self._settle(relation_id)
        writer = self._tables.writer(relation_id)
        if self._tables.take_shape_barrier(relation_id):
            self._out.add_barrier(writer, "shape", self._position())
        for op in writer.plain_ops:
            self.ready[PLAIN_TAGS[op], relation_id, NEW] = writer, op
        return writer, self._open().ordinal

    def _position(self) -> Position:
        transaction = self._open()
        return Position(transaction.begin.final_lsn, transaction.ordinal)

    def _send(self, writer: RecordWriter, records: list[KafkaRecord]) -> None:
        for record in records:
            self._out.send(writer, record)
        self._open().ordinal += len(records)

    def _open(self) -> OpenTransaction:
        assert self.transaction is not None
        return self.transaction


_CHANGES: dict[type[Change], Callable[..., None]] = {
    Insert: Changes._insert,
    Update: Changes._update,
    Delete: Changes._delete,
    Truncate: Changes._truncate,
}
