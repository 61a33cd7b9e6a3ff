"""The page: whole in each state, all text escaped, and to be read without seeing it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from tests.walbridge.ui.statuses import JOB_FAILED, KAFKA_AWAY, NOW, STATES, STREAMING, later
from walbridge.producer.postgres.slots.slot_row import Prepared, Slot, Source
from walbridge.status.pipeline_status import Lake, PipelineStatus, TableState
from walbridge.ui.history import History, Point
from walbridge.ui.markup import Html, join, tag
from walbridge.ui.page import TABLES_SHOWN_MAX, View, list_page, pipeline_page
from walbridge.ui.plot import Series, plot

VOID = {"meta", "link", "br"}


class Outline(HTMLParser):
    """Elements and attributes; fails where one is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name in names]


def viewed(name: str) -> View:
    history = History()
    for minute in range(5):
        history.add(later(STATES[name], 60 * minute) if minute else STATES[name])
    return View("shop", STATES[name], history.points(), history.events(), history.rates())


def page_of(name: str) -> str:
    view = viewed(name)
    return pipeline_page(view, [view], NOW + timedelta(seconds=240))


@pytest.mark.parametrize("name", STATES)
def test_page_of_each_state_is_whole_and_outlined(name: str) -> None:
    page = Outline(page_of(name))

    assert [element for element, _ in page.elements if element in ("h1", "h2")] == ["h1", *["h2"] * 5]
    assert len(page.named("main")) == 1
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    labelled = [attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes]
    assert {*labelled} <= {*ids}
    assert all(attributes["aria-label"] for attributes in page.named("svg", "progress"))
    assert all("scope" in attributes for attributes in page.named("th"))


@pytest.mark.parametrize("name", STATES)
def test_page_has_no_style_and_no_script_within_and_nothing_from_elsewhere(name: str) -> None:
    page = Outline(page_of(name))

    for element, attributes in page.elements:
        assert element != "style"
        assert not [each for each in attributes if each == "style" or each.startswith("on")]
        for link in (attributes.get("href"), attributes.get("src")):
            assert link is None or link[0] in "/#"
    assert [attributes for attributes in page.named("script") if "src" not in attributes] == []


def test_page_tells_what_the_slot_may_still_hold_and_what_it_waits_for_as_status_does() -> None:
    view = viewed("streaming")
    assert isinstance(view.status, PipelineStatus)
    assert isinstance(view.status.source, Source)
    slot = Slot(77, "unreserved", 23_400_000, 0, 4_000_000, Prepared(2, "<tx>", 60))
    there = replace(view.status, source=replace(view.status.source, slot=slot))

    page = pipeline_page(replace(view, status=there), [view], NOW)

    assert "wal_status unreserved, lost after 0 B more" in page
    assert "prepared and not ended: 2, the oldest &#x27;&lt;tx&gt;&#x27; for 1 min 0 s" in page


def test_names_and_words_of_others_are_text() -> None:
    for name in ("stale", "job failed"):
        page = page_of(name)
        assert not re.search(r"<(i|b|s)>", page)
    assert "public.&lt;b&gt;" in page_of("streaming")
    assert "the slot &lt;s&gt; is lost" in page_of("job failed")


def test_lag_that_is_not_known_is_not_told_as_none() -> None:
    assert "lag not known" in list_page([View("shop", KAFKA_AWAY)], NOW)
    assert "Kafka: nothing is known yet" in page_of("Kafka away")


def test_error_is_told_with_its_remedy() -> None:
    view = viewed("job failed")
    assert view.status == JOB_FAILED
    page = pipeline_page(view, [view], NOW)

    assert page.count("walbridge copy --all</code>") == 2
    assert "ended with an error" in page


def test_old_look_is_told_to_be_old() -> None:
    view = View("shop", STREAMING)

    assert "The last look was" not in pipeline_page(view, [view], NOW + timedelta(seconds=20))
    assert "The last look was 3 min 20 s ago" in pipeline_page(view, [view], NOW + timedelta(seconds=200))


def test_thousands_of_tables_make_a_page_of_bounded_size() -> None:
    """I9, and 500 tables at least are met in practice."""
    tables = tuple(TableState(f"public.t{n:04}", "current", None) for n in range(3000))
    assert isinstance(STREAMING.lake, Lake)
    view = View("shop", replace(STREAMING, lake=replace(STREAMING.lake, tables=tables)))
    page = pipeline_page(view, [view], NOW)

    assert len(Outline(page).named("tr")) == TABLES_SHOWN_MAX + 1
    assert "2,800 more tables are not shown" in page
    assert "3,000 current" in page


def test_several_pipelines_are_listed_with_links_and_verdicts() -> None:
    views = [View("shop", STREAMING), View("crm", KAFKA_AWAY), View("new")]
    page = Outline(list_page(views, NOW))

    links = [attributes["href"] for attributes in page.named("a")]
    assert links.count("/p/crm") == 2
    assert {"streaming", "Kafka does not answer", "the first look is not done yet"} <= {*page.texts}


def test_pipeline_that_nobody_looked_at_yet_says_so() -> None:
    view = View("shop")

    assert "the first look is not done yet" in Outline(pipeline_page(view, [view], NOW)).texts


def test_line_has_a_gap_where_a_value_is_not_known() -> None:
    values = [(NOW - timedelta(minutes=5 - n), value) for n, value in enumerate((1.0, 2.0, None, 3.0, None))]
    figure = plot("Lag", [Series("Kafka", 1, values)], NOW, lambda value: f"{value:g} s", (1.0,))

    (path,) = re.findall(r' d="([^"]*)"', figure)
    assert (path.count("M"), path.count("L")) == (2, 1)
    assert "Kafka: not known now, 3 s at most" in figure
    assert ">5 s</text>" in figure


@pytest.mark.parametrize(
    ("minutes", "begin", "times"),
    [
        (3, "11:00", ["11:15", "11:30", "11:45", "12:00"]),
        (90, "10:30", ["11:00", "11:30", "12:00"]),
        (60 * 20, "16:00", ["18:00", "00:00", "06:00", "12:00"]),
        (60 * 30, "12:00", ["18:00", "00:00", "06:00", "12:00"]),
    ],
)
def test_figure_begins_where_something_is_known_an_hour_ago_at_least(
    minutes: int, begin: str, times: list[str]
) -> None:
    now = NOW.replace(second=0)
    figure = plot("Lag", [Series("Kafka", 1, [(now - timedelta(minutes=minutes), 1.0), (now, 2.0)])], now, str, (1.0,))

    assert f"since {begin} UTC" in figure
    assert re.findall(r'class="hour">([^<]*)<', figure) == times


@pytest.mark.parametrize(
    ("most_s", "scale"),
    [
        (0, ["0 s", "0.5 s", "1 s"]),
        (40, ["0 s", "30 s", "1 min"]),
        (249, ["0 s", "2.5 min", "5 min"]),
        (4000, ["0 s", "1 h", "2 h"]),
        (90_000, ["0 s", "1 d", "2 d"]),
        (900_000, ["0 s", "10 d", "20 d"]),
    ],
)
def test_scale_of_a_lag_ends_at_a_round_time(most_s: float, scale: list[str]) -> None:
    point = Point(NOW, 0.0, most_s, 0, 0, 0)
    page = pipeline_page(View("shop", STREAMING, [point]), [], NOW)

    assert re.findall(r'class="value">([^<]*)<', page)[:3] == scale


def test_lake_of_another_pipeline_is_told_in_the_flow() -> None:
    """It said that nothing is published yet."""
    assert isinstance(STREAMING.lake, Lake)
    view = View("shop", replace(STREAMING, lake=replace(STREAMING.lake, pipeline="other")))

    assert "belongs to pipeline other" in Outline(pipeline_page(view, [view], NOW)).texts


def test_list_tells_of_those_that_do_not_stream() -> None:
    crm = View("crm", KAFKA_AWAY)

    assert "crm: Kafka does not answer" in Outline(list_page([View("shop", STREAMING), crm], NOW)).texts
    assert "all pipelines are streaming" in Outline(list_page([View("shop", STREAMING)], NOW)).texts


def test_markup_escapes_all_but_markup() -> None:
    assert tag("a", "<b>", Html("<i></i>"), href='"&') == '<a href="&quot;&amp;">&lt;b&gt;<i></i></a>'
    assert join("<", None, Html("<")) == "&lt;<"
    assert tag("script", src="/x", defer=True, hidden=False, id=None) == '<script src="/x" defer></script>'
