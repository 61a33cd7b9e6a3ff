"""Positions order events as their transactions were committed (I4); LSNs read as Postgres prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position, format_lsn, parse_lsn


@given(st.integers(0, 2**64 - 1))
def test_printed_lsn_is_parsed_back(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


@pytest.mark.parametrize(
    ("text", "lsn"), [("0/0", 0), ("16/B374D848", 0x16B374D848), ("16/b374d848", 0x16B374D848), ("1/0", 2**32)]
)
def test_lsn_is_two_hexadecimal_halves(text: str, lsn: int) -> None:
    assert parse_lsn(text) == lsn


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "0",
        "0/",
        "/0",
        "0/0/0",
        "g/0",
        "-1/0",
        "+1/0",
        " 1/0",
        "1/0\n",
        "0x1/0",
        "1_0/0",
        "1/100000000",
        "１/0",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="not an LSN"):
        parse_lsn(text)


@pytest.mark.parametrize("lsn", [-1, 2**64])
def test_number_of_more_than_64_bits_is_not_printed(lsn: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        format_lsn(lsn)


def test_copied_rows_come_before_all_events_of_the_same_lsn_and_after_earlier_ones() -> None:
    copied = Position(Lsn(7), COPIED_ORDINAL)

    assert Position(Lsn(6), 10**9) < copied < Position(Lsn(7), 0) < Position(Lsn(7), 1) < Position(Lsn(8), 0)
