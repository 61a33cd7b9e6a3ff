"""The page in Chromium, as it is seen: on a desk and on a phone, and that nobody else is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.in_soak import in_variants
from tests.wait import wait_until
from tests.walbridge.ui.browser import DESKTOP, PHONE, Browser, needs_chromium
from tests.walbridge.ui.sites import LONG, crowded, each_state, lost, refreshed, site, text, viewed
from tests.walbridge.ui.statuses import STATES, STREAMING
from walbridge.ui.server import Pages, UiServer

pytestmark = needs_chromium

TOKEN = "0123456789abcdef-long"
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
CONTRAST_MIN = 4.5
"""WCAG 2, level AA."""
SHOWN_BY_STATE = {
    "streaming": ["streaming", "2.0 s behind (1.0 kB)", "2 current"],
    "copied": ["copying 2 tables", "about 43%, 4,310,000 rows", "copied again, 12 rows"],
    "Kafka away": ["Kafka does not answer", "see that it runs and can be reached from here", "no broker answers"],
    "producer stopped": ["the producer is stopped", "What mends it: walbridge produce", "does not run"],
    "job failed": ["the Spark job ended with an error", "What mends it: walbridge copy --all", "the slot <s> is lost"],
}


def test_page_asks_its_own_server_alone_and_the_browser_complains_of_nothing(browser: Browser) -> None:
    with site(*each_state()) as there:
        paths = ["/", *(f"/p/{each.name}" for each in there.views)]
        for path in paths:
            browser.open(there.origin + path)
            refreshed(browser)

        assert browser.said() == []
        assert {url.removeprefix(there.origin) for url in browser.asked()} == {*paths, "/style.css", "/page.js"}


@pytest.mark.parametrize("size", [DESKTOP, in_variants(PHONE)])
def test_state_is_seen_with_what_mends_it(browser: Browser, size: tuple[int, int]) -> None:
    browser.size(*size, phone=size == PHONE)
    with site(*each_state()) as there:
        for name, words in SHOWN_BY_STATE.items():
            shown = name.replace(" ", "-")
            browser.open(f"{there.origin}/p/{shown}")

            seen = text(browser)
            assert [each for each in words if each not in seen] == []
            assert browser.run("return document.title") == f"{shown}: {words[0]}"


OUTSIDE = """
const cut = [...document.querySelectorAll("body *")].filter((each) => {
  const box = each.getBoundingClientRect();
  return !each.closest(".skip") && each.checkVisibility() && (box.right > innerWidth + 0.5 || box.left < -0.5);
});
return [innerWidth, document.documentElement.scrollWidth, cut.map((each) => each.outerHTML.slice(0, 100))];
"""


def test_nothing_of_it_is_wider_than_a_phone(browser: Browser) -> None:
    browser.size(*PHONE, phone=True)
    with site(*each_state(), viewed(LONG.partition(".")[2], crowded())) as there:
        for path in ("/", *(f"/p/{each.name}" for each in there.views)):
            browser.open(there.origin + path)

            assert (path, *browser.run(OUTSIDE)) == (path, 390, 390, [])


SCALES = """
return [...document.querySelectorAll("svg text")].filter((each) => {
  const inner = each.getBoundingClientRect(), outer = each.ownerSVGElement.getBoundingClientRect();
  return inner.left < outer.left || inner.right > outer.right || inner.bottom > outer.bottom + 1 || inner.height < 12;
}).map((each) => each.textContent)
"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE, in_variants((720, 900)), in_variants((1000, 900))])
def test_figures_of_a_plot_are_whole_and_large_enough(browser: Browser, size: tuple[int, int]) -> None:
    """Up to the widest that the scales have."""
    browser.size(*size, phone=size == PHONE)
    busy = viewed("shop", STREAMING)
    points = [replace(each, wal_rate=4.9e7, slot_bytes=10**11, lake_lag_s=9e5) for each in busy.points]
    with site(replace(busy, points=points)) as there:
        browser.open(there.origin)

        assert browser.run("return document.querySelectorAll('svg text').length") > 20
        assert browser.run(SCALES) == []


def dim(browser: Browser) -> list[Any]:
    """Texts that are not told from what lies behind them by everybody."""
    found = browser.run(CONTRAST)
    assert len(found) > 20
    return [each for each in found if each[1] < CONTRAST_MIN]


@pytest.mark.parametrize("scheme", ["light", in_variants("dark")])
def test_each_text_stands_out_from_what_is_behind_it(browser: Browser, scheme: str) -> None:
    browser.prefer(scheme)
    # One was looked at a while ago, so that this is told, too.
    old = replace(viewed("old", STREAMING), status=STREAMING)
    with site(*each_state(), old) as there:
        for path in ("/", *(f"/p/{each.name}" for each in there.views)):
            browser.open(there.origin + path)
            assert dim(browser) == []
    lost(browser)
    assert dim(browser) == []


REFUSED = """
return fetch("/", { headers: { authorization: `Basic ${btoa("anybody:" + arguments[0])}` }, credentials: "omit" })
  .then(async (answer) => [answer.status, await answer.text()]);
"""


def test_wrong_token_is_refused_with_words(browser: Browser) -> None:
    """A window without a screen has no dialogue for the token, and shows nothing in its place: so it asks by script."""
    with site(viewed("shop", STREAMING), token=TOKEN) as there:
        browser.open(f"{there.origin}/healthz")

        assert browser.run(REFUSED, "wrong-token-of-somebody") == [401, "the token is the password, of any user\n"]
        assert browser.run(REFUSED, TOKEN)[0] == 200


def test_token_that_is_not_taken_any_more_is_told(browser: Browser) -> None:
    with site(viewed("shop", STREAMING), token=TOKEN) as there:
        browser.open(there.origin.replace("//", f"//anybody:{TOKEN}@"))
        port = there.server.port
    with UiServer("127.0.0.1", port, Pages(lambda: there.views), TOKEN[::-1]):
        wait_until(lambda: "the token is not taken any more, so load" in text(browser), "its words", 30.0)


def test_page_behind_a_token_is_refreshed_as_well(browser: Browser) -> None:
    with site(viewed("shop", STREAMING), token=TOKEN) as there:
        browser.open(there.origin.replace("//", f"//anybody:{TOKEN}@"))
        there.views[0] = viewed("shop", STATES["Kafka away"])

        wait_until(lambda: "Kafka does not answer" in text(browser), "the new state", 30.0)
        assert browser.said() == []


def test_page_without_scripts_is_whole_and_goes_on(browser: Browser) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        with site(viewed("shop", STREAMING)) as there:
            browser.open(there.origin)
            assert ("button", "Pause") not in browser.read_aloud()
            there.views[0] = viewed("shop", STATES["Kafka away"])

            wait_until(lambda: ("heading", "shop Kafka does not answer") in browser.read_aloud(), "the new state", 30.0)
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)
