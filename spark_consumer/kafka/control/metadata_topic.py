"""Relation records by schema id, read from ``<p>.metadata`` as far as a plan needs them.

In: the end offset that a cut names. Out: every Relation record before it, which holds the schema
of every event of that cut (I2). Records are immutable, so what was read is kept.
"""

from collections.abc import Iterable, Mapping

from walbridge.schemas.avro.framing import is_control_record
from walbridge.schemas.control.cut import Epoch, PartitionId
from walbridge.schemas.control.metadata_record import RelationRecord, decode_metadata
from walbridge.schemas.errors import ProtocolError, unreadable_record
from walbridge.schemas.topics import metadata_topic
from walbridge.spark_consumer.errors import classifying_errors
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.ranges import Range
from walbridge.spark_consumer.plan.plan import Plan

FEW_OFFSETS, FEW_BYTES = 200, 64 * 2**10
"""The job's own consumer fetches up to so many records, if none is larger (I9); else Spark reads them."""


class MetadataTopic:
    """The relations of one pipeline, growing with the plans."""

    def __init__(self, log: KafkaLog, pipeline: str) -> None:
        self._log = log
        self.topic = metadata_topic(pipeline)
        self._epoch: Epoch | None = None
        self._next_offset = 0
        self._relations: dict[str, RelationRecord] = {}

    def relations(self, plan: Plan) -> Mapping[str, RelationRecord]:
        """All relation records up to where the plan ends, by schema id.

        Raises:
            OperatorError: a record that this code cannot read.
            RetryableError: the broker is away.
        """
        if plan.epoch != self._epoch:
            self._epoch, self._next_offset = plan.epoch, 0  # another one may be why it begins: made anew, it is shorter
        if plan.metadata_end_offset > self._next_offset:
            self._read_to(plan.metadata_end_offset)
        return self._relations

    def end_offset(self) -> int:
        """Where the topic ends now.

        Raises:
            RetryableError: the broker is away.
        """
        partition_id = self.topic, 0
        return self._log.ends([partition_id])[partition_id]

    def _read_to(self, end_offset: int) -> None:
        partition_id = self.topic, 0
        # Compaction does not move the log's start. If the start has moved, a missing record is told by its id.
        start = max(self._next_offset, self._log.starts([partition_id])[partition_id])
        self._log.wait_visible({partition_id: (start, end_offset)})
        for value in self._values({partition_id: (start, end_offset)}, end_offset - start):
            if value and is_control_record(value):  # else another program wrote it
                self._receive(bytes(value))
        self._next_offset = end_offset

    def _values(self, ranges: Mapping[PartitionId, Range], offsets: int) -> Iterable[bytes | None]:
        """The records' values. Few are fetched without Spark, whose first job in a JVM takes seconds."""
        few = self._log.fetch_few(ranges, FEW_BYTES) if offsets <= FEW_OFFSETS else None
        if few is not None:
            found: list[bytes | None] = few["value"].to_pylist()
            return found
        with classifying_errors():
            return [row.value for row in self._log.read(ranges).select("value").collect()]

    def _receive(self, value: bytes) -> None:
        try:
            record = decode_metadata(value)
        except ProtocolError as error:
            raise unreadable_record(self.topic, error) from error
        if isinstance(record, RelationRecord):
            self._relations[record.schema_id] = record
