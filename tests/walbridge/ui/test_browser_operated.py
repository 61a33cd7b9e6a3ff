"""The page in Chromium, as it is operated and followed: by keyboard, by ear, while it changes and while it cannot."""

from __future__ import annotations

import pytest

from tests.wait import wait_until
from tests.walbridge.ui.browser import DESKTOP, ENTER, PHONE, TAB, Browser, needs_chromium
from tests.walbridge.ui.sites import focused, lost, refreshed, site, text, viewed
from tests.walbridge.ui.statuses import STATES, STREAMING
from walbridge.ui import page as page_module

pytestmark = needs_chromium


def tabbed(browser: Browser, count: int) -> list[str]:
    """What is focused after each of so many presses of Tab; fails where that is not seen."""
    names = []
    for _ in range(count):
        browser.press(TAB)
        width, style, box = browser.run(
            "const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect();"
            "return [parseFloat(s.outlineWidth), s.outlineStyle, b.right > 0 && b.bottom > 0 && b.top < innerHeight]"
        )
        names.append(focused(browser))
        assert (width >= 2, style, box) == (True, "solid", True), names
    return names


def test_all_that_can_be_operated_is_reached_by_keyboard_and_seen_to_be(browser: Browser) -> None:
    with site(viewed("shop", STREAMING), viewed("crm", STREAMING)) as there:
        browser.open(f"{there.origin}/p/shop")

        names = tabbed(browser, 6)

        assert names == ["Skip to the content", "walbridge", "✓ shop", "✓ crm", "Pause", "List of tables"]
        assert len(names) == browser.run("return document.querySelectorAll('a, button, [tabindex=\"0\"]').length")


def test_link_leads_and_skips_by_keyboard(browser: Browser) -> None:
    with site(viewed("shop", STREAMING), viewed("crm", STREAMING)) as there:
        browser.open(f"{there.origin}/p/shop")
        tabbed(browser, 1)
        browser.press(ENTER)
        assert browser.run("return document.activeElement.id") == "page"

        browser.open(f"{there.origin}/p/shop")
        tabbed(browser, 4)
        browser.press(ENTER)
        wait_until(lambda: browser.run("return document.title") == "crm: streaming", "the other pipeline", 30.0)


@pytest.mark.variant(of="test_all_that_can_be_operated_is_reached_by_keyboard_and_seen_to_be")
def test_refresh_leaves_the_focus_where_it_is(browser: Browser) -> None:
    with site(viewed("shop", STREAMING), viewed("crm", STREAMING)) as there:
        browser.open(f"{there.origin}/p/shop")
        for presses, name in ((4, "✓ crm"), (2, "List of tables")):
            tabbed(browser, presses)
            refreshed(browser)
            refreshed(browser)

            assert focused(browser) == name


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_screen_reader_is_told_headings_states_and_the_table(browser: Browser, size: tuple[int, int]) -> None:
    browser.size(*size, phone=size == PHONE)
    with site(viewed("shop", STATES["stale"]), viewed("crm", STREAMING)) as there:
        browser.open(f"{there.origin}/p/shop")
        told = browser.read_aloud()

    def named(role: str) -> list[str]:
        return [name for each, name in told if each == role]

    flow = ["Postgres", "producer", "Kafka", "Spark job", "lake"]
    sections = ["Flow", "Tables", "Last day", "What went wrong", "Programs"]
    assert named("heading") == ["shop 1 table is not current", "Flow", *flow, *sections[1:]]
    assert {*sections, "List of tables"} <= {*named("region")}
    assert named("columnheader") == ["table", "state", "since", "why"]
    assert named("rowheader") == ["public.log", "public.<b>", "public.orders"]
    # On a phone, a line each, those that are empty are left out.
    assert (len(named("row")), len(named("cell"))) == (4, 5 if size == PHONE else 9)
    assert "stale" in named("StaticText")
    assert named("button") == ["Pause"]
    assert all(" UTC. " in name and " now, " in name for name in named("image"))
    assert (len(named("status")), len(named("main")), len(named("image"))) == (1, 1, 3)


def test_list_of_pipelines_has_a_heading_and_tells_which_of_them_is_shown(browser: Browser) -> None:
    with site(viewed("shop", STREAMING), viewed("crm", STREAMING)) as there:
        browser.open(there.origin)
        assert ("heading", "Pipelines") in browser.read_aloud()
        assert browser.run("return document.querySelectorAll('[aria-current]').length") == 0

        browser.open(f"{there.origin}/p/crm")
        assert browser.run("return document.querySelector('[aria-current=page]').innerText") == "✓ crm"


WATCHED = """
globalThis.told = [];
new MutationObserver(() => told.push(document.querySelector("[role=status]").textContent))
  .observe(document.querySelector("[role=status]"), { childList: true, characterData: true, subtree: true });
"""


@pytest.mark.parametrize(
    ("path", "words"),
    [("/p/shop", "shop: Kafka does not answer"), ("/", "shop: Kafka does not answer")],
)
def test_change_is_seen_and_told_once_by_itself(browser: Browser, path: str, words: str) -> None:
    with site(viewed("shop", STREAMING), viewed("crm", STREAMING)) as there:
        browser.open(there.origin + path)
        browser.run(WATCHED)
        refreshed(browser)
        there.views[0] = viewed("shop", STATES["Kafka away"])
        wait_until(lambda: "Kafka does not answer" in text(browser), "the new state", 30.0)
        refreshed(browser)

        assert browser.run("return told") == [words]


def test_pause_keeps_what_is_shown_until_it_goes_on(browser: Browser) -> None:
    with site(viewed("shop", STREAMING)) as there:
        browser.open(there.origin)
        tabbed(browser, 3)
        browser.press(ENTER)
        assert focused(browser) == "Go on"
        there.views[0] = viewed("shop", STATES["Kafka away"])
        browser.asked()
        # Several times as long as a refresh takes, by the browser's own clock.
        browser.run("setTimeout(() => { document.body.dataset.waited = '' }, 800)")
        wait_until(lambda: bool(browser.run("return 'waited' in document.body.dataset")), "its time", 30.0)
        assert (browser.asked(), "streaming" in text(browser)) == ([], True)

        browser.press(ENTER)
        wait_until(lambda: "Kafka does not answer" in text(browser), "the new state", 30.0)
        assert focused(browser) == "Pause"


@pytest.mark.parametrize("scrolled", [False, True])
def test_page_that_is_old_says_so_where_it_is_seen(browser: Browser, scrolled: bool) -> None:
    browser.size(*PHONE, phone=True)
    lost(browser)
    if scrolled:
        browser.run("scrollTo(0, document.body.scrollHeight)")

    top, bottom, words = browser.run(
        "const e = document.querySelector('[role=status]'), b = e.getBoundingClientRect();"
        "return [b.top >= 0, b.bottom <= innerHeight && b.height > 15, e.innerText]"
    )
    assert (top, bottom) == (True, True)
    assert words == "walbridge ui does not answer any more: what is shown is old"


def test_server_that_does_not_answer_is_told_after_a_while_and_when_it_does_again(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a network drops packets: no connection is refused."""
    monkeypatch.setattr(page_module, "PATIENCE_S", 1)
    with site(viewed("shop", STREAMING)) as there:
        browser.open(there.origin)
        there.answers.clear()
        wait_until(lambda: "does not answer any more" in text(browser), "that it is lost", 30.0)
        there.answers.set()
        wait_until(lambda: "does not answer any more" not in text(browser), "that it is back", 30.0)

        assert browser.run("return document.querySelector('[role=status]').textContent") == "shop: streaming"
