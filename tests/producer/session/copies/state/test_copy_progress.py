"""How far copies are, for the log: a line at least every 10 s, with what an operator asks."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
import structlog

from tests.producer.copied_session import LATE, copied, found
from walbridge.producer.copying.copy_share import LINE_S, TableSize
from walbridge.producer.copying.copy_state import Chunk
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.copies.state.copy_progress import CopyProgress, CopyStanding


def copying(session: object) -> CopiedTable:
    """The table as its copy has begun, of 400 rows by the server's word."""
    table = cast("CopiedTable", session.copies._reading.copied[LATE])  # type: ignore[attr-defined]
    assert table.found is not None
    table.found = replace(found(LATE), size=TableSize(400, 10_000))
    return table


def test_line_every_10_seconds_says_rows_bytes_percent_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: clock)
    with copied() as session:
        session.begin()
        table, progress = copying(session), CopyProgress()
        with structlog.testing.capture_logs() as lines:
            progress.look({LATE: table})
            table.state = table.state.enter(Chunk(100, 2500, ("9",)))
            clock += LINE_S / 2
            progress.look({LATE: table})
            assert lines == []
            clock += LINE_S / 2
            progress.look({LATE: table})
            clock += LINE_S
            progress.look({LATE: table})
    told = {"table": "public.late", "rows": 100, "bytes": 2500, "percent": 25, "rows_per_s": 10, "seconds_left": 30}
    assert lines[0] == told | {"event": "copy of a table goes on", "log_level": "info"}
    assert (lines[1]["rows_per_s"], lines[1]["seconds_left"]) == (5, 60)
    assert progress.standings == (CopyStanding("p.public.late", 100, 2500, 0.25, 60),)


def test_copy_that_ended_is_shown_no_more() -> None:
    with copied() as session:
        session.begin()
        progress = CopyProgress()
        progress.look({LATE: copying(session)})
        assert [standing.rows for standing in progress.standings] == [0]
        progress.look({})
        assert progress.standings == ()
