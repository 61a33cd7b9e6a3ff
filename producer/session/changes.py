"""Changes of the open transaction: into the open batch, each with its ordinal.

In: changes, and the transaction that they are of. Out: records of their tables; barriers where a version begins and
where a TRUNCATE empties a table (``plan/segments/table_walk.py`` of the job ends a segment there). A relation version
that has begun is told to the fast path, unless the table is being copied: then each change is shown to its copy.
"""

from collections.abc import Callable
from dataclasses import replace

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.encoding.kafka_record import KafkaRecord, event_count, truncate_options
from walbridge.producer.encoding.record import RecordWriter, records_of
from walbridge.producer.errors.rows import UnfitRow, UnknownValue, unfit_row
from walbridge.producer.pgoutput.messages import Delete, Insert, Truncate, Update
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.copies.state.whole_copy import WholeCopy
from walbridge.producer.session.copies.table_copies import TableCopies
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.producer.session.left_out_tables import Change, LeftOutTables
from walbridge.producer.session.table_trouble import TableTrouble
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.producer.session.transactions.transaction import OpenTransaction
from walbridge.schemas.errors import OperatorError, ProtocolError


class Changes:
    """Publishes the changes of one session.

    Args:
        drops_on_unknown_value: if a row comes without a value that exists nowhere else, its table waits for its
            operator. Else it is copied again, once its row filter and replica identity fit each other.
    """

    def __init__(
        self,
        out: OpenBatch,
        tables: Tables,
        relations: SessionRelations,
        fast_path: FastPath,
        followed: FollowedTables,
        *,
        drops_on_unknown_value: bool,
    ) -> None:
        self._out = out
        self._tables = tables
        self._relations = relations
        self._fast_path = fast_path
        self._drops_on_unknown_value = drops_on_unknown_value
        self.left_out = LeftOutTables(out, tables, relations, followed)
        self.trouble: TableTrouble | None = None
        self.copies: TableCopies | None = None
        """Tables that are copied beside the stream; None where none is."""

    def followed_part(self, change: Change, transaction: OpenTransaction) -> Change | None:
        """The part of a change that is to be published, as only some tables of a TRUNCATE may be; None where there is
        none."""
        if self.copies is not None and self.copies.whole is not None:
            rest = self._set_aside(change, self.copies.whole, transaction)
            return None if rest is None else self.left_out.followed_part(rest, transaction)
        return self.left_out.followed_part(change, transaction)

    def _set_aside(self, change: Change, whole: WholeCopy, transaction: OpenTransaction) -> Change | None:
        """The part of a change that is not of the table being copied in one piece. The other part waits for its
        rows."""
        relation_id = whole.relation_id
        if isinstance(change, Truncate):
            if relation_id not in change.relation_ids:
                return change
            whole.truncate()
            rest = tuple(each for each in change.relation_ids if each != relation_id)
            return replace(change, relation_ids=rest) if rest else None
        if change.relation_id != relation_id:
            return change
        self._relations.install_due(relation_id)
        reason = None if self.trouble is None else self.trouble.announced.take_refusal(relation_id)
        if reason is not None:
            whole.failure = reason
        elif whole.failure is None:
            whole.receive(change, self._tables.writers.of(relation_id), transaction)
        return None

    def publish(self, change: Change, transaction: OpenTransaction) -> None:
        """Queue the Kafka records of a change. If its table turns out to be in trouble, it is left before the
        change."""
        if isinstance(change, Truncate):
            if self.trouble is not None:
                self.trouble.note_truncate(change.relation_ids, transaction)
        elif self._leave_if_in_doubt(change.relation_id, transaction):
            return
        elif self.trouble is not None:
            self.trouble.note_change(change.relation_id, transaction)
        _CHANGES[type(change)](self, change, transaction)

    def _row(self, change: Insert | Update | Delete, transaction: OpenTransaction) -> None:
        writer = self._tables.writers.of(change.relation_id)
        try:
            source = transaction.source_of(change.relation_id)
            records = records_of(change, writer, source, transaction.ordinal, self._out.ts_ms)
            # Before any of them is queued: a change is published whole, or its table is left before it.
            self._out.refuse_too_large(writer, records)
        except (ProtocolError, OperatorError) as error:
            self._leave(writer, transaction, error)
        else:
            self._begin(writer, change, transaction)
            self._send(writer, records, transaction)

    def _leave(self, writer: RecordWriter, transaction: OpenTransaction, error: ProtocolError | OperatorError) -> None:
        """Leave the table of a change that cannot be published, at the position of that change."""
        at = transaction.position
        if self._drops_on_unknown_value and isinstance(error, UnknownValue):
            self.left_out.drop(writer.relation, at, error)
            if self.copies is not None:
                self.copies.forget(writer.relation.table.relation_id)
            return
        if self.trouble is None:
            raise error
        if isinstance(error, ProtocolError | UnfitRow):
            reason = unfit_row(writer.relation, at, error)
            self.trouble.leave(writer.relation, at, reason, is_mended_by_copy=False)
        else:
            self.trouble.leave(writer.relation, at, error)

    def _truncate(self, change: Truncate, transaction: OpenTransaction) -> None:
        for relation_id in change.relation_ids:
            if self._leave_if_in_doubt(relation_id, transaction):
                continue
            writer = self._tables.writers.of(relation_id)
            self._begin(writer, change, transaction)
            self._out.add_barrier(writer, "truncate", transaction.position)
            source = transaction.source_of(relation_id)
            options = truncate_options(change)
            record = writer.truncate(source, transaction.ordinal, self._out.ts_ms, options=options)
            self._out.send_to_all_partitions(writer, record)
            self._fast_path.forget(relation_id)  # the next change may follow in the same transaction: ``note_change``
            transaction.count(relation_id, 1)
            transaction.ordinal += 1

    def _leave_if_in_doubt(self, relation_id: int, transaction: OpenTransaction) -> bool:
        self._relations.install_due(relation_id)
        return self.trouble is not None and self.trouble.leave_if_in_doubt(relation_id, transaction)

    def _begin(self, writer: RecordWriter, change: Change, transaction: OpenTransaction) -> None:
        """Called before each change that is published: the first event of a version gets a shape barrier."""
        relation_id = writer.relation.table.relation_id
        if self._tables.writers.take_shape_barrier(relation_id):
            self._out.add_barrier(writer, "shape", transaction.position)
        if self.copies is not None and self.copies.has_copy(relation_id):
            self.copies.receive(change, writer, transaction)
        else:
            self._fast_path.add(relation_id, writer)

    def _send(self, writer: RecordWriter, records: list[KafkaRecord], transaction: OpenTransaction) -> None:
        for record in records:
            self._out.send(writer, record)
        count = event_count(records)
        transaction.count(writer.relation.table.relation_id, count)
        transaction.ordinal += count


_CHANGES: dict[type[Change], Callable[..., None]] = {
    Insert: Changes._row,
    Update: Changes._row,
    Delete: Changes._row,
    Truncate: Changes._truncate,
}
