"""The line that the log has of each batch."""

import time

import structlog

from walbridge.producer.batch.progress import Batch
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.position import format_lsn

log = structlog.get_logger()


def report_batch(batch: Batch, cut: Cut, commit_s: float) -> None:
    """Say what is committed by now, and how long that took."""
    # Cuts of an idle source come every few seconds for ever.
    say = log.info if batch.row_count else log.debug
    committed_us = cut.commit_time_us
    say(
        "batch",
        cut_id=cut.cut_id,
        rows=batch.row_count,
        bytes=batch.byte_count,
        transactions=cut.transactions,
        tables=len(cut.tables),
        end_lsn=format_lsn(cut.end_lsn),
        complete=cut.complete,
        commit_ms=round(commit_s * 1000, 1),
        lag_ms=None if committed_us is None else (time.time_ns() // 1000 - committed_us) // 1000,
    )
