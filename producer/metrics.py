"""What the producer counts, for ``/metrics`` and ``/healthz``.

In: one call for each batch, retry and change of state, and a beat whenever all that arrived was read:
never one for a row, so counting costs the hot loop nothing. Out: a registry of its own. A metric's name
is ``walbridge_producer_`` and the name given here, of a counter with ``_total``. Labels are topics, peers
and classes: their number is that of the tables, whatever the load (I9), and none is a row value or a
setting (I10).
"""

import math
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.batch.progress import Batch
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.postgres.slots.wal_watch import WalWatch
from walbridge.producer.session.copies.state.copy_progress import CopyStanding
from walbridge.producer.session.transactions.pending_transactions import PendingTransactions
from walbridge.producer.source_gauges import SourceGauges
from walbridge.runtime.monitoring.health import (
    STARTING,
    STOPPED,
    WAITING,
    WAITING_FOR_KAFKA,
    WAITING_FOR_POSTGRES,
    WAITING_FOR_REGISTRY,
    Health,
    Pulse,
)
from walbridge.runtime.monitoring.registry import StateGauge, free_bytes, new_registry, show_start
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.control.table_progress import COPYING as TABLE_COPYING
from walbridge.schemas.control.table_progress import (
    CURRENT,
    DROPPED,
    FIRST_COPY_WAITS,
    QUARANTINED,
    STALE,
    TableProgress,
)
from walbridge.schemas.errors import KafkaAway, RegistryAway, RetryableError

COPYING = "copying"
STREAMING = "streaming"
STATES = (STARTING, COPYING, STREAMING, WAITING_FOR_KAFKA, WAITING_FOR_POSTGRES, WAITING_FOR_REGISTRY, STOPPED)
FIRST_COPY = "waiting"
"""A table that comes to its first copy by itself: it is no one's trouble."""
TABLE_STATES = (CURRENT, TABLE_COPYING, FIRST_COPY, STALE, QUARANTINED, DROPPED)
KAFKA_SLOW_S = 5.0
"""A step of a batch that takes Kafka so long is a wait for it: most take milliseconds."""
_COMMIT_BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_PREFIX = "walbridge_producer"


class ProducerMetrics:
    """Counters of one process. Written by the pipeline's thread, read by the endpoint's."""

    def __init__(
        self,
        stalled_after_s: float = 300,
        pipeline: str = "",
        spool: str = "",
        wal_bytes_max: int | None = None,
        retention_ms: int = -1,
    ) -> None:
        self.registry = new_registry(pipeline)
        self.pulse = Pulse(stalled_after_s)
        self._away = WAITING_FOR_POSTGRES
        self._pending: PendingTransactions | None = None
        self._publisher_counts = _PublisherCounts()
        self.registry.register(self._publisher_counts)
        self._copies = _Copies()
        self.registry.register(self._copies)
        self._tables = _Tables()
        self.registry.register(self._tables)
        self._rows = self._counter("rows", "Rows committed to Kafka, by topic", "topic")
        self._copied_rows = self._counter("copied_rows", "Of these, rows of a first copy")
        self._bytes = self._counter("bytes", "Bytes of the rows committed to Kafka")
        self._batches = self._counter("batches", "Kafka transactions committed, idle cuts included")
        self._transactions = self._counter("transactions", "Postgres transactions committed to Kafka")
        self._retries = self._counter("retries", "Times that a peer went away and was waited for, by peer", "peer")
        self._errors = self._counter("errors", "Errors, by class", "class")
        self._commit_s = Histogram(
            f"{_PREFIX}_batch_commit_seconds",
            "From the end of a batch to its commit in Kafka",
            buckets=_COMMIT_BUCKETS_S,
            registry=self.registry,
        )
        self._last_cut_id = self._gauge("last_cut_id", "Id of the newest cut")
        self._published_lsn = self._gauge("published_lsn", "End of the newest cut, as a number")
        kept_s = math.inf if retention_ms < 0 else retention_ms / 1000
        self._gauge("records_kept_seconds", "How long topics of tables keep what is written to them").set(kept_s)
        self._gauge("since_progress_seconds", "Since a batch was committed or nothing was left to send").set_function(
            lambda: self.pulse.since_progress_s
        )
        self._gauge("spool_bytes", "Bytes that transactions take in the spool until their commit").set_function(
            lambda: self._pending.spooled_bytes if self._pending else 0
        )
        self._gauge("spool_free_bytes", "Free on the disk of the spool").set_function(lambda: free_bytes(spool))
        self._gauge(
            "streamed_transactions", "Streamed transactions in the spool that are not committed yet"
        ).set_function(lambda: self._pending.stream_count if self._pending else 0)
        self._gauge(
            "prepared_transactions", "Prepared transactions without an end, which hold the slot back"
        ).set_function(lambda: self._pending.prepared_count if self._pending else 0)
        self._source = SourceGauges(_PREFIX, wal_bytes_max)
        self.registry.register(self._source)
        show_start(_PREFIX, self.registry)
        self.registry.register(StateGauge(_PREFIX, STATES, lambda: self.state))

    def enter(self, state: str) -> None:
        """Go over to a state."""
        self.pulse.enter(state)

    @property
    def state(self) -> str:
        """What the program is doing, as of now: whether it waits is told by the peer that it waits for."""
        state, publisher = self.pulse.state, self._publisher_counts.publisher
        is_kafka_slow = publisher is not None and publisher.waits_s > KAFKA_SLOW_S
        if is_kafka_slow and state in (COPYING, STREAMING, WAITING):
            return WAITING_FOR_KAFKA
        return self._away if state == WAITING else state

    def health(self) -> Health:
        """What ``/healthz`` answers."""
        return replace(self.pulse.health(), state=self.state)

    def watch_publisher(self, publisher: Publisher) -> None:
        """Show what the publisher counts by itself."""
        self._publisher_counts.publisher = publisher

    def watch_wal(self, watch: WalWatch) -> None:
        """Show what the server says beside the stream."""
        self._source.watch = watch

    def watch_stream(self, stream: ReplicationStream, out: OpenBatch) -> None:
        """A session has begun."""
        self._source.follow(stream)

        def drained() -> None:
            self.pulse.beat()
            self._source.drained(is_batch_open=out.is_open)

        stream.on_drained = drained
        self.enter(STREAMING)

    def watch_pending(self, pending: PendingTransactions) -> None:
        """Show what waits for its commit in this session."""
        self._pending = pending

    def watch_copies(self, standings: Callable[[], Iterable[CopyStanding]]) -> None:
        """Show how far the copies of this session are."""
        self._copies.standings = standings

    def watch_tables(self, tables: Callable[[], Iterable[TableProgress]]) -> None:
        """Show how many tables there are in each state."""
        self._tables.tables = tables

    def batch_committed(self, batch: Batch, cut: Cut, commit_s: float) -> None:
        """Kafka holds a batch."""
        self.pulse.beat()
        for table in cut.tables:
            self._rows.labels(table.topic).inc(table.row_count)
        if self.pulse.state == COPYING:
            self._copied_rows.inc(batch.row_count)
        self._bytes.inc(batch.byte_count)
        self._batches.inc()
        self._transactions.inc(cut.transactions)
        self._commit_s.observe(commit_s)
        self._last_cut_id.set(cut.cut_id)
        self._published_lsn.set(cut.end_lsn)
        self._source.committed(cut.end_lsn, cut.commit_time_us)

    def peer_away(self, error: RetryableError) -> None:
        """A session or copy ended, and begins again after a pause."""
        self.failed(error)
        peer = _peer(error)
        self._retries.labels(peer).inc()
        self._away = _WAITING_FOR[peer]
        self._source.ended()
        self.enter(WAITING)

    def failed(self, error: BaseException) -> None:
        """Count an error by its class; its text is for the log."""
        self._errors.labels(type(error).__name__).inc()

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}_total", meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", meaning, registry=self.registry)


class _PublisherCounts(Collector):
    """Read when somebody asks: the publisher needs to know nothing of metrics."""

    publisher: Publisher | None = None

    def collect(self) -> Iterator[Metric]:
        publisher = self.publisher
        yield CounterMetricFamily(
            f"{_PREFIX}_kafka_instances",
            "Kafka producer instances opened; each but the first replaced one that was in doubt",
            publisher.instance_count if publisher else 0,
        )
        yield CounterMetricFamily(
            f"{_PREFIX}_aborted_batches",
            "Kafka transactions given up; their rows came again",
            publisher.aborted_count if publisher else 0,
        )


class _Copies(Collector):
    """Of copies beside the stream, while they go on: a table that is whole is shown no more."""

    standings: Callable[[], Iterable[CopyStanding]] = staticmethod(tuple)

    def collect(self) -> Iterator[Metric]:
        rows = GaugeMetricFamily(f"{_PREFIX}_table_copy_rows", "Rows that a copy holds so far", labels=["topic"])
        size = GaugeMetricFamily(f"{_PREFIX}_table_copy_bytes", "Bytes of these rows", labels=["topic"])
        share = GaugeMetricFamily(f"{_PREFIX}_table_copy_share", "Of the table's rows, by estimate", labels=["topic"])
        left = GaugeMetricFamily(f"{_PREFIX}_table_copy_left_seconds", "Until it is whole", labels=["topic"])
        for copy in self.standings():
            rows.add_metric([copy.topic], copy.rows)
            size.add_metric([copy.topic], copy.bytes)
            if copy.share is not None:
                share.add_metric([copy.topic], copy.share)
            if copy.left_s is not None:
                left.add_metric([copy.topic], copy.left_s)
        yield from (rows, size, share, left)


class _Tables(Collector):
    """Counted when somebody asks."""

    tables: Callable[[], Iterable[TableProgress]] = staticmethod(tuple)

    def collect(self) -> Iterator[Metric]:
        counts = Counts(FIRST_COPY if each.why == FIRST_COPY_WAITS else each.state for each in self.tables())
        family = GaugeMetricFamily(f"{_PREFIX}_tables", "Tables of the pipeline, by state", labels=["state"])
        for state in TABLE_STATES:
            family.add_metric([state], counts[state])
        yield family


_WAITING_FOR = {"kafka": WAITING_FOR_KAFKA, "postgres": WAITING_FOR_POSTGRES, "registry": WAITING_FOR_REGISTRY}


def _peer(error: RetryableError) -> str:
    if isinstance(error, KafkaAway):
        return "kafka"
    return "registry" if isinstance(error, RegistryAway) else "postgres"
