"""The cuts of a pipeline, one by one.

In: the cuts topic, and the offset that a caller kept or the group committed. Out: each cut with its offset. Reading
goes on without a gap: a cut that Kafka deleted before it was read stops the reader (I7), and so does a topic that was
deleted or made again.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from walbridge.consumer.client import (
    REFRESH_S,
    SLICE_S,
    TopicIds,
    bounds,
    commit,
    committed,
    reader,
    refusal,
    refuse_forgotten,
    refuse_remade,
)
from walbridge.schemas.avro.framing import is_control_record
from walbridge.schemas.control.cut import Cut, PartitionId, decode_cut
from walbridge.schemas.errors import KafkaAway, OperatorError, ProtocolError, unreadable_record
from walbridge.schemas.topics import cuts_topic


class CutReader:
    """Reads nothing before ``begin``.

    Args:
        start: an offset in the cuts topic to begin at, instead of the one that the group committed.
        kept_ids: Kafka's id of the cuts topic, as it was when this offset was kept.
        follow: wait for more at the end; else there is no cut behind it.

    Raises:
        OperatorError: the topic was made again since, or the group's offsets are forgotten.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        pipeline: str,
        start: Mapping[PartitionId, int],
        kept_ids: Mapping[str, str],
        *,
        follow: bool,
    ) -> None:
        self._consumer, self._follow = reader(kafka), follow
        self.partition: PartitionId = cuts_topic(pipeline), 0
        self.end_offset = 0
        """The end of the cuts topic when it was reached: transaction markers behind the last cut count."""
        self._is_at_end = False
        self._ids_asked = TopicIds(kafka)
        self._checked_s, self._is_missing = time.monotonic(), False
        self.topic_ids = self._ids_asked.of([self.topic])
        """Kafka's id of the cuts topic, to be stored with an offset. It is asked for before the first offset."""
        known = (
            {self.partition: start[self.partition]}
            if self.partition in start
            else committed(self._consumer, [self.partition])
        )
        refuse_remade([topic for topic, _ in known], self.topic_ids, kept_ids)
        self._resume_offset = known.get(self.partition)
        if not self.resumes:
            refuse_forgotten(kafka, kept_ids)

    @property
    def topic(self) -> str:
        """The cuts topic."""
        return self.partition[0]

    @property
    def is_over(self) -> bool:
        """Whether there is no cut behind those that were read, and none is waited for."""
        return not self._follow and self._is_at_end

    @property
    def resumes(self) -> bool:
        """Whether it goes on behind what was read before; else it begins with the first cut that Kafka has."""
        return self._resume_offset is not None

    def begin(self) -> int:
        """Begin to read. Returns the offset of the first cut."""
        offset = self._resume_offset
        if offset is None:
            offset = bounds(self._consumer, *self.partition)[0]
        self._consumer.assign([TopicPartition(*self.partition, offset)])
        return offset

    def poll(self, timeout_s: float) -> tuple[int, Cut] | None:
        """The next cut and its offset; None where none comes in time.

        Raises:
            OperatorError: cuts are gone, unreadable, or may not be read.
            KafkaAway: the broker answers with an error that may pass.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            message = self._consumer.poll(min(max(deadline_s - time.monotonic(), 0), SLICE_S))
            if message is not None and (error := message.error()) is None:
                self._is_at_end = False
                value = message.value() or b""
                if is_control_record(value):  # else another program wrote it: the chain tells if a cut is missing
                    return self._decoded(message.offset() or 0, value)
            if message is not None and error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._is_at_end, self.end_offset = True, message.offset() or 0
                elif (refused := refusal(error, self.topic)) is not None:
                    raise refused
            self._check_topic_if_due()
            if time.monotonic() >= deadline_s or self.is_over:
                return None

    def _decoded(self, offset: int, value: bytes) -> tuple[int, Cut]:
        try:
            return offset, decode_cut(value)
        except ProtocolError as fault:
            raise unreadable_record(self.topic, fault, offset) from None

    def _check_topic_if_due(self) -> None:
        """While no cut comes, check that the topic still exists. Twice not found is deleted: a broker that has just
        started may not know a topic for a moment.

        Raises:
            OperatorError: it was deleted, or made again.
        """
        if time.monotonic() - self._checked_s < REFRESH_S:
            return
        self._checked_s = time.monotonic()
        with suppress(KafkaAway):  # poll waits for the broker
            now = self._ids_asked.of([self.topic])
            is_missing, self._is_missing = self._is_missing, now != self.topic_ids
            if self._is_missing and (is_missing or now):
                raise _deleted(self.topic)

    def commit(self, offsets: Mapping[PartitionId, int]) -> None:
        """Commit these for the group. Raises as ``poll``."""
        commit(self._consumer, offsets)

    def close(self) -> None:
        """Commits nothing."""
        self._consumer.close()


def _deleted(topic: str) -> OperatorError:
    return OperatorError(
        f"topic {topic} was deleted, as by walbridge drop: no cut of this pipeline comes there any more",
        remedy="begin anew once walbridge produce runs again, with an empty target, another group.id, but neither "
        "start nor topic_ids",
    )
