"""Dates and timestamps of a column, from text.

In: fields such as ``2026-11-21`` and ``2026-11-21 09:33:04.5+00``. Out: days or microseconds since 1970, and which
fields are plain: of years from 1 to 9999, on a day that there is. Others are infinite, malformed, before Christ or
later than the year 9999, and their rows are encoded in another way (``rows_by_column.py``).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from walbridge.producer.encoding.columns.text_fields import Fields
from walbridge.producer.encoding.columns.words import Flags, Words, eight_digits, no_digits

_DAY_US = 86_400_000_000
_DATE_SIZE, _SECOND_SIZE, _MICROSECOND_SIZE = 10, 19, 26
_UTC = b"+00"
_YEARS = 9999
_MONTHS = np.arange("0001-01", "10000-02", dtype="M8[M]").astype("M8[D]").astype(np.int32)
"""The first day of each month, and of the one after the last."""
_FRACTIONS = np.array(
    [(1 << 8 * min(max(size - _SECOND_SIZE - 1, 0), 6)) - 1 for size in range(_MICROSECOND_SIZE + 1)], np.uint64
)
"""By the size of a timestamp, the mask of the digits after its point, at a word's beginning."""


class Instants(NamedTuple):
    """``values``: 0 where ``is_plain`` is false."""

    values: npt.NDArray[np.int64]
    is_plain: Flags


class _Shape:
    """Eight characters of which some are digits, and the others these."""

    def __init__(self, shape: str) -> None:
        self._zeros = int.from_bytes(shape.encode().replace(b"#", b"0"), "little")
        self._beyond = int.from_bytes(bytes(0x76 if each == "#" else 0x7F for each in shape), "little")

    def pairs(self, words: Words) -> tuple[Words, Words]:
        """Each pair of digits as a number in its first byte; and what is not zero where the shape is another."""
        digits = words ^ self._zeros
        wrong = ((digits + self._beyond) | digits) & 0x8080808080808080
        return digits * 10 + (digits >> 8), wrong


_MONTH_AND_DAY, _TIME = _Shape("##-##-##"), _Shape("##:##:##")


def days(fields: Fields) -> Instants:
    """Since 1970, of dates."""
    values, is_plain = _days(fields)
    return _plain(values, is_plain & (fields.sizes == _DATE_SIZE))


def microseconds(fields: Fields, *, has_zone: bool) -> Instants:
    """Since 1970, of timestamps; ``has_zone``: they end with that of UTC."""
    words, starts = fields.text.words, fields.starts
    of_day, is_plain = _days(fields)
    sizes = fields.sizes - (len(_UTC) if has_zone else 0)
    is_plain &= (sizes == _SECOND_SIZE) | ((sizes > _SECOND_SIZE + 1) & (sizes <= _MICROSECOND_SIZE))
    if has_zone:
        is_plain &= (words[fields.ends - len(_UTC)] & 0xFFFFFF) == int.from_bytes(_UTC, "little")
    is_plain &= (words[starts + _DATE_SIZE] & 0xFF) == ord(" ")
    clock, wrong = _TIME.pairs(words[starts + _DATE_SIZE + 1])
    is_plain &= wrong == 0
    seconds = (clock & 0xFF) * 3600 + (clock >> 24 & 0xFF) * 60 + (clock >> 48 & 0xFF)
    # What follows the digits of the fraction is cut off, so that there are zeros.
    fraction = words[starts + _SECOND_SIZE]
    is_plain &= ((fraction & 0xFF) == ord(".")) | (sizes == _SECOND_SIZE)
    digits = ((fraction >> 8) ^ 0x303030303030) & _FRACTIONS[np.where(is_plain, sizes, 0)]
    is_plain &= no_digits(digits) == 0
    micros = seconds * 1_000_000 + eight_digits(digits << 16)
    return _plain(of_day * _DAY_US + micros.astype(np.int64), is_plain)


def _days(fields: Fields) -> Instants:
    """Of the first ten bytes; ``values`` are any where they are no date."""
    heads = (fields.heads & 0xFFFF) ^ 0x3030
    centuries = (heads * 10 + (heads >> 8)) & 0xFF
    pairs, wrong = _MONTH_AND_DAY.pairs(fields.text.words[fields.starts + 2])
    years, months = centuries * 100 + (pairs & 0xFF), pairs >> 24 & 0xFF
    is_plain = ((wrong | no_digits(heads)) == 0) & (years >= 1) & (years <= _YEARS) & (months >= 1) & (months <= 12)
    numbers = (years * 12 + months - 13).astype(np.int64)
    numbers[~is_plain] = 0
    firsts = _MONTHS[numbers].astype(np.int64)
    values = firsts + ((pairs >> 48) & 0xFF).astype(np.int64) - 1
    return Instants(values, is_plain & (values >= firsts) & (values < _MONTHS[numbers + 1]))


def _plain(values: npt.NDArray[np.int64], is_plain: Flags) -> Instants:
    if not is_plain.all():
        values[~is_plain] = 0
    return Instants(values, is_plain)
