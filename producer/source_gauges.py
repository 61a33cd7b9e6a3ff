"""How far Kafka is behind Postgres, and how much WAL the slot holds back: also while one of them is away.

In: the stream of this session, a watch that asks the server beside it, the batches that were committed. Out: gauges,
made when somebody asks. What is not known is not a number: Prometheus' NaN, which no alert takes for a small lag.

*Settled* is the LSN up to which nothing waits: the end of the newest cut, or what the server had decoded when all of
it was read and no batch was open. WAL after it that the server had written waits, since the time at which the server
said so. It may be WAL without a change of ours: then the next keepalive says so, within seconds.
"""

import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.postgres.slots.slot_row import Slot, Source
from walbridge.producer.postgres.slots.wal_watch import WalWatch

UNKNOWN = float("nan")
WAL_STATUSES = ("reserved", "extended", "unreserved", "lost", "missing", "unknown")
"""Those of ``pg_replication_slots``; then no such slot; then a server that does not answer, or is older than 13."""
DELAY_HELD_S = 30.0
"""So long the delay of the newest batch is told, where nothing waits: then it says nothing of now."""


class SourceGauges(Collector):
    """One for each process, over all sessions. Written by the pipeline's thread, read by the endpoint's."""

    def __init__(self, prefix: str, wal_bytes_max: int | None = None) -> None:
        self._prefix, self._wal_bytes_max = prefix, wal_bytes_max
        self.watch: WalWatch | None = None
        self._stream: ReplicationStream | None = None
        self._is_followed = False
        self._settled = 0
        self._delay_s, self._delay_of_s = 0.0, -DELAY_HELD_S

    def follow(self, stream: ReplicationStream) -> None:
        """A session has begun: what is settled is told anew, since the server may be another one."""
        self._stream, self._is_followed, self._settled = stream, True, 0
        self._settle(stream.confirmed)
        if self.watch is not None:
            self.watch.begin_anew()

    def ended(self) -> None:
        """The session ended; what is known of it stays."""
        self._is_followed = False

    def drained(self, *, is_batch_open: bool) -> None:
        """All that arrived was read."""
        if self._stream is not None and not is_batch_open:
            self._settle(self._stream.received)

    def committed(self, end_lsn: int, commit_time_us: int | None) -> None:
        """Kafka holds all up to there; ``commit_time_us``: of the newest commit in the batch."""
        self._settle(end_lsn)
        if commit_time_us is not None:
            self._delay_s = max(time.time() - commit_time_us / 1e6, 0.0)
            self._delay_of_s = time.monotonic()

    def _settle(self, lsn: int) -> None:
        self._settled = max(self._settled, lsn)
        if self.watch is not None:
            self.watch.settled = self._settled

    def collect(self) -> Iterator[Metric]:
        watch, now_s = self.watch, time.monotonic()
        is_known = watch is not None and watch.is_answered
        seen = watch.seen if watch is not None and is_known else None
        slot = seen.slot if seen is not None else None
        rate = watch.samples.bytes_per_s if watch is not None else None
        yield self._gauge("received_lsn", "The highest LSN that Postgres reported", self._received())
        yield self._gauge("confirmed_lsn", "What Postgres was told is safe", self._confirmed())
        yield self._gauge("server_lsn", "Up to where Postgres has written WAL", seen.wal_lsn if seen else None)
        yield self._gauge("lag_bytes", "WAL that is not confirmed", self._lag_bytes(seen))
        yield self._gauge("publish_delay_seconds", "How long the oldest commit waits, or waited", self._delay(now_s))
        yield self._gauge(
            "server_silent_seconds",
            "Since Postgres last said how far its WAL is",
            now_s - watch.seen_s if watch is not None else None,
        )
        yield self._gauge("slot_wal_bytes", "WAL that the slot holds back", slot.retained_bytes if slot else None)
        left = self._left_bytes(slot)
        yield self._gauge("slot_wal_left_bytes", "WAL that may be written until the slot or the disk is lost", left)
        left_s = max(left, 0) / rate if left is not None and rate else None
        yield self._gauge("slot_wal_left_seconds", "The same at the rate of the last minutes", left_s)
        yield self._wal_status("unknown" if seen is None else _status(slot))

    def _left_bytes(self, slot: Slot | None) -> int | None:
        """What the server lets the slot keep, or else what an operator says that its disk can."""
        if slot is None:
            return None
        if slot.safe_wal_size_bytes is None and self._wal_bytes_max is not None and slot.retained_bytes is not None:
            return max(self._wal_bytes_max - slot.retained_bytes, 0)
        return slot.safe_wal_size_bytes

    def _delay(self, now_s: float) -> float | None:
        """The age of what waits, or what the newest batch took: a lower bound, since nobody saw when it was written."""
        if self._stream is None:
            return None
        newest_s = self._delay_s if now_s - self._delay_of_s < DELAY_HELD_S else 0.0
        age_s = self.watch.samples.age_s(self._settled, now_s) if self.watch is not None else 0.0
        is_known = age_s > 0 or self._is_followed or (self.watch is not None and self.watch.is_answered)
        return max(age_s, newest_s) if is_known else None

    def _lag_bytes(self, seen: Source | None) -> float | None:
        confirmed = self._confirmed()
        if confirmed is None and seen is not None and seen.slot is not None:
            confirmed = seen.slot.confirmed_flush_lsn
        ends = [seen.wal_lsn] if seen is not None else []
        if self._stream is not None and self._is_followed:
            ends.append(self._stream.received)
        return max(max(ends) - confirmed, 0) if ends and confirmed is not None else None

    def _received(self) -> int | None:
        return self._stream.received if self._stream is not None else None

    def _confirmed(self) -> int | None:
        return self._stream.confirmed if self._stream is not None else None

    def _gauge(self, name: str, meaning: str, value: float | None) -> Metric:
        return GaugeMetricFamily(f"{self._prefix}_{name}", meaning, UNKNOWN if value is None else value)

    def _wal_status(self, status: str) -> Metric:
        family = GaugeMetricFamily(f"{self._prefix}_slot_wal_status", "1 for what the slot's WAL is", labels=["status"])
        for each in WAL_STATUSES:
            family.add_metric([each], float(each == status))
        return family


def _status(slot: Slot | None) -> str:
    if slot is None:
        return "missing"
    return slot.wal_status if slot.wal_status in WAL_STATUSES else "unknown"
