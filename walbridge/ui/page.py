"""The status page of one pipeline, and the list of several. Pure.

In: a ``View``. Out: HTML with neither row values nor secrets (I10), since it shows what ``walbridge status`` shows.
All styles and the script are in files of their own, so that the page needs no exception from its security policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from walbridge.quantities import bytes_text, moment_text, seconds_text
from walbridge.schemas.position import format_lsn
from walbridge.status.pipeline_status import Lag, PipelineStatus, Silent
from walbridge.status.show import prepared_lines, room_text
from walbridge.status.words import word_lines
from walbridge.ui.history import Event, Point, Rates, programs
from walbridge.ui.markup import NOTHING, Html, join, tag
from walbridge.ui.plot import Series, plot
from walbridge.ui.verdict import GOOD, MARKS, OFF, TableRow, Verdict, table_rows, verdict

TABLES_SHOWN_MAX = 200
REFRESH_S, PATIENCE_S = 5, 15
"""How often an open page asks for the newest, and for how long it waits for that."""
OLD_S = 60.0
"""The page says how old the status is, if it is older."""
NOT_LOOKED_YET = Verdict(OFF, "the first look is not done yet")
_SIXTIETHS = (1, 2, 5, 10, 20, 30)
_TIMES_S = (*_SIXTIETHS, *(60 * each for each in _SIXTIETHS), *(3600 * each for each in (1, 2, 6, 12, 24)))


@dataclass(frozen=True, slots=True)
class View:
    """What is known of one pipeline. ``status`` is None before the first look."""

    name: str
    status: PipelineStatus | None = None
    points: Sequence[Point] = ()
    events: Sequence[Event] = ()
    rates: Rates = field(default_factory=Rates)

    @property
    def verdict(self) -> Verdict:
        return NOT_LOOKED_YET if self.status is None else verdict(self.status)


def list_page(views: Sequence[View], now: datetime) -> Html:
    """The page that lists all pipelines, one on each line."""
    items = (
        tag("li", tag("a", each.name, href=f"/p/{each.name}"), _badge(each.verdict), _lags(each)) for each in views
    )
    return _document(None, views, join(tag("h1", "Pipelines"), tag("ul", *items, class_="pipelines")), now)


def pipeline_page(view: View, views: Sequence[View], now: datetime) -> Html:
    """The page of one pipeline."""
    if view.status is None:
        return _document(view, views, _heading(view, now), now)
    body = join(
        _heading(view, now),
        _section("flow", "Flow", _flow(view, view.status)),
        _section("tables", "Tables", _tables(table_rows(view.status))),
        _section("day", "Last day", _plots(view.points, now)),
        _section("trouble", "What went wrong", _events(view.events)),
        _section("programs", "Programs", _programs(view.status)),
    )
    return _document(view, views, body, now)


def _document(shown: View | None, views: Sequence[View], body: Html, now: datetime) -> Html:
    """A whole HTML document. ``shown``: the pipeline that the page is of; None for the list of pipelines."""
    announcement = _announcement([view for view in views if view.verdict.level != GOOD] if shown is None else [shown])
    nav = tag("nav", tag("ul", *(tag("li", _link(each, each is shown)) for each in views)), aria_label="Pipelines")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "walbridge" if shown is None else announcement),
        tag("link", rel="stylesheet", href="/style.css"),
        tag("noscript", tag("meta", http_equiv="refresh", content=str(2 * REFRESH_S))),
        tag("script", src="/page.js", defer=True),
    )
    top = tag(
        "header",
        tag("a", "walbridge", href="/", class_="home"),
        nav if len(views) > 1 else NOTHING,
        tag("button", "Pause", type="button", id="pause", hidden=True),
    )
    page = join(
        tag("a", "Skip to the content", href="#page", class_="skip"),
        top,
        tag("p", announcement, id="told", role="status", class_="unseen"),
        tag("main", body, id="page", tabindex="-1", data_refresh=str(REFRESH_S), data_patience=str(PATIENCE_S)),
        tag("footer", f"As of {moment_text(now)}, read only. Times are UTC.", id="foot"),
    )
    return join(Html("<!doctype html>"), tag("html", head, tag("body", page), lang="en"))


def _announcement(views: Sequence[View]) -> str:
    """The text that a screen reader reads aloud when it changes."""
    return "; ".join(f"{each.name}: {each.verdict.text}" for each in views) or "all pipelines are streaming"


def _link(view: View, is_shown: bool) -> Html:
    mark = tag("span", MARKS[view.verdict.level], aria_hidden="true")
    return tag("a", mark, f" {view.name}", href=f"/p/{view.name}", aria_current="page" if is_shown else None)


def _badge(found: Verdict) -> Html:
    mark = tag("span", MARKS[found.level], aria_hidden="true", class_="mark")
    return tag("span", mark, found.text, class_=f"badge {found.level}")


def _lags(view: View) -> Html:
    status = view.status
    if status is None:
        return NOTHING
    return tag("span", f"Kafka {_behind(status.kafka_lag)}, lake {_behind(status.lake_lag)}", class_="lags")


def _heading(view: View, now: datetime) -> Html:
    found, status = view.verdict, view.status
    remedy = tag("p", "What mends it: ", tag("code", found.remedy), class_="remedy") if found.remedy else NOTHING
    age_s = 0.0 if status is None else (now - status.at).total_seconds()
    old = tag("p", f"The last look was {seconds_text(age_s)} ago.", class_="old") if age_s > OLD_S else NOTHING
    return tag("div", tag("h1", view.name, " ", _badge(found)), remedy, old, class_="heading")


def _section(name: str, heading: str, *body: Html) -> Html:
    return tag("section", tag("h2", heading, id=f"{name}-h"), *body, aria_labelledby=f"{name}-h", class_=name)


# -- the flow --------------------------------------------------------------------------------------


def _flow(view: View, status: PipelineStatus) -> Html:
    words = dict(programs(status))
    parts = (
        _node("Postgres", *_postgres(status, view.rates)),
        _program("producer", words["producer"], view.rates.kafka),
        _node("Kafka", *_kafka(status)),
        _program("Spark job", words["Spark job"], view.rates.lake),
        _node("lake", *_lake(status)),
    )
    return tag("ol", *parts)


def _node(name: str, level: str, *lines: str) -> Html:
    return tag("li", tag("h3", name), *(tag("p", line) for line in lines if line), class_=f"node {level}")


def _program(name: str, words: object, rate: float | None) -> Html:
    running = getattr(words, "is_running", None)
    known = not isinstance(words, Silent)
    state = "runs" if running else "does not run" if known else "not known"
    level = "good" if running else "off" if known else "unknown"
    moved = "" if rate is None or not running else f"{_rate_text(rate)} moved"
    return tag("li", tag("h3", name), tag("p", state), tag("p", moved) if moved else NOTHING, class_=f"program {level}")


def _postgres(status: PipelineStatus, rates: Rates) -> tuple[str, ...]:
    source = status.source
    if isinstance(source, Silent):
        return "bad", "does not answer"
    slot = source.slot
    written = "" if rates.wal is None else f"{_rate_text(rates.wal)} of WAL written"
    at = f"at {format_lsn(source.wal_lsn)}"
    if slot is None:
        return "attention", at, written, "no slot"
    held = "slot holds no WAL" if slot.retained_bytes is None else f"slot holds {bytes_text(slot.retained_bytes)}"
    level = {"lost": "bad", "unreserved": "bad"}.get(slot.wal_status or "", "good")
    return level, at, written, held, room_text(slot), *prepared_lines(source)


def _kafka(status: PipelineStatus) -> tuple[str, ...]:
    if isinstance(status.published, Silent):
        return "bad", "does not answer"
    cut = status.published.cut
    if cut is None:
        return "off", "no cut yet"
    return "good", f"at {format_lsn(cut.end_lsn)}", _behind(status.kafka_lag), f"cut {cut.cut_id:,}"


def _lake(status: PipelineStatus) -> tuple[str, ...]:
    if isinstance(status.lake, Silent):
        return ("bad", "does not answer") if status.lake.away else ("unknown", "not looked at from here")
    if status.lake_is_foreign:
        return "bad", f"belongs to pipeline {status.lake.pipeline}"
    cut = status.lake_cut
    if cut is None:
        return "off", "nothing is published yet"
    return "good", f"at {format_lsn(cut.end_lsn)}", _behind(status.lake_lag), f"cut {cut.cut_id:,}"


def _behind(lag: Lag) -> str:
    if lag.wal_bytes is None or lag.seconds is None:
        return "lag not known"
    return "up to date" if lag.wal_bytes == 0 else f"{seconds_text(lag.seconds)} behind ({bytes_text(lag.wal_bytes)})"


def _rate_text(rate: float) -> str:
    return f"{bytes_text(round(rate))}/s"


# -- tables ----------------------------------------------------------------------------------------


def _tables(rows: Sequence[TableRow]) -> Html:
    if not rows:
        return tag("p", "No table is known yet.")
    shown = rows[:TABLES_SHOWN_MAX]
    head = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in ("table", "state", "since", "why"))))
    table = tag("table", head, tag("tbody", *map(_table, shown)))
    more = (
        f"{len(rows) - len(shown):,} more tables are not shown: walbridge tables has all." if rows[len(shown) :] else ""
    )
    scrolled = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="List of tables")
    return join(tag("p", _counts(rows), class_="counts"), scrolled, tag("p", more) if more else NOTHING)


def _counts(rows: Sequence[TableRow]) -> str:
    states: dict[str, int] = {}
    for row in rows:
        states[row.state] = states.get(row.state, 0) + 1
    return ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))


def _table(row: TableRow) -> Html:
    level = "busy" if row.is_copied else "good" if row.state in ("current", "archive") else "attention"
    name = tag("th", row.name, scope="row")
    mark = tag("span", MARKS[level], aria_hidden="true", class_="mark")
    state = tag("td", tag("span", mark, row.state, class_=f"badge {level}"), _progress(row), data_label="state")
    since = tag("td", row.since or "", data_label="since")
    return tag("tr", name, state, since, tag("td", row.why or "", data_label="why"))


def _progress(row: TableRow) -> Html:
    if row.rows is None:
        return NOTHING
    again = "copied again, " if row.state in ("current", "archive") else ""
    share = "" if row.share is None else f"about {row.share:.0%}, "
    bar = NOTHING
    if row.share is not None:
        bar = tag("progress", value=f"{row.share:.3f}", max="1", aria_label=f"{row.name}: copied")
    return tag("div", bar, tag("small", f"{again}{share}{row.rows:,} rows"), class_="progress")


# -- the last day ----------------------------------------------------------------------------------


def _plots(points: Sequence[Point], now: datetime) -> Html:
    kafka = Series("Kafka", 1, [(each.at, each.kafka_lag_s) for each in points])
    lake = Series("lake", 2, [(each.at, each.lake_lag_s) for each in points])
    written = Series("written by Postgres", 1, [(each.at, each.wal_rate) for each in points])
    published = Series("published in the lake", 2, [(each.at, each.lake_rate) for each in points])
    held = Series("held by the slot", 1, [(each.at, each.slot_bytes) for each in points])
    return join(
        plot("Behind the server", [kafka, lake], now, seconds_text, _TIMES_S, _short_time),
        plot("WAL a second", [written, published], now, _rate_text, (1000.0,)),
        plot("WAL that the slot holds", [held], now, lambda value: bytes_text(round(value)), (1_000_000.0,)),
    )


def _short_time(seconds: float) -> str:
    """``50 s``, ``1.7 min``, ``14 h``: one number."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


# -- words -----------------------------------------------------------------------------------------


def _events(events: Sequence[Event]) -> Html:
    if not events:
        return tag("p", "Nothing, as far as this page has seen since it was started.")
    return tag("ol", *map(_event, events))


def _event(event: Event) -> Html:
    at = tag("time", moment_text(event.at), datetime=event.at.astimezone(UTC).isoformat())
    remedy = tag("p", "What mends it: ", tag("code", event.remedy), class_="remedy") if event.remedy else NOTHING
    return tag("li", tag("p", at, " ", tag("strong", event.who), f" {event.what}"), remedy)


def _programs(status: PipelineStatus) -> Html:
    parts: list[Html] = []
    for name, words in programs(status):
        lines = [words.reason] if isinstance(words, Silent) else list(word_lines(words, status.at))
        if lines or name != "verify":
            parts += [tag("dt", name), *(tag("dd", line) for line in lines or ["never ran, as far as is known"])]
    return tag("dl", *parts)
