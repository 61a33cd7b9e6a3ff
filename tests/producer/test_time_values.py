"""Dates and timestamps: Postgres' text to Avro, and what lies outside of the years 1 to 9999."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.producer.encoded_values import is_exceptional, through


@given(st.dates())
@example(date(1, 1, 1))
@example(date(9999, 12, 31))
@example(date(1582, 10, 10))  # a day that the Julian calendar left out; Postgres' is proleptic
def test_any_date_from_year_1_to_9999_reads_back(day: date) -> None:
    assert day == through("date", day.isoformat())


@given(st.datetimes())
@example(datetime(1, 1, 1))
@example(datetime(9999, 12, 31, 23, 59, 59, 999_999))
@example(datetime(1969, 12, 31, 23, 59, 59, 999_999))
def test_any_timestamp_from_year_1_to_9999_reads_back(at: datetime) -> None:
    # Postgres prints as many decimals as there are, and none for none.
    text = at.isoformat(" ").rstrip("0") if at.microsecond else at.isoformat(" ")

    assert at == through("timestamp", text)
    assert at.replace(tzinfo=UTC) == through("timestamptz", text + "+00")


@pytest.mark.parametrize("decimals", range(7))
def test_every_number_of_decimals_of_a_second_is_understood(decimals: int) -> None:
    text = "2024-02-29 13:14:15" + (f".{'123456'[:decimals]}" if decimals else "")
    micros = int("123456"[:decimals].ljust(6, "0"))

    assert datetime(2024, 2, 29, 13, 14, 15, micros) == through("timestamp", text)


def test_values_of_one_minute_are_told_apart() -> None:
    """Minutes are cached: their seconds must not be."""
    start = datetime(2024, 1, 1)
    for second in (0, 59, 1):
        at = start + timedelta(seconds=second)
        assert at == through("timestamp", at.isoformat(" "))


OUTSIDE = ["infinity", "-infinity", "10000-01-01", "5874897-12-31", "0001-12-31 BC", "4713-01-01 BC"]


@pytest.mark.parametrize("text", OUTSIDE)
def test_date_outside_year_1_to_9999_is_exceptional(text: str) -> None:
    through("date", text[:10]) if text[:4].isdigit() and text[4] == "-" else None  # its day may be cached
    assert is_exceptional("date", text)


@pytest.mark.parametrize("name", ["timestamp", "timestamptz"])
@pytest.mark.parametrize(
    "text",
    ["infinity", "-infinity", "10000-01-01 00:00:00", "294276-12-31 23:59:59.999999", "0001-12-31 23:59:59 BC",
     "0044-03-15 12:00:00.123456 BC"],
)  # fmt: skip
def test_timestamp_outside_year_1_to_9999_is_exceptional(name: str, text: str) -> None:
    if text.endswith(" BC"):  # its minute may be cached
        through("timestamp", text[:-3])
    zone = "+00" if name == "timestamptz" and text[-1].isdigit() else ""
    assert is_exceptional(name, text.replace(" BC", "+00 BC") if name == "timestamptz" else text + zone)
