"""Dates, times and intervals: binary format to the text that Postgres prints.

In: one value as its type's send function wrote it, counted from 2000. Out: its text under DateStyle
ISO, IntervalStyle postgres and TimeZone UTC, which are pinned. Years may be negative, or of seven
digits, so no calendar of Python's will do. Source: PostgreSQL ``datetime.c``.
"""

from struct import Struct

_INT32, _INT64 = Struct(">i"), Struct(">q")
_TIMETZ, _INTERVAL = Struct(">qi"), Struct(">qii")
_DAY_US, _SECOND_US = 86_400_000_000, 1_000_000
_INFINITIES_32 = {2**31 - 1: b"infinity", -(2**31): b"-infinity"}
_INFINITIES_64 = {2**63 - 1: b"infinity", -(2**63): b"-infinity"}
_INFINITE_INTERVALS = {
    (2**63 - 1, 2**31 - 1, 2**31 - 1): b"infinity",
    (-(2**63), -(2**31), -(2**31)): b"-infinity",
}
_ERA_DAYS = 146_097
"""400 years."""
_TO_2000 = 730_425
"""Days from the first of March of the year 0."""


def text_of_date(data: bytes) -> bytes:
    (days,) = _INT32.unpack(data)
    if days in _INFINITIES_32:
        return _INFINITIES_32[days]
    day, era = _day(days)
    return (day + era).encode()


def text_of_timestamp(data: bytes) -> bytes:
    return _timestamp(data, "")


def text_of_timestamptz(data: bytes) -> bytes:
    return _timestamp(data, "+00")


def _timestamp(data: bytes, zone: str) -> bytes:
    (at_us,) = _INT64.unpack(data)
    if at_us in _INFINITIES_64:
        return _INFINITIES_64[at_us]
    days, of_day_us = divmod(at_us, _DAY_US)
    day, era = _day(days)
    return f"{day} {_clock(of_day_us)}{zone}{era}".encode()


def _day(days: int) -> tuple[str, str]:
    """Date and era by the Gregorian calendar, extended to both sides; the sums let a year begin in March."""
    eras, of_era = divmod(days + _TO_2000, _ERA_DAYS)
    years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    march = (5 * of_year + 2) // 153
    day, month = of_year - (153 * march + 2) // 5 + 1, march + 3 if march < 10 else march - 9
    year = 400 * eras + years + (month <= 2)
    # There is no year 0: before 1 comes 1 BC.
    return f"{year if year > 0 else 1 - year:04}-{month:02}-{day:02}", "" if year > 0 else " BC"


def _clock(of_day_us: int) -> str:
    seconds, micros = divmod(of_day_us, _SECOND_US)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_decimals(micros)}"


def _decimals(micros: int) -> str:
    return f".{micros:06}".rstrip("0") if micros else ""


def text_of_time(data: bytes) -> bytes:
    return _clock(_INT64.unpack(data)[0]).encode()


def text_of_timetz(data: bytes) -> bytes:
    """The zone counts seconds to the west; minutes and seconds are shown where there are some."""
    of_day_us, west_s = _TIMETZ.unpack(data)
    hours, minutes, seconds = abs(west_s) // 3600, abs(west_s) // 60 % 60, abs(west_s) % 60
    zone = f"{'+' if west_s <= 0 else '-'}{hours:02}"
    if minutes or seconds:
        zone += f":{minutes:02}"
    return f"{_clock(of_day_us)}{zone}{f':{seconds:02}' if seconds else ''}".encode()


def text_of_interval(data: bytes) -> bytes:
    """From Postgres 17 on, where the ends of the range are infinities."""
    return _INFINITE_INTERVALS.get(_INTERVAL.unpack(data)) or text_of_interval_before_17(data)


def text_of_interval_before_17(data: bytes) -> bytes:
    """``1 year -2 mons +3 days 04:05:06``: a sign is shown where it differs from that of the part before."""
    time_us, days, months = _INTERVAL.unpack(data)
    years = abs(months) // 12 * (1 if months > 0 else -1)
    parts: list[str] = []
    was_negative = False
    for value, unit in ((years, "year"), (months - 12 * years, "mon"), (days, "day")):
        if value:
            plus = "+" if was_negative and value > 0 else ""
            parts.append(f"{plus}{value} {unit}{'' if value == 1 else 's'}")
            was_negative = value < 0
    if time_us or not parts:
        sign = "-" if time_us < 0 else "+" if was_negative else ""
        parts.append(sign + _clock(abs(time_us)))
    return " ".join(parts).encode()
