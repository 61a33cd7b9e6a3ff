"""Pipelines in the states that a page has to tell apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from walbridge.producer.postgres.slots.slot_row import Slot, Source
from walbridge.schemas.control.run_record import End, How, LastWords, Run
from walbridge.status.pipeline_status import (
    Copying,
    Lake,
    LakeCut,
    LeftOut,
    NewestCut,
    PipelineStatus,
    Published,
    Silent,
    TableState,
)

NOW = datetime(2026, 1, 31, 12, 0, 30, tzinfo=UTC)
RUN = Run("producer", "shop", "1", "0.1.0", "db-host", 7, "boot/ns/7/99", NOW, NOW, "streaming")
RUNS = LastWords(RUN, None, is_running=True)
STOPPED = RUN.ended(End(NOW, How.STOPPED, 0))
LOST = RUN.ended(End(NOW - timedelta(minutes=14), How.REFUSED, 2, "the slot <s> is lost", "walbridge copy --all"))
AWAY = Silent("no broker answers")
TABLES = (TableState("public.orders", "current", None), TableState("public.<b>", "current", None))

STREAMING = PipelineStatus(
    pipeline="shop",
    slot_name="s",
    lake_path="/lake",
    at=NOW,
    source=Source("18.1", 5_000_000, NOW, Slot(77, "reserved", 23_400_000, None, 4_000_000)),
    published=Published("streaming", NewestCut(9, 4_999_000, True, NOW - timedelta(seconds=2))),
    lake=Lake(True, "shop", LakeCut(5, 7, 4_000_000, NOW - timedelta(seconds=30), NOW), TABLES),
    producer=RUNS,
    job=RUNS,
)
KAFKA_AWAY = replace(STREAMING, published=AWAY, producer=AWAY)
PRODUCER_STOPPED = replace(STREAMING, producer=LastWords(STOPPED, STOPPED))
JOB_FAILED = replace(STREAMING, job=LastWords(LOST, LOST))
PRODUCER_KILLED = replace(STREAMING, producer=LastWords(RUN, None))
COPIED = replace(
    STREAMING,
    published=Published(
        "streaming",
        NewestCut(9, 4_999_000, True, NOW),
        copying=(Copying("public.events", 4_310_000, 910_000_000, 0.43), Copying("public.orders", 12, 90, None)),
    ),
)
STALE = replace(
    COPIED,
    published=Published(
        "streaming", NewestCut(9, 4_999_000, True, NOW), (LeftOut("public.log", 3_000_000, "it was <i>rewritten</i>"),)
    ),
)
SLOT_LOST = replace(STREAMING, source=Source("18.1", 5_000_000, NOW, Slot(None, "lost", None, None, 4_000_000)))
STATES = {
    "streaming": STREAMING,
    "Kafka away": KAFKA_AWAY,
    "producer stopped": PRODUCER_STOPPED,
    "job failed": JOB_FAILED,
    "producer killed": PRODUCER_KILLED,
    "copied": COPIED,
    "stale": STALE,
    "slot lost": SLOT_LOST,
}


def later(status: PipelineStatus, seconds: float, wal: int = 0) -> PipelineStatus:
    """The same, some time on, with so much more WAL everywhere."""
    assert isinstance(status.source, Source)
    source = replace(status.source, wal_lsn=status.source.wal_lsn + wal)
    moved = replace(status, at=status.at + timedelta(seconds=seconds), source=source)
    if isinstance(status.published, Published) and status.published.cut is not None:
        cut = replace(status.published.cut, end_lsn=status.published.cut.end_lsn + wal)
        moved = replace(moved, published=replace(status.published, cut=cut))
    return moved
