"""Which tables left the source for good, as the producer's progress says: to cuts all that is left is ``dropped``.

In: tables of the lake that take no changes, and how far it is. Out: those that were dropped at the source, or taken
out of the publication. What progress says of a cut is in the cut's Kafka transaction; where the lake has that cut and
progress does not show it yet, it is asked again.
"""

import time
from collections.abc import Collection, Iterator

import structlog

from walbridge.schemas.control.cut import Epoch
from walbridge.schemas.control.progress_record import Progress, TablesGone, read_back
from walbridge.schemas.control.table_progress import DROPPED
from walbridge.schemas.errors import ProtocolError, RetryableError, WalbridgeError, unreadable_record
from walbridge.schemas.topics import progress_topic
from walbridge.spark_consumer.errors import sorting_errors
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog

log = structlog.get_logger()

AGAIN_S, SOON_S = 600.0, 5.0
FIRST_RECORDS, MORE_RECORDS = 500, 4_000
"""Of one read: what left just now is among the first."""


class LeftTables:
    """Asks for one job."""

    def __init__(self, kafka: KafkaLog, pipeline: str) -> None:
        self._kafka, self._topic = kafka, progress_topic(pipeline)
        self._asked: frozenset[int] = frozenset()
        self._again_s = 0.0

    def of(self, relation_ids: frozenset[int], epoch: Epoch, to_cut: int, end_lsn: int) -> frozenset[int]:
        """Those that had left at that cut. Each is asked for at once, and then now and then."""
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
        since = dict(_left_since(progress, relation_ids))
        left = frozenset(each for each, lsn in since.items() if lsn <= end_lsn)
        if len(left) < len(since):
            self._again_s = now_s + SOON_S
        return left

    def _progress(self, slot: str) -> Progress | None:
        if not self._kafka.partition_count(self._topic):
            return None
        try:
            return read_back(slot, self._newest_first())
        except TablesGone as gone:
            return gone.progress
        except ProtocolError as error:
            raise unreadable_record(self._topic, error) from None

    def _newest_first(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        place, count = (self._topic, 0), FIRST_RECORDS
        start, end = self._kafka.starts([place])[place], self._kafka.ends([place])[place]
        while start < end:
            first = max(start, end - count)
            with sorting_errors():
                rows = self._kafka.read({place: (first, end)}).select("offset", "key", "value").collect()
            for row in sorted(rows, key=lambda row: int(row.offset), reverse=True):
                yield _bytes(row.key), _bytes(row.value)
            end, count = first, MORE_RECORDS


def _left_since(progress: Progress, relation_ids: Collection[int]) -> Iterator[tuple[int, int]]:
    for relation_id in relation_ids:
        known = progress.tables.get(relation_id)
        if known is not None and known.state == DROPPED and known.since is not None:
            yield relation_id, known.since


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
