"""What is kept of the last day, and what a bug of a look does to the page."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest

from tests.wait import wait_until
from tests.walbridge.ui.statuses import NOW, STREAMING, later
from walbridge.schemas.settings import Settings
from walbridge.ui import watcher as module
from walbridge.ui.history import History, Point
from walbridge.ui.kept_points import KeptPoints
from walbridge.ui.watcher import Watcher

POINT = Point(NOW, 0.5, None, 7, 1.5, None)


def test_day_that_was_kept_is_there_again_but_for_what_is_older(tmp_path: Path) -> None:
    kept = KeptPoints(tmp_path / "new", "shop")
    kept.write([Point(NOW - timedelta(days=1, seconds=1), 1, 1, 1, 1, 1), POINT])

    assert kept.read(NOW) == [POINT]
    assert KeptPoints(tmp_path / "new", "crm").read(NOW) == []
    assert History([POINT]).points() == [POINT]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format_version": 1, "points": [["2026-01-31T12:00:00+00:00", "<b>", 1, 1, 1, 1]]}',
        '{"format_version": 1, "points": [["2026-01-31T12:00:00", 1, 1, 1, 1, 1]]}',
        '{"format_version": 2, "points": 1}',
    ],
)
def test_file_that_is_not_ours_begins_the_day_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "shop.json").write_text(content)

    assert KeptPoints(tmp_path, "shop").read(NOW) == []


def test_watcher_keeps_each_minute_that_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([later(STREAMING, seconds) for seconds in (0, 10, 40)])
    monkeypatch.setattr(module, "read_status", lambda _: next(looks))
    watcher = Watcher(Settings(name="shop"), 1, threading.Event(), KeptPoints(tmp_path, "shop"))
    for _ in range(2):
        watcher._look()
    assert not list(tmp_path.iterdir())
    watcher._look()

    kept = KeptPoints(tmp_path, "shop").read(NOW + timedelta(seconds=40))
    assert [each.at for each in kept] == [NOW + timedelta(seconds=10), NOW + timedelta(seconds=40)]
    assert len(watcher.view.points) == 2


def test_look_that_fails_by_a_bug_is_told_once_by_its_place_and_the_page_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I10: a bug's message may hold anything."""
    looks = []

    def look(_: Settings) -> None:
        looks.append(1)
        raise ValueError("secret")

    monkeypatch.setattr(module, "read_status", look)
    is_over = threading.Event()
    watcher = Watcher(Settings(name="shop"), 0.01, is_over)
    watcher.start()
    wait_until(lambda: len(looks) > 2, "three looks")
    is_over.set()

    (event,) = watcher.view.events
    assert event.what.startswith("a look failed: a bug: ValueError in ")
    assert "secret" not in event.what
