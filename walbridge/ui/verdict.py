"""The state of a pipeline in one line, and the state of each of its tables. Pure.

In: a ``PipelineStatus``. Out: a verdict, which is the worst of all findings; rows of tables, those that need action
first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from walbridge.quantities import seconds_text
from walbridge.schemas.control.run_record import How, LastWords, last_difference
from walbridge.schemas.control.table_progress import FIRST_COPY_WAITS
from walbridge.schemas.errors import copy_command, foreign_lake
from walbridge.schemas.position import format_lsn
from walbridge.status.pipeline_status import PipelineStatus, Silent
from walbridge.ui.history import peers, programs

GOOD, BUSY, ATTENTION, BAD, OFF = "good", "busy", "attention", "bad", "off"
MARKS = {GOOD: "✓", BUSY: "↻", ATTENTION: "!", BAD: "✕", OFF: "■"}
"""Signs beside the colours, for readers who cannot tell the colours apart."""
CURRENT, ARCHIVE, COPYING = "current", "archive", "copying"
KAFKA_LATE_S, LAKE_LATE_S, PREPARED_LATE_S = 300.0, 900.0, 3600.0
DIFFERED_LATELY = timedelta(days=1)
"""The same time as in the alert rules."""
VERBS = {
    "producer": "walbridge produce",
    "Spark job": "walbridge materialize",
    "verify": "walbridge verify --every",
}
COPY_ALL = "walbridge copy --all, then walbridge produce"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``level``: one of the five; ``text``: a few words; ``remedy``: a command or advice, where there is one."""

    level: str
    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """``share``: which part of its rows is copied, from 0 to 1; ``rows``: how many rows are copied."""

    name: str
    state: str
    since: str | None = None
    why: str | None = None
    share: float | None = None
    rows: int | None = None

    @property
    def is_copied(self) -> bool:
        """Whether it is being copied now, also where it stays current meanwhile."""
        return self.state == COPYING or self.rows is not None

    @property
    def waits(self) -> bool:
        """Whether it waits for its turn in the first copy."""
        return self.why == FIRST_COPY_WAITS


def verdict(status: PipelineStatus) -> Verdict:
    """The worst finding; ``streaming`` where there is none."""
    order = (BAD, OFF, ATTENTION, BUSY)
    found = list(_findings(status))
    return min(found, key=lambda each: order.index(each.level), default=Verdict(GOOD, "streaming"))


def _findings(status: PipelineStatus) -> Iterator[Verdict]:
    for who, peer in peers(status):
        if isinstance(peer, Silent) and peer.away:
            remedy = "see that it runs and can be reached from here; the pipeline goes on by itself"
            yield Verdict(BAD, f"{who} does not answer", remedy)
    yield from _slot(status)
    if status.lake_is_foreign:
        theirs = "" if isinstance(status.lake, Silent) else status.lake.pipeline or ""
        remedy = foreign_lake(status.lake_path, theirs, status.pipeline).remedy
        yield Verdict(BAD, "the lake belongs to another pipeline", remedy)
    for who, words in programs(status):
        if isinstance(words, Silent):
            continue
        yield from _verifier(words, status.at) if who == "verify" else _program(f"the {who}", VERBS[who], words)
    yield from _lags(status)
    yield from _tables(status)
    if not isinstance(status.lake, Silent) and status.lake.cut is None:
        yield Verdict(BUSY, "nothing is published in the lake yet")


def _slot(status: PipelineStatus) -> Iterator[Verdict]:
    if isinstance(status.source, Silent):
        return
    if (slot := status.source.slot) is None:
        # Before it streams, a start makes the slot.
        if not isinstance(status.published, Silent) and status.published.state == "streaming":
            yield Verdict(BAD, "the replication slot does not exist", COPY_ALL)
        return
    if slot.wal_status == "lost":
        yield Verdict(BAD, "the replication slot is lost", COPY_ALL)
    if slot.wal_status == "unreserved":
        remedy = "see that the producer goes on at once, or raise max_slot_wal_keep_size"
        yield Verdict(BAD, "the replication slot is about to be lost", remedy)
    if slot.prepared is not None and slot.prepared.oldest_s > PREPARED_LATE_S:
        text = f"a prepared transaction has not ended for {seconds_text(slot.prepared.oldest_s)}"
        yield Verdict(ATTENTION, text, "walbridge status names it: COMMIT PREPARED or ROLLBACK PREPARED it")


def _lags(status: PipelineStatus) -> Iterator[Verdict]:
    for who, lag, limit_s in (
        ("Kafka", status.kafka_lag, KAFKA_LATE_S),
        ("the lake", status.lake_lag, LAKE_LATE_S),
    ):
        if lag.seconds is not None and lag.seconds > limit_s:
            yield Verdict(ATTENTION, f"{who} is {seconds_text(lag.seconds)} behind", "see docs/scaling.md")


def _program(who: str, command: str, words: LastWords) -> Iterator[Verdict]:
    end = words.recorded_end.end if words.recorded_end is not None else None
    if words.is_running:
        return
    if words.run is None and words.end is None:
        yield Verdict(OFF, f"{who} was never started", command)
    elif end is None or end.how is How.UNSAID:
        yield Verdict(BAD, f"{who} ended without a word", command)
    elif end.how is How.STOPPED:
        yield Verdict(OFF, f"{who} is stopped", command)
    else:
        yield Verdict(BAD, f"{who} ended with {'a bug' if end.how is How.BUG else 'an error'}", end.remedy)


def _verifier(words: LastWords, now: datetime) -> Iterator[Verdict]:
    """Findings about ``walbridge verify``. None is bad: the pipeline runs without it, and it is optional."""
    for found in _program("verify", VERBS["verify"], words):
        if found.level == BAD:
            yield replace(found, level=ATTENTION)
    differed = last_difference(words.run.state) if words.run is not None else None
    if differed is not None and now - differed[1] <= DIFFERED_LATELY:
        remedy = f"walbridge tables says whether it is copied again; if not, {copy_command(differed[0])}"
        yield Verdict(ATTENTION, f"verify found that {differed[0]} differed from its source", remedy)


def _tables(status: PipelineStatus) -> Iterator[Verdict]:
    rows = table_rows(status)
    others = [row for row in rows if row.state not in (CURRENT, ARCHIVE, COPYING) and not row.waits]
    copying = [row for row in rows if row.is_copied or row.waits]
    first_copy = not isinstance(status.published, Silent) and status.published.state not in (None, "streaming")
    if others:
        yield Verdict(ATTENTION, f"{_counted(others)} not current", "see below why, and walbridge copy")
    if first_copy or copying:
        yield Verdict(BUSY, f"copying {len(copying)} table{'' if len(copying) == 1 else 's'}" if copying else "copying")


def _counted(rows: list[TableRow]) -> str:
    return f"{len(rows)} table is" if len(rows) == 1 else f"{len(rows)} tables are"


def table_rows(status: PipelineStatus) -> list[TableRow]:
    """All tables: first those that need action, then those being copied; each group by name."""
    found: dict[str, TableRow] = {}
    if not isinstance(status.lake, Silent) and not status.lake_is_foreign:
        for table in status.lake.tables:
            found[table.table] = TableRow(table.table, table.state, _lsn(table.since_lsn), table.why)
    if not isinstance(status.published, Silent):
        for left in status.published.left_out:
            found[left.table] = TableRow(left.table, left.state, _lsn(left.since_lsn), left.why)
        for copy in status.published.copying:
            known = found.get(copy.table, TableRow(copy.table, COPYING))
            state = known.state if known.state in (CURRENT, ARCHIVE) else COPYING
            found[copy.table] = replace(known, state=state, share=copy.share, rows=copy.rows)
    return sorted(found.values(), key=lambda row: (_rank(row), row.name))


def _rank(row: TableRow) -> int:
    return 1 if row.is_copied or row.waits else 2 if row.state in (CURRENT, ARCHIVE) else 0


def _lsn(lsn: int | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)
