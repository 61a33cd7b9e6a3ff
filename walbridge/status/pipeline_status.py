"""The state of the pipeline at one moment, and its lags. Pure.

In: the answer of each peer, or why it did not answer. Out: lags in bytes and seconds. Bytes are
differences of LSNs. Seconds are an upper bound: a cut holds everything that committed before its
``reached_at``, so the changes that are missing are no older than that.
"""

from dataclasses import dataclass
from datetime import datetime

from walbridge.producer.postgres.slots.slot_row import Slot, Source
from walbridge.schemas.control.run_record import NEVER_RAN, LastWords
from walbridge.schemas.control.table_progress import STALE
from walbridge.schemas.errors import WalbridgeError


@dataclass(frozen=True, slots=True)
class Silent:
    """A peer that did not answer, and why. ``away``: False if it was not asked."""

    reason: str
    away: bool = True

    @classmethod
    def because(cls, error: WalbridgeError) -> "Silent":
        """With the error's text, without its remedy."""
        return cls(getattr(error, "what", None) or str(error))


@dataclass(frozen=True, slots=True)
class NewestCut:
    """The newest cut in Kafka. ``reached_at``: it holds all that committed before this moment.

    ``unchanged_since``: no table changed between this LSN and the cut's end; None where that is not known.
    """

    cut_id: int
    end_lsn: int
    complete: bool
    reached_at: datetime
    unchanged_since: int | None = None
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A table of the publication whose changes are not written to Kafka, since when, and why."""

    table: str
    since_lsn: int | None
    why: str | None
    state: str = STALE


@dataclass(frozen=True, slots=True)
class Copying:
    """A table that is copied beside the stream. ``share``: which part of its rows is copied, by an estimate; None where
    it is not known."""

    table: str
    rows: int
    bytes: int
    share: float | None


@dataclass(frozen=True, slots=True)
class Published:
    """What the producer has written to Kafka. ``state``: None if it never started.

    ``known``: relation ids of all tables in progress; None during the first copy, when progress lacks some.
    """

    state: str | None
    cut: NewestCut | None
    left_out: tuple[LeftOut, ...] = ()
    copying: tuple[Copying, ...] = ()
    known: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class TableState:
    """A table of the lake. ``since_lsn``: where this state began; ``why``: its reason; ``is_mended``: by a copy that
    goes on."""

    table: str
    state: str
    since_lsn: int | None
    why: str | None = None
    relation_id: int | None = None
    is_mended: bool = False


@dataclass(frozen=True, slots=True)
class LakeCut:
    """The lake's newest published cut. ``commit_time``: None if it has no transaction."""

    sequence: int
    cut_id: int
    end_lsn: int
    commit_time: datetime | None
    written_at: datetime
    epoch: str = ""

    @property
    def reached_at(self) -> datetime:
        """As ``NewestCut.reached_at``; without a transaction, the time when the row in ``_cuts`` was written."""
        return self.commit_time or self.written_at


@dataclass(frozen=True, slots=True)
class Lake:
    """The lake. ``cut``: None if nothing is published yet; ``tables`` are then those being copied.

    ``pipeline``: the pipeline that writes this lake; None where no pipeline has written to it yet.
    """

    exists: bool
    pipeline: str | None
    cut: LakeCut | None
    tables: tuple[TableState, ...]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far something is behind the server; None where it is not known."""

    wal_bytes: int | None
    seconds: float | None


UNKNOWN = Lag(None, None)


def held_bytes(slot: Slot, wal_lsn: int) -> int:
    """The WAL that is read again at each start, since prepared transactions began in it."""
    return max(0, wal_lsn - (slot.confirmed_flush_lsn or wal_lsn))


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The answers of all peers, at one moment."""

    pipeline: str
    slot_name: str
    lake_path: str
    at: datetime
    source: Source | Silent
    published: Published | Silent
    lake: Lake | Silent
    producer: LastWords | Silent = NEVER_RAN
    job: LastWords | Silent = NEVER_RAN
    verifier: LastWords | Silent = NEVER_RAN
    """The last run records of the three programs."""

    @property
    def anybody_answers(self) -> bool:
        """False if neither Postgres nor Kafka answers, and the lake does not either or does not exist."""
        lake = self.lake if isinstance(self.lake, Silent) or self.lake.exists else Silent("nothing is there yet")
        return not all(isinstance(peer, Silent) for peer in (self.source, self.published, lake))

    @property
    def kafka_cut(self) -> NewestCut | None:
        """The newest cut, if Kafka answers and holds one."""
        return None if isinstance(self.published, Silent) else self.published.cut

    @property
    def lake_cut(self) -> LakeCut | None:
        """The newest published cut, if the lake answers, is ours and holds one."""
        return None if isinstance(self.lake, Silent) or self.lake_is_foreign else self.lake.cut

    @property
    def lake_is_foreign(self) -> bool:
        """Whether the lake at [lake] path belongs to another pipeline."""
        return not isinstance(self.lake, Silent) and self.lake.pipeline not in (None, self.pipeline)

    @property
    def lake_is_of_lost_epoch(self) -> bool:
        """Whether the lake has not reached the epoch of the newest cut: LSNs of two epochs are not compared."""
        lake, kafka = self.lake_cut, self.kafka_cut
        return lake is not None and kafka is not None and lake.epoch != kafka.epoch

    @property
    def kafka_lag(self) -> Lag:
        """From the server's WAL to the newest cut."""
        cut = self.kafka_cut
        return UNKNOWN if cut is None else self._behind(cut.end_lsn, cut.reached_at)

    @property
    def lake_lag(self) -> Lag:
        """From the server's WAL to the newest published cut."""
        lake, kafka = self.lake_cut, self.kafka_cut
        if lake is None or self.lake_is_of_lost_epoch:
            return UNKNOWN
        if kafka is not None and (lake.end_lsn == kafka.end_lsn or self.lake_holds_all_changes):
            # The lake equals the cut in Kafka, whose end and time are the later, more exact ones.
            return self._behind(kafka.end_lsn, max(lake.reached_at, kafka.reached_at))
        return self._behind(lake.end_lsn, lake.reached_at)

    @property
    def lake_behind_kafka_bytes(self) -> int | None:
        """Bytes of WAL between the lake's newest cut and Kafka's newest cut."""
        lake, kafka = self.lake_cut, self.kafka_cut
        if lake is None or kafka is None or self.lake_is_of_lost_epoch:
            return None
        return max(0, kafka.end_lsn - lake.end_lsn)

    @property
    def lake_holds_all_changes(self) -> bool:
        """Whether the cuts in Kafka that the lake has not published yet change no table."""
        lake, kafka = self.lake_cut, self.kafka_cut
        if lake is None or kafka is None or kafka.unchanged_since is None or self.lake_is_of_lost_epoch:
            return False
        return kafka.unchanged_since <= lake.end_lsn <= kafka.end_lsn

    def _behind(self, end_lsn: int, reached_at: datetime) -> Lag:
        if isinstance(self.source, Silent):
            return UNKNOWN
        missing = max(0, self.source.wal_lsn - end_lsn)
        return Lag(missing, max(0.0, (self.source.now - reached_at).total_seconds()) if missing else 0.0)
