"""Which tables the source publishes no more: dropped there, or taken out of the publication.

In: tables of the lake that take no changes, and the cut that the lake has reached. Out: those that the producer's
progress calls ``dropped``. A cut alone does not tell, since a table that is to be copied again has the same barrier.
Progress of a cut is written in the cut's own Kafka transaction. If progress is older than the lake, it is read again
some seconds later.
"""

import time
from collections.abc import Collection, Iterator

import structlog

from walbridge.schemas.control.cut import Epoch
from walbridge.schemas.control.progress_record import Progress, TableRecordsMissing, read_back
from walbridge.schemas.control.table_progress import DROPPED
from walbridge.schemas.errors import ProtocolError, RetryableError, WalbridgeError, unreadable_record
from walbridge.schemas.topics import progress_topic
from walbridge.spark_consumer.errors import classifying_errors
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog

log = structlog.get_logger()

AGAIN_S, SOON_S = 600.0, 5.0
FIRST_RECORDS, MORE_RECORDS = 500, 4_000
"""Records of the first read and of each later one. The first one holds what happened just now."""


class UnpublishedTables:
    """Reads the producer's progress for one job."""

    def __init__(self, kafka: KafkaLog, pipeline: str) -> None:
        self._kafka, self._topic = kafka, progress_topic(pipeline)
        self._asked: frozenset[int] = frozenset()
        self._again_s = 0.0

    def of(self, relation_ids: frozenset[int], epoch: Epoch, to_cut: int, end_lsn: int) -> frozenset[int]:
        """Those of these tables that were not published any more at that cut. A new question is answered at once, the
        same one again every ten minutes."""
        now_s = time.monotonic()
        if not relation_ids or (relation_ids <= self._asked and now_s < self._again_s):
            return frozenset()
        self._asked, self._again_s = relation_ids, now_s + AGAIN_S
        try:
            progress = self._progress(epoch.slot)
        except RetryableError:
            self._again_s = now_s + SOON_S
            return frozenset()
        except WalbridgeError as error:
            log.warning("whether tables left the source cannot be seen", topic=self._topic, why=str(error))
            return frozenset()
        if progress is None or progress.state != "streaming" or progress.epoch != epoch:
            return frozenset()
        if progress.cut_id < to_cut:  # a table may have come back since, and be in trouble again
            self._again_s = now_s + SOON_S
            return frozenset()
        since = dict(_unpublished_since(progress, relation_ids))
        unpublished = frozenset(each for each, lsn in since.items() if lsn <= end_lsn)
        if len(unpublished) < len(since):
            self._again_s = now_s + SOON_S
        return unpublished

    def _progress(self, slot: str) -> Progress | None:
        if not self._kafka.partition_count(self._topic):
            return None
        try:
            return read_back(slot, self._newest_first())
        except TableRecordsMissing as gone:
            return gone.progress
        except ProtocolError as error:
            raise unreadable_record(self._topic, error) from None

    def _newest_first(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        partition_id, count = (self._topic, 0), FIRST_RECORDS
        start, end = self._kafka.starts([partition_id])[partition_id], self._kafka.ends([partition_id])[partition_id]
        while start < end:
            first = max(start, end - count)
            with classifying_errors():
                rows = self._kafka.read({partition_id: (first, end)}).select("offset", "key", "value").collect()
            for row in sorted(rows, key=lambda row: int(row.offset), reverse=True):
                yield _bytes(row.key), _bytes(row.value)
            end, count = first, MORE_RECORDS


def _unpublished_since(progress: Progress, relation_ids: Collection[int]) -> Iterator[tuple[int, int]]:
    for relation_id in relation_ids:
        known = progress.tables.get(relation_id)
        if known is not None and known.state == DROPPED and known.since is not None:
            yield relation_id, known.since


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
