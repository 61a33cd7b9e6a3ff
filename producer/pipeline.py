"""The producer from top to bottom: guards, the first copy, then the stream for ever.

In: settings. Out: Kafka topics that hold everything Postgres committed, in order, once.

    start (connect, guards) → [first copy] → follow from the floor ⟲ again with back-off
                                                    ↺ a new epoch, where one was asked for, or the first is to begin
"""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import structlog

from walbridge.producer.begin_again import begin_again
from walbridge.producer.errors.topics import ControlTopicLost
from walbridge.producer.first_epoch import FirstEpoch
from walbridge.producer.follow import follow_once
from walbridge.producer.metrics import ProducerMetrics
from walbridge.producer.postgres.connection import retry_at_start
from walbridge.producer.postgres.server_crashes import ServerCrashes
from walbridge.producer.postgres.source import Source
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.producer.start import Parts, start
from walbridge.producer.waits import Stopped, Waits
from walbridge.runtime.back_off import BackOff
from walbridge.schemas.errors import RetryableError, StreamLost
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

LATE_S = 1.0
"""So long a start says nothing of servers that do not answer."""


class Pipeline:
    """One slot's producer.

    Args:
        on_begun: called once this process has the slot, and no guard has refused it.
        tries_again: stream though the server crashed whenever we did.

    Raises:
        OperatorError: the settings name no server.
    """

    def __init__(
        self,
        settings: Settings,
        should_stop: Callable[[], bool],
        metrics: ProducerMetrics | None = None,
        on_begun: Callable[[], None] = lambda: None,
        *,
        tries_again: bool = False,
    ) -> None:
        self._settings = settings
        self._waits = Waits(should_stop)
        self._source = Source(settings, self._waits, ServerCrashes(tries_again=tries_again))
        self._spool = Spool(settings)
        self._metrics = metrics or ProducerMetrics()
        self._on_begun = on_begun
        self._has_followed = False
        self._began_s = time.monotonic()
        self._waits_for: str | None = None
        """What the start waits for, as the log has it already."""

    def run(self) -> None:
        """Until asked to stop.

        Raises:
            OperatorError: only a person can go on.
        """
        with ExitStack() as ending, suppress(Stopped):
            ending.callback(self._source.lock.release)
            ending.callback(self._source.close)
            ending.callback(self._spool.close)
            parts = retry_at_start(self._start, self._settings.postgres.start_timeout_s, pause=self._waits.sleep)
            # An open transaction would hide from readers what others write after it.
            ending.callback(parts.publisher.close)
            self._metrics.watch_tables(lambda: parts.out.tracker.progress.tables.values())
            self._on_begun()
            if parts.needs_copy:
                FirstEpoch(self._settings, self._source, self._waits, self._metrics).begin(parts)
            self._follow(parts)
        log.info("stopped")

    def _start(self) -> Parts:
        try:
            return start(self._settings, self._source, self._spool, self._waits, self._metrics)
        except RetryableError as error:
            reason, is_late = str(error), time.monotonic() - self._began_s >= LATE_S
            if is_late and self._waits_for != reason:
                self._waits_for, timeout_s = reason, self._settings.postgres.start_timeout_s
                log.warning("the start waits for a server", reason=reason, gives_up_after_s=timeout_s)
            raise

    def _follow_once(self, parts: Parts) -> bool:
        """Whether a stop was asked for; else a new epoch has begun."""
        is_first, self._has_followed = not self._has_followed, True
        try:
            follow_once(self._settings, self._source, parts, self._spool, self._waits, self._metrics)
        except StreamLost as lost:
            # What this process knows of such a topic it read at its start: of one that was lost since, the next reads.
            if isinstance(lost, ControlTopicLost) and (lost.is_in_wal or not is_first):
                raise
            begin_again(self._settings, self._source, parts, self._waits.check, lost)
            return False
        return True

    def _follow(self, parts: Parts) -> None:
        """Run one session after another; each begins at the progress that Kafka holds."""
        pause = BackOff(first_s=0)
        while True:
            cut_before = parts.out.tracker.progress.cut_id
            try:
                if self._follow_once(parts):
                    return
            except RetryableError as error:
                self._metrics.peer_away(error)
                if parts.out.tracker.progress.cut_id > cut_before:
                    pause.reset()  # a batch was committed since the last failure: this is a new one
                log.warning("stream begins again", reason=str(error), pause_s=round(pause.pause_s, 1))
                parts.out.abandon()
                self._waits.back_off(pause)
