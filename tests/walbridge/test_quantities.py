"""Numbers as a person reads them."""

from datetime import datetime, timedelta, timezone

import pytest

from walbridge.quantities import bytes_text, duration_s, moment_text, seconds_text


@pytest.mark.parametrize("text", ["", "h", "0s", "-1h", "1.5h", "1 h", "1w", "100000d", "nan", "9" * 5000 + "h"])
def test_time_that_is_none_or_that_no_program_waits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"whole number|that long"):
        duration_s(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (12_345, "12.3 kB"),
        (99_949, "99.9 kB"),
        (123_456, "123 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (16 * 2**30, "17.2 GB"),
        (2**63, "9.2 EB"),
    ],
)
def test_bytes_have_three_figures(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (7_500, "2 h 5 min"),
        (86_400 * 3 + 4 * 3_600, "3 d 4 h"),
    ],
)
def test_seconds_have_two_units_at_most(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_moments_are_in_utc() -> None:
    assert moment_text(datetime(2026, 1, 31, 14, 0, 5, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-31 12:00:05Z"
