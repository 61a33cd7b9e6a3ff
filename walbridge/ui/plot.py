"""Lines over the last day as inline SVG. Pure.

In: series of (moment, value), the moment of now. Out: a figure with a scale, times in UTC, a legend, and one sentence
for those who do not see it. It begins where something is known. Where a value is not known the line has a gap.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from walbridge.ui.markup import Html, join, tag

WIDTH, HEIGHT = 400, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 24, 12, 28
"""Room for the widest value of a scale, and for half a time of day."""
DAY = timedelta(days=1)
_LEAST = timedelta(hours=1)
_STEPS = tuple(timedelta(minutes=each) for each in (15, 30, 60, 120, 360))
_STEPS_MAX = 5
_GAP = timedelta(minutes=3)
Value = float | int | None


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot. ``kind``: the number of its style in style.css, 1 or 2."""

    name: str
    kind: int
    values: Sequence[tuple[datetime, Value]]

    @property
    def known(self) -> list[tuple[datetime, float]]:
        return [(at, float(value)) for at, value in self.values if value is not None]


def plot(
    title: str,
    series: Sequence[Series],
    now: datetime,
    text: Callable[[float], str],
    tops: Sequence[float],
    steps: Callable[[float], str] | None = None,
) -> Html:
    """A figure. ``text``: formats a value; ``steps``: formats a value of the scale, where that has to be shorter.

    ``tops``: values at which the scale may end, rising; above the last one it ends at 2, 5, 10, 20, … times that.
    """
    begin = _begin([at for each in series for at, value in each.values if value is not None], now)
    shown = [Series(each.name, each.kind, [(at, value) for at, value in each.values if at >= begin]) for each in series]
    top = _round_up(max((value for each in shown for _, value in each.known), default=0.0), tops)
    body = join(*_scale(top, steps or text), *_times(begin, now), *(_line(each, (begin, now), top) for each in shown))
    legend = tag("ul", *(tag("li", _legend(each, text), class_=f"k{each.kind}") for each in shown), class_="legend")
    summary = f"{title} since {begin:%H:%M} UTC. " + " ".join(_sentence(each, text) for each in shown)
    svg = tag("svg", body, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=summary)
    return tag("figure", tag("figcaption", title), svg, legend)


def _scale(top: float, text: Callable[[float], str]) -> list[Html]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = _y(top * share, top)
        parts.append(tag("line", x1=str(_LEFT), x2=str(WIDTH - _RIGHT), y1=y, y2=y, class_="grid"))
        parts.append(tag("text", text(top * share), x=str(_LEFT - 6), y=y, class_="value"))
    return parts


def _begin(known: list[datetime], now: datetime) -> datetime:
    """Where the time axis begins: at the oldest known value, but an hour before now at least, and a day at most."""
    oldest = min(known, default=now)
    return max(now - DAY, min(oldest, now - _LEAST)).astimezone(UTC)


def _times(begin: datetime, now: datetime) -> list[Html]:
    step = next((each for each in _STEPS if (now - begin) / each <= _STEPS_MAX), _STEPS[-1])
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight + step * ((begin - midnight) // step + 1)
    parts = []
    for each in (first + step * n for n in range((now - first) // step + 1)):
        x = _x(each, (begin, now))
        parts.append(tag("line", x1=x, x2=x, y1=str(_TOP), y2=str(HEIGHT - _BOTTOM), class_="grid"))
        parts.append(tag("text", f"{each:%H:%M}", x=x, y=str(HEIGHT - 6), class_="hour"))
    return parts


def _line(series: Series, span: tuple[datetime, datetime], top: float) -> Html:
    path: list[str] = []
    last: datetime | None = None
    for at, value in series.values:
        if value is None:
            last = None
            continue
        joined = last is not None and at - last <= _GAP
        spot = f"{_x(at, span)} {_y(float(value), top)}"
        # A point alone would be no line at all.
        path.append(f"L{spot}" if joined else f"M{spot}h1")
        last = at
    return tag("path", d="".join(path), class_=f"line k{series.kind}") if path else Html("")


def _legend(series: Series, text: Callable[[float], str]) -> str:
    known = series.known
    if not known:
        return f"{series.name}: nothing is known yet"
    last = series.values[-1][1]
    now = "not known now" if last is None else f"{text(last)} now"
    return f"{series.name}: {now}, {text(max(value for _, value in known))} at most"


def _sentence(series: Series, text: Callable[[float], str]) -> str:
    return f"{_legend(series, text)}."


def _x(at: datetime, span: tuple[datetime, datetime]) -> str:
    share = (at - span[0]) / (span[1] - span[0])
    return f"{_LEFT + max(0.0, min(1.0, share)) * (WIDTH - _LEFT - _RIGHT):.1f}"


def _y(value: float, top: float) -> str:
    return f"{HEIGHT - _BOTTOM - value / top * (HEIGHT - _TOP - _BOTTOM):.1f}"


def _round_up(value: float, tops: Sequence[float]) -> float:
    """The smallest end of the scale that is not below the value."""
    top = next((each for each in tops if each >= value), tops[-1])
    while True:
        for factor in (1, 2, 5):
            if top * factor >= value:
                return top * factor
        top *= 10
