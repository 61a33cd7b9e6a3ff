"""Bars of a terminal, in place of lines that tell how far some work is."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest
import structlog
from rich.console import Console

from tests.wait import wait_until
from walbridge.runtime import bars, logs
from walbridge.runtime.bars import Bars

COPY = {"event": "copy of a table goes on", "table": "public.t", "rows": 1200, "bytes": 9, "percent": 12}
PACE = {"rows_per_s": 50, "seconds_left": 3000}
PLAN = {"event": "a plan is in work", "to_cut": 7, "rows": 90, "tables": 10, "tables_done": 4, "seconds": 31}


class Terminal:
    """Bars on a screen that is kept as text, and their clock."""

    def __init__(self) -> None:
        self.out, self.now_s = io.StringIO(), 0.0
        self.bars = Bars(Console(file=self.out, force_terminal=True, width=120), lambda: self.now_s)

    def says(self, **event: object) -> bool:
        """Whether the event is a line of the log."""
        try:
            self.bars(None, "info", dict(event))
        except structlog.DropEvent:
            return False
        return True

    @property
    def shown(self) -> str:
        """Without colours, since this was last asked."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.out.getvalue())
        self.out.truncate(0)
        self.out.seek(0)
        return text


def test_what_goes_on_is_a_bar_and_no_line_until_it_ends() -> None:
    terminal = Terminal()

    assert not terminal.says(**COPY, **PACE)
    assert not terminal.says(**PLAN, at="shop.public.t")
    assert terminal.says(event="published", to_cut=6)
    shown = terminal.shown
    assert re.search(r"copying public\.t\s.* 12 %, 1,200 rows, 50/s, 3,000 s left", shown), shown
    assert re.search(r"applying cut 7\s.* 4 of 10 tables, 90 rows, 31 s, at shop\.public\.t", shown), shown

    assert terminal.says(event="table is copied", table="public.t")
    assert "copying" not in terminal.shown.rpartition("applying")[2]
    assert terminal.says(event="published", to_cut=7)
    terminal.bars.write("a line")
    assert "applying" not in terminal.shown.rpartition("\r")[2]


def test_table_of_which_nobody_knows_the_size_has_a_bar_without_a_share() -> None:
    terminal = Terminal()

    assert not terminal.says(**COPY | {"percent": None}, **PACE | {"seconds_left": None})
    terminal.bars.close()

    assert re.search(r"copying public\.t\s.* 1,200 rows, 50/s", terminal.shown)


def test_line_is_written_above_the_bars_and_no_markup_to_them() -> None:
    terminal = Terminal()
    terminal.says(**COPY, **PACE)

    terminal.bars.write("\x1b[1mdone [bold]here[/bold]\x1b[0m")
    terminal.bars.write("\n")

    lines = terminal.shown.splitlines()
    assert any(line.endswith("done [bold]here[/bold]") for line in lines)
    assert "" not in [line.strip() for line in lines[2:]]
    terminal.bars.close()


def test_work_of_which_nothing_is_heard_any_more_loses_its_bar() -> None:
    """It ended in trouble, which has events of its own."""
    terminal = Terminal()
    terminal.says(**COPY, **PACE)
    terminal.now_s += bars.SILENT_S + 1

    assert terminal.says(event="table is quarantined", table="public.t")
    assert not terminal.bars._tasks


def test_bar_of_which_nothing_is_heard_goes_also_where_no_line_is_written() -> None:
    terminal = Terminal()
    terminal.says(**COPY, **PACE)
    terminal.now_s += bars.SILENT_S - 1
    terminal.says(**PLAN)
    terminal.now_s += 2

    assert terminal.shown
    wait_until(lambda: "applying" in (shown := terminal.shown) and "copying" not in shown, "one bar to go")
    terminal.bars.close()


def test_who_is_no_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a service manager or a file."""
    program = (
        "import structlog; from walbridge.runtime.logs import configure_logs, progress_interval_s; configure_logs(); "
        f"assert progress_interval_s(10) == 10; structlog.get_logger().info(**{COPY | PACE!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)

    assert 'event="copy of a table goes on" table=public.t rows=1200' in done.stderr
    assert logs.progress_interval_s(10.0) == 10.0
