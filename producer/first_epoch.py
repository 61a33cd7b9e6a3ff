"""How a pipeline's first epoch begins: with one copy of all tables, or with each table copied beside the stream.

In: a producer that has the slot, and a pipeline that has copied nothing yet. Out: progress from which a session can go
on. A copy that is interrupted begins again from its first table, until one is complete.

A pipeline that had another name has a lake with tables: as after ``walbridge copy --all`` each is stale there, with its
rows, until its own copy is whole.
"""

import structlog

from walbridge.producer.begin_again import begin_first
from walbridge.producer.copying.read_faults import ReadFaults
from walbridge.producer.first_copy import first_copy
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.guards.start import refuse_before_copy
from walbridge.producer.kafka.control_topics import read_progress
from walbridge.producer.metrics import COPYING, ProducerMetrics
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.source import Source
from walbridge.producer.start import Parts, former_progress, progress_before_slot
from walbridge.producer.waits import Waits
from walbridge.runtime.back_off import BackOff
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.settings import Settings

log = structlog.get_logger()


class FirstEpoch:
    """That of one pipeline."""

    def __init__(self, settings: Settings, source: Source, waits: Waits, metrics: ProducerMetrics) -> None:
        self._settings, self._source, self._waits, self._metrics = settings, source, waits, metrics
        self._faults = ReadFaults()

    def begin(self, parts: Parts) -> None:
        """Return when there is something to go on from.

        Raises:
            OperatorError: only a person can go on.
        """
        pause = BackOff(first_s=0.5)
        while True:
            try:
                self._begin_once(parts)
                return
            except RetryableError as error:
                self._metrics.peer_away(error)
                log.warning("copy begins again", reason=str(error))
                parts.out.abandon()
                self._waits.back_off(pause)

    def _begin_once(self, parts: Parts) -> None:
        """From what Kafka holds and who the server is now: since the last attempt a standby may have been
        promoted, or a commit come through whose answer did not."""
        connection = self._source.connect()
        self._source.lock.take(self._waits.check, connection)
        parts.publisher.open_instance()
        published = read_progress(self._settings)
        if published is not None and published.state == "streaming":
            return
        found = slot.inspect(connection, self._settings.postgres.slot)
        server = self._source.identify()
        held = published or former_progress(self._settings, parts.admin)
        refuse_before_copy(held, server, found, self._settings.postgres.slot)
        progress = progress_before_slot(self._settings, server, connection)
        parts.out.tracker.committed(published or progress)
        if self._settings.producer.first_copy == "beside" or self._settings.formerly is not None:
            begin_first(self._settings, parts, connection, progress)
            return
        self._metrics.enter(COPYING)
        watch = SourceWatch(self._settings, connection, parts.admin, parts.tables, parts.out.tracker)
        first_copy(self._settings, connection, progress, parts.out, parts.tables, watch, self._check, self._faults)

    def _check(self) -> None:
        """While a copy goes on, which begins anew where it is ended."""
        self._waits.check()
        self._source.lock.keep(self._waits.check)
