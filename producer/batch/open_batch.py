"""The open batch: rows go to Kafka as they come, the batch remembers what its cut will say.

In: changes with their relation versions. Out: Kafka transactions. Closing one is the numbered
recipe of ``commit_batch``; between its steps stand the kill points that tests end the process at.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import structlog

from walbridge.producer.batch.batch_limits import BatchLimits
from walbridge.producer.batch.batch_report import report_batch
from walbridge.producer.batch.progress import Batch, ProgressTracker, TableBatch
from walbridge.producer.encoding.copied_rows import EncodedRow
from walbridge.producer.encoding.kafka_record import Headers, KafkaRecord
from walbridge.producer.encoding.record import RecordWriter, plain_tails
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.errors.rows import row_too_large
from walbridge.producer.kafka.control_topics import MetadataWriter
from walbridge.producer.kafka.publisher import ControlRecord, Publisher
from walbridge.producer.kafka.topic_specs import record_limit
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.avro.codec import long_bytes
from walbridge.schemas.avro.value_encoders import NULL
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange, encode_cut
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import Progress, Split
from walbridge.schemas.control.table_progress import STALE, TableProgress
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, progress_topic, transaction_topic

log = structlog.get_logger()


class OpenBatch:
    """Collects one Kafka transaction at a time."""

    def __init__(
        self, settings: Settings, publisher: Publisher, metadata: MetadataWriter, tracker: ProgressTracker
    ) -> None:
        self._cuts, self._progress = cuts_topic(settings.name), progress_topic(settings.name)
        self._transactions = transaction_topic(settings.name)
        self._settings = settings
        self._publisher, self._metadata = publisher, metadata
        self.tracker = tracker
        self.batch = Batch()
        self.limits = BatchLimits(settings)
        self._writer: RecordWriter | None = None
        self._table = TableBatch(0, "")
        self.ts_ms = b""
        """Envelope ``ts_ms``, encoded once a batch."""
        self.plain_tails: dict[str, bytes] = {}
        """By op: the end of a plain row's envelope, after its ordinal."""
        self._origin_lsn = NULL
        self.record_limit = record_limit(settings)
        """The most bytes of one record; a larger row is refused before any record of it is queued."""
        self.plain_limit = self.record_limit // 2
        """A value up to this size fits with any key, since it contains the key's columns."""
        self.is_open = False
        self.on_committed: Callable[[Batch, Cut, float], None] = lambda batch, cut, commit_s: None
        """Called once for each batch, with the seconds that closing it took."""

    def open(self) -> None:
        """Begin a Kafka transaction, unless one is open."""
        if self.is_open:
            return
        self._publisher.begin()
        kill_point("produce:begun")
        self.batch = Batch(opened_s=time.monotonic())
        self._writer = None
        # Avro: the byte before it names the branch of the union that is not null.
        self.ts_ms = b"\x02" + long_bytes(time.time_ns() // 1_000_000)
        self.plain_tails = plain_tails(self.ts_ms, self._origin_lsn)
        self.is_open = True

    def set_origin(self, origin_lsn: bytes) -> None:
        """Set the origin LSN of the rows from here on. It changes with nearly every replicated transaction."""
        if origin_lsn != self._origin_lsn:
            self._origin_lsn = origin_lsn
            self.plain_tails = plain_tails(self.ts_ms, origin_lsn)

    def refuse_too_large(self, writer: RecordWriter, records: Iterable[KafkaRecord]) -> None:
        """Refuse a row that Kafka would not take, before a part of it is queued.

        Raises:
            UnfitRow: it is too large.
        """
        for record in records:
            if record.size_bytes > self.record_limit:
                raise row_too_large(writer.relation, record.value or b"", self._settings.producer.row_bytes_max)

    def send(self, writer: RecordWriter, record: KafkaRecord) -> None:
        """Queue one row, or a tombstone, which is counted as one."""
        key, value, headers = record
        if value is not None:
            self.send_plain(writer, key, value, headers)
            return
        self._publisher.send(writer.topic, key, None)
        if writer is not self._writer:
            self._begin_table(writer)
        self._table.row_count += 1
        self.batch.row_count += 1

    def send_plain(
        self, writer: RecordWriter, key: bytes | None, value: bytes, headers: Headers = None, partition: int = -1
    ) -> None:
        """Queue one row, given as the parts of its record."""
        self._publisher.send(writer.topic, key, value, headers, partition)
        if writer is not self._writer:
            self._begin_table(writer)
        self._table.row_count += 1
        batch = self.batch
        batch.row_count += 1
        # Keys and headers are not counted: the value holds the key's columns again.
        batch.byte_count += len(value)

    def copied_source(self, lsn: Lsn) -> TransactionSource:
        """``source`` of copied rows at this LSN: they belong to no transaction, and have the time of now."""
        source = TransactionSource.of(lsn, _now_us(), None, None)
        return source.with_sequence(None, lsn) if self._settings.topics.source_sequence else source

    def send_copied(self, writer: RecordWriter, row: bytes, source: TransactionSource, part: bytes) -> None:
        """Queue a copied row, given as TupleData; ``part``: the table's part of its ``source``.

        Raises:
            UnfitRow: it is too large.
            ProtocolError: it is no row of the writer's relation.
        """
        encoded = writer.plain(row, 0, part, source.encoded, COPIED_ORDINAL, self.plain_tails["r"])
        if encoded is None or len(encoded[1]) > self.plain_limit:
            record = writer.copied(row, source, part, self.ts_ms)
            self.refuse_too_large(writer, [record])
            self.send(writer, record)
        else:
            self.send_plain(writer, *encoded)

    def send_encoded(self, writer: RecordWriter, rows: Sequence[EncodedRow], end: bytes) -> None:
        """Queue encoded rows; ``end`` is appended to the value of each.

        Raises:
            UnfitRow: one of them is too large; none is queued.
            ProtocolError: one of them has no record in the topic's format; none is queued.
        """
        rows, end = writer.with_end(rows, end)
        limit = self.plain_limit - len(end)
        large = [row for row in rows if len(row[1]) > limit]
        self.refuse_too_large(writer, (KafkaRecord(key, value + end) for key, value in large))
        self._publisher.send_rows(writer.topic, rows, end)
        if writer is not self._writer:
            self._begin_table(writer)
        self._table.row_count += len(rows)
        batch = self.batch
        batch.row_count += len(rows)
        batch.byte_count += len(rows) * len(end) + sum([len(value) for _, value in rows])

    def send_to_all_partitions(self, writer: RecordWriter, record: KafkaRecord) -> None:
        """Queue a record for every partition, as a truncate: every reader needs it in its order."""
        for partition in range(writer.relation.partition_count):
            self.send_plain(writer, record.key, record.value or b"", record.headers, partition)

    def _begin_table(self, writer: RecordWriter) -> None:
        """The next rows are of another relation version than the last one."""
        self._writer = writer
        self._table = self.batch.table(writer.relation.table.relation_id, writer.topic)
        if writer.relation.schema_id not in self._table.schema_ids:
            self._table.schema_ids.append(writer.relation.schema_id)

    def add_barrier(self, writer: RecordWriter, kind: str, position: Position) -> None:
        """Add a barrier, which no fold may cross. ``copy_begin`` and ``shape`` name the schema that begins there."""
        schema_id = writer.relation.schema_id if kind in ("copy_begin", "shape") else None
        relation = writer.relation
        self.batch.add_barrier(relation.table.relation_id, relation.topic, Barrier(kind, position, schema_id))

    def drop_table(self, relation: RelationRecord, position: Position, state: str, why: str | None = None) -> None:
        """Add a ``dropped`` barrier: no more events of this table come. The next progress says why. A stale table waits
        for its operator, so its record gets no name: with one, the next session would copy it."""
        relation_id = relation.table.relation_id
        known = self.tracker.progress.tables.get(relation_id, TableProgress(relation_id, state, relation.topic))
        name = None if state == STALE else known.name
        after = replace(known, state=state, since=position.commit_lsn, why=why, copy=None, name=name)
        self.leave_table(relation, position, after)

    def leave_table(self, relation: RelationRecord, position: Position, after: TableProgress) -> None:
        """Add a ``dropped`` barrier, and let the next progress have this record of the table."""
        self.batch.add_barrier(after.relation_id, relation.topic, Barrier("dropped", position))
        self.batch.dropped[after.relation_id] = after

    def begin_transaction(self) -> None:
        """The rows from here on are of another transaction of Postgres."""
        self.limits.begin_transaction(self.batch if self.is_open else Batch())

    @property
    def is_full(self) -> bool:
        """Whether the batch ends at the next boundary between transactions."""
        return self.limits.is_full(self.batch)

    @property
    def rows_left(self) -> int:
        """How many more rows make it full."""
        return self.limits.rows_left(self.batch)

    def close(self, split: Split | None) -> None:
        """Commit what is open; inside a transaction, ``split`` says how far it went."""

        def records(ranges: list[PartitionRange], metadata_end: int) -> tuple[Progress, Cut]:
            return self.tracker.close(self.batch, ranges, metadata_end, split, _now_us())

        self.commit_batch(records)

    def commit_batch(self, records: Callable[[list[PartitionRange], int], tuple[Progress, Cut]]) -> None:
        """Commit the open Kafka transaction.

        1. Every row is acknowledged and its offset known.
        2. What tells begins and ends, progress with the tables that changed, and the cut as the last record go into
           the same transaction.
        3. Kafka commits: all of it, or none.
        4. Only then is the progress ours, and its floor confirmable (I1).

        Raises:
            BatchAborted: nothing of this batch counts.
        """
        started_s = time.monotonic()
        ranges = self._publisher.delivered_ranges()
        kill_point("produce:rows-acknowledged")
        progress, cut = records(ranges, self._metadata.end_offset)
        told = [ControlRecord(self._transactions, key, value) for key, value in self.batch.boundaries]
        self._publisher.commit([*told, *self._records(progress), ControlRecord(self._cuts, None, encode_cut(cut))])
        kill_point("produce:committed")
        self.tracker.committed(progress)
        self.is_open = False
        commit_s = time.monotonic() - started_s
        self.on_committed(self.batch, cut, commit_s)
        report_batch(self.batch, cut, commit_s)

    def publish_progress(self, progress: Progress) -> None:
        """Commit progress alone: there is no epoch yet that a cut could name."""
        self._publisher.begin()
        self._publisher.commit(self._records(progress))
        self.tracker.committed(progress)

    def _records(self, progress: Progress) -> list[ControlRecord]:
        return [ControlRecord(self._progress, key, value) for key, value in self.tracker.records(progress)]

    def abandon(self) -> None:
        """Forget the open batch; the stream starts again from what Kafka holds."""
        self._publisher.abort()
        self.is_open = False


def _now_us() -> int:
    return time.time_ns() // 1000
