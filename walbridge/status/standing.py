"""Where the pipeline stands at one moment, and the lag that follows from it. Pure.

In: what each peer said of itself, or why it did not. Out: lags in bytes and seconds. Bytes are
differences of LSNs. Seconds are an upper bound: a cut holds everything that committed before the
moment it speaks of, so what is missing is no older than that moment.
"""

from dataclasses import dataclass
from datetime import datetime

from walbridge.producer.postgres.slots.slot_row import Source
from walbridge.schemas.control.run_record import NEVER_RAN, LastWords
from walbridge.schemas.control.table_progress import STALE
from walbridge.schemas.errors import WalbridgeError


@dataclass(frozen=True, slots=True)
class Silent:
    """A peer that did not answer. ``away`` False: it was not asked."""

    reason: str
    away: bool = True

    @classmethod
    def because(cls, error: WalbridgeError) -> "Silent":
        """One line, without the remedy."""
        return cls(getattr(error, "what", None) or str(error))


@dataclass(frozen=True, slots=True)
class NewestCut:
    """The newest cut in Kafka. ``reached_at``: nothing that committed before is missing from it.

    ``unchanged_since``: from there up to its end no table changed; None where that is not known.
    """

    cut_id: int
    end_lsn: int
    complete: bool
    reached_at: datetime
    unchanged_since: int | None = None
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A table of the publication whose changes are not published, since when, and why."""

    table: str
    since_lsn: int | None
    why: str | None
    state: str = STALE


@dataclass(frozen=True, slots=True)
class Copying:
    """A table that is copied beside the stream. ``share``: of its rows, by estimate; None where it is not known."""

    table: str
    rows: int
    bytes: int
    share: float | None


@dataclass(frozen=True, slots=True)
class Published:
    """What the producer has published. ``state`` None: it never started.

    ``known``: relation ids of all tables that progress speaks of; None where that is not all of them yet.
    """

    state: str | None
    cut: NewestCut | None
    left_out: tuple[LeftOut, ...] = ()
    copying: tuple[Copying, ...] = ()
    known: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class TableState:
    """A table of the lake. ``since_lsn``: from where on it has this state; ``why``: what brought it there."""

    table: str
    state: str
    since_lsn: int | None
    why: str | None = None
    relation_id: int | None = None


@dataclass(frozen=True, slots=True)
class LakeCut:
    """The newest published cut. ``commit_time`` None: its cuts held no transaction."""

    sequence: int
    cut_id: int
    end_lsn: int
    commit_time: datetime | None
    written_at: datetime
    epoch: str = ""

    @property
    def reached_at(self) -> datetime:
        """As of a cut in Kafka; of an idle source only the row's own time is known."""
        return self.commit_time or self.written_at


@dataclass(frozen=True, slots=True)
class Lake:
    """The lake. ``cut`` None: nothing is published yet; ``tables`` are then those being copied.

    ``pipeline``: whose it is; None where nothing says so yet.
    """

    exists: bool
    pipeline: str | None
    cut: LakeCut | None
    tables: tuple[TableState, ...]


@dataclass(frozen=True, slots=True)
class Lag:
    """Behind the server; None where it is not known."""

    wal_bytes: int | None
    seconds: float | None


UNKNOWN = Lag(None, None)


@dataclass(frozen=True, slots=True)
class Standing:
    """All of it, at one moment."""

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
    """What the programs said of themselves."""

    @property
    def anybody_answers(self) -> bool:
        """False when there is nothing to tell."""
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
        """Whether [lake] path is another pipeline's: what it holds says nothing of this one."""
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
            # The same state; the cut knows better up to where and when it holds.
            return self._behind(kafka.end_lsn, max(lake.reached_at, kafka.reached_at))
        return self._behind(lake.end_lsn, lake.reached_at)

    @property
    def lake_behind_kafka_bytes(self) -> int | None:
        """From the newest cut to the newest published one."""
        lake, kafka = self.lake_cut, self.kafka_cut
        if lake is None or kafka is None or self.lake_is_of_lost_epoch:
            return None
        return max(0, kafka.end_lsn - lake.end_lsn)

    @property
    def lake_holds_all_changes(self) -> bool:
        """Whether all that the lake has not published of Kafka's cuts changed no table."""
        lake, kafka = self.lake_cut, self.kafka_cut
        if lake is None or kafka is None or kafka.unchanged_since is None or self.lake_is_of_lost_epoch:
            return False
        return kafka.unchanged_since <= lake.end_lsn <= kafka.end_lsn

    def _behind(self, end_lsn: int, reached_at: datetime) -> Lag:
        if isinstance(self.source, Silent):
            return UNKNOWN
        missing = max(0, self.source.wal_lsn - end_lsn)
        return Lag(missing, max(0.0, (self.source.now - reached_at).total_seconds()) if missing else 0.0)
