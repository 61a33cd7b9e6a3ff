"""Bytes, seconds and moments as a person reads them."""

from datetime import UTC, datetime

_STEPS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def bytes_text(count: int) -> str:
    """``0 B``, ``999 B``, ``12.3 kB``, ``4.6 GB``: powers of 1000, three figures."""
    value, step = float(count), 0
    while abs(value) >= 999.5 and step < len(_STEPS) - 1:
        value, step = value / 1000, step + 1
    return f"{count} B" if step == 0 else f"{value:.{1 if abs(value) < 99.95 else 0}f} {_STEPS[step]}"


def seconds_text(seconds: float) -> str:
    """``0.2 s``, ``59 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for large, small, large_name, small_name in _PAIRS:
        if whole >= large:
            return f"{whole // large} {large_name} {whole % large // small} {small_name}"
    return f"{whole} s"


_PAIRS = ((86_400, 3_600, "d", "h"), (3_600, 60, "h", "min"), (60, 1, "min", "s"))


_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


_DIGITS_MAX = 5
"""No program waits for longer than 99,999 days: Python itself cannot."""


def duration_s(text: str) -> int:
    """Seconds of ``90s``, ``15m``, ``1h``, ``1d``.

    Raises:
        ValueError: it is none of these, or nothing.
    """
    number, unit = text[:-1], text[-1:]
    if len(number) > _DIGITS_MAX:
        raise ValueError("no wait takes that long")
    if not (number.isascii() and number.isdigit() and unit in _UNITS_S) or int(number) == 0:
        raise ValueError("say a whole number and s, m, h or d, as in 1h")
    return int(number) * _UNITS_S[unit]


def moment_text(moment: datetime) -> str:
    """``2026-01-31 12:00:05Z``."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
