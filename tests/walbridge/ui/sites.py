"""Pipelines of each state behind a server, and what a browser shows of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from tests.wait import wait_until
from tests.walbridge.ui.browser import Browser
from tests.walbridge.ui.statuses import NOW, STATES, STREAMING, later
from walbridge.status.pipeline_status import Lake, PipelineStatus, TableState
from walbridge.ui.history import History
from walbridge.ui.page import View
from walbridge.ui.server import Pages, UiServer

LONG = "accounting_department_of_the_north.orders_that_were_never_paid_nor_answered_by_anybody"
UNBROKEN = "numeric" * 30


def crowded() -> PipelineStatus:
    assert isinstance(STREAMING.lake, Lake)
    tables = [TableState(f"{LONG}_{n}", "current", None) for n in range(40)]
    bad = TableState("public.x", "quarantined", 3_000_000, f"column {UNBROKEN}")
    return replace(STREAMING, lake=replace(STREAMING.lake, tables=(*tables, bad)))


def viewed(name: str, status: PipelineStatus) -> View:
    """As of now, an hour after the page was started."""
    now_s = (datetime.now(UTC) - NOW).total_seconds()
    history = History()
    for minute in range(60, -1, -1):
        history.add(later(status, now_s - 60 * minute, 123_456 * (60 - minute)))
    there = later(status, now_s)
    return View(name, there, history.points(), history.events(), history.rates())


class Site:
    """A server whose views a test changes; it answers while ``answers`` is set."""

    def __init__(self, views: Sequence[View], token: str | None = None) -> None:
        self.views = list(views)
        self.answers = threading.Event()
        self.answers.set()
        self.server = UiServer("127.0.0.1", 0, Pages(self._answer), token)
        self.origin = f"http://127.0.0.1:{self.server.port}"

    def _answer(self) -> list[View]:
        self.answers.wait(60.0)
        return self.views


@contextmanager
def site(*views: View, token: str | None = None) -> Iterator[Site]:
    made = Site(views, token)
    with made.server:
        yield made


def each_state() -> Iterator[View]:
    """A pipeline of each state, and one that nobody looked at yet."""
    for name, status in STATES.items():
        yield viewed(name.replace(" ", "-"), status)
    yield View("new")


def text(browser: Browser) -> str:
    """What is seen, line by line."""
    return str(browser.run("return document.body.innerText"))


def focused(browser: Browser) -> str:
    return str(browser.run("const e = document.activeElement; return e.ariaLabel ?? e.innerText"))


def refreshed(browser: Browser) -> None:
    """Return when the page that is shown has been replaced."""
    browser.run("document.getElementById('page').firstElementChild.dataset.old = ''")
    wait_until(lambda: not browser.run("return document.querySelector('[data-old]')"), "a refresh", 30.0)


def lost(browser: Browser) -> None:
    """Open a page whose server then ends."""
    with site(viewed("shop", STREAMING)) as there:
        browser.open(there.origin)
    wait_until(lambda: bool(browser.run("return document.querySelector('body.lost')")), "that it is lost", 30.0)
