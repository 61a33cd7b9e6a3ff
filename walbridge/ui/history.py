"""The last day of one pipeline, in memory: a point per minute. Pure but for its own state.

In: the status, read again and again. Out: points for plots, and events of what went wrong, newest first. Bounded:
``POINTS_MAX`` points and ``EVENTS_MAX`` events, however long it runs (I9). A point has the largest lag of its minute,
since plots are there to show what was bad.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from walbridge.schemas.control.run_record import How, LastWords
from walbridge.status.pipeline_status import PipelineStatus, Silent

POINT_S = 60
POINTS_MAX = 24 * 60
EVENTS_MAX = 30
SAMPLES_MAX = 60
_KEPT = timedelta(days=1)
_RATE_OVER = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Sample:
    """The numbers of one status. None where a value is not known."""

    at: datetime
    wal_lsn: int | None = None
    kafka_lsn: int | None = None
    lake_lsn: int | None = None
    kafka_lag_s: float | None = None
    lake_lag_s: float | None = None
    slot_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One minute. Rates are in bytes of WAL per second."""

    at: datetime
    kafka_lag_s: float | None
    lake_lag_s: float | None
    slot_bytes: int | None
    wal_rate: float | None
    lake_rate: float | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that went wrong: a program ended, or a peer did not answer."""

    at: datetime
    who: str
    what: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes of WAL a second, over the last minute; None where it is not known."""

    wal: float | None = None
    kafka: float | None = None
    lake: float | None = None


def sample_of(status: PipelineStatus) -> Sample:
    """The numbers of a status."""
    source = None if isinstance(status.source, Silent) else status.source
    kafka, lake = status.kafka_cut, status.lake_cut
    return Sample(
        status.at,
        None if source is None else source.wal_lsn,
        None if kafka is None else kafka.end_lsn,
        None if lake is None else lake.end_lsn,
        status.kafka_lag.seconds,
        status.lake_lag.seconds,
        None if source is None or source.slot is None else source.slot.retained_bytes,
    )


class History:
    """Written by one thread only; what it returns are copies."""

    def __init__(self, points: Iterable[Point] = ()) -> None:
        self._points: deque[Point] = deque(points, maxlen=POINTS_MAX)
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._minute: list[Sample] = []
        self._before: Sample | None = None
        self._silent: dict[str, str] = {}
        self._ends: set[tuple[str, datetime]] = set()

    def add(self, status: PipelineStatus) -> bool:
        """Add one status; True if a minute ended with it."""
        sample = sample_of(status)
        is_over = bool(self._minute) and _minute(sample.at) != _minute(self._minute[0].at)
        if is_over:
            self._close()
        self._minute.append(sample)
        self._samples.append(sample)
        self._note_silence(status)
        for who, words in programs(status):
            self._note_end(who, words, status.at)
        return is_over

    def note(self, event: Event) -> None:
        """Add an event that is in no status."""
        self._events.append(event)

    def points(self) -> list[Point]:
        """All points, oldest first, with the current minute as the last one."""
        now = [_point(self._minute, self._before)] if self._minute else []
        return [*self._points, *now]

    def events(self) -> list[Event]:
        """All events, newest first."""
        return sorted(self._events, key=lambda event: event.at, reverse=True)

    def rates(self) -> Rates:
        """The rates over the last minute, or over a shorter time where less is known."""
        samples = list(self._samples)
        if len(samples) < 2:
            return Rates()
        last = samples[-1]
        first = next(each for each in samples if each.at >= last.at - _RATE_OVER)
        return Rates(_rate(first, last, "wal_lsn"), _rate(first, last, "kafka_lsn"), _rate(first, last, "lake_lsn"))

    def _close(self) -> None:
        self._points.append(_point(self._minute, self._before))
        self._before = self._minute[-1]
        self._minute = []

    def _note_silence(self, status: PipelineStatus) -> None:
        for who, peer in peers(status):
            reason = peer.reason if isinstance(peer, Silent) and peer.away else ""
            if reason and who not in self._silent:
                self._events.append(Event(status.at, who, f"does not answer: {reason}"))
            if reason:
                self._silent[who] = reason
            else:
                self._silent.pop(who, None)

    def _note_end(self, who: str, words: LastWords | Silent, now: datetime) -> None:
        end = None if isinstance(words, Silent) or words.end is None else words.end.end
        if end is None or end.how is How.STOPPED or (who, end.at) in self._ends or now - end.at > _KEPT:
            return
        self._ends.add((who, end.at))
        if len(self._ends) > 2 * EVENTS_MAX:
            self._ends = {each for each in self._ends if each[1] >= end.at - _KEPT}
        self._events.append(Event(end.at, who, end.what or f"ended with {end.how.value}", end.remedy))


def programs(status: PipelineStatus) -> Iterator[tuple[str, LastWords | Silent]]:
    """The programs that write run records, with their last words."""
    yield "producer", status.producer
    yield "Spark job", status.job
    yield "verify", status.verifier


def peers(status: PipelineStatus) -> Iterator[tuple[str, object]]:
    """The peers that are asked, with their answers."""
    yield "Postgres", status.source
    yield "Kafka", status.published
    yield "lake", status.lake


def _minute(at: datetime) -> int:
    return int(at.timestamp()) // POINT_S


def _point(samples: list[Sample], before: Sample | None) -> Point:
    first, last = before or samples[0], samples[-1]
    if last.at - first.at > timedelta(seconds=3 * POINT_S):  # after a gap: the rate before it would not be today's
        first = samples[0]
    return Point(
        last.at,
        _largest([each.kafka_lag_s for each in samples]),
        _largest([each.lake_lag_s for each in samples]),
        last.slot_bytes,
        _rate(first, last, "wal_lsn"),
        _rate(first, last, "lake_lsn"),
    )


def _largest(values: list[float | None]) -> float | None:
    return max((each for each in values if each is not None), default=None)


def _rate(first: Sample, last: Sample, name: str) -> float | None:
    begin, end = getattr(first, name), getattr(last, name)
    passed_s = (last.at - first.at).total_seconds()
    if begin is None or end is None or passed_s <= 0 or end < begin:
        return None
    return float((end - begin) / passed_s)
