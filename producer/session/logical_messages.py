"""Logical messages on their way to ``<p>.messages``: which are published, at which position, in which record.

In: messages as the stream sends them. Out: records, and the LSN of the last message outside of transactions.

A transactional message is an event of its transaction and takes its ordinal. Another one comes as soon as
its WAL was read, rolled back or not, between transactions: it stands at (end of its record, -1), which
is after all that committed before it and before all that commits later, also one whose commit record
begins there. It comes again when a session begins before it, so progress knows the last one (I4).
"""

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.encoding.record import Images, RecordWriter
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.pgoutput.messages import LogicalMessage
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.transactions.transaction import OpenTransaction
from walbridge.schemas.avro.codec import bytes_value, string_value
from walbridge.schemas.avro.value_encoders import VALUE
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.json_format.codec import json_codec
from walbridge.schemas.position import Lsn, format_lsn
from walbridge.schemas.settings import Settings

OUTSIDE_ORDINAL = -1
"""The ordinal of a message outside of transactions."""


class MessageWriter(RecordWriter):
    """Makes the records of messages."""

    def __init__(self, record: RelationRecord, pipeline: str, database: str) -> None:
        super().__init__(record, pipeline, database)
        self._names = pipeline, database, "", ""  # as Debezium: of no table
        self.source = self.source_part("false")

    def message(self, message: LogicalMessage, source: TransactionSource, ordinal: int, ts_ms: bytes) -> KafkaRecord:
        """The record of a message, ``m``."""
        envelope = self._record(None, Images(None, None, None), "m", source, ordinal, ts_ms)
        content = VALUE + string_value(message.prefix) + bytes_value(message.content)
        value = (envelope.value or b"") + content
        return envelope._replace(value=json_codec(self.relation).value(value) if self.relation.is_json else value)


class LogicalMessages:
    """The logical messages of one session. Their topic is made, or looked at, when it begins.

    Raises:
        OperatorError: the topic is not what it must be.
    """

    def __init__(self, settings: Settings, tables: Tables, out: OpenBatch) -> None:
        self._out = out
        self._prefixes = frozenset(settings.postgres.message_prefixes)
        self._writer: MessageWriter | None = None
        if settings.postgres.messages:
            record = tables.message_relation()
            self._writer = MessageWriter(record, settings.name, tables.database)
        progress = out.tracker.progress
        self._split = progress.split
        self._last_lsn = Lsn(progress.last_message_lsn or 0)

    def wants(self, message: LogicalMessage) -> bool:
        """Whether the operator's prefixes include the message; without prefixes all are included."""
        return not self._prefixes or message.prefix in self._prefixes

    def publish_inside(self, message: LogicalMessage, transaction: OpenTransaction) -> None:
        """Queue an event of the open transaction."""
        self._publish(message, transaction.source_of(MESSAGES_RELATION_ID), transaction.ordinal)
        transaction.count(MESSAGES_RELATION_ID, 1)
        transaction.ordinal += 1

    def _publish(self, message: LogicalMessage, source: TransactionSource, ordinal: int) -> None:
        assert self._writer is not None  # a session that did not ask for messages decodes none
        self._out.send(self._writer, self._writer.message(message, source, ordinal, self._out.ts_ms))

    def publish_outside(
        self, message: LogicalMessage, sent_us: int, *, ends_lsn: bool, last_commit_end: Lsn | None = None
    ) -> bool:
        """Queue a message outside of transactions; returns False if it was published before.

        Args:
            sent_us: when the server sent it; such a message has no other time.
            ends_lsn: no transaction is open, so all that committed before it is in this batch or an earlier one.
            last_commit_end: the end LSN of the newest commit, if events have a ``sequence``.

        Raises:
            OperatorError: it lies before a transaction of which a part is published.
        """
        if message.message_lsn <= self._last_lsn:
            return False
        if self._split is not None and message.message_lsn <= self._split.commit_lsn:
            raise OperatorError(
                f"a message at {format_lsn(message.message_lsn)} was not published before transaction "
                f"{self._split.xid}, of which a part is",
                remedy="[postgres] messages or message_prefixes were changed meanwhile: change them back",
            )
        self._last_lsn = message.message_lsn
        self._out.open()
        source = TransactionSource.of(message.message_lsn, sent_us, None, None)
        if last_commit_end is not None:
            source = source.with_sequence(last_commit_end, message.message_lsn)
        self._publish(message, source, OUTSIDE_ORDINAL)
        batch = self._out.batch
        batch.last_message_lsn = message.message_lsn
        if ends_lsn:
            batch.end_lsn = message.message_lsn
        return True
