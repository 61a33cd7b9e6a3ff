"""Numbers as words: arrays of 64 bits, of which one holds eight bytes of a text or of an encoded value.

In: words of the text of COPY, eight bytes each, the first one lowest. Out: what its digits say, and words that hold the
Avro bytes of numbers. Eight digits are read at a time by three multiplications, and a number's groups of seven bits are
spread over its bytes by three shifts, as C programs do it in one register; here each step is one pass over all rows.
Whatever is no plain number is told to be none, and the caller encodes its row in another way (``rows_by_column.py``).

Source: Avro specification, "Binary Encoding"; Mula and Lemire, "Faster Base64 …" on digits in words.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[Any]
"""Of uint64. To numpy's own types, which are not right there, ``words & 1`` would be signed."""
Sizes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

WORD = 8
DIGITS_MAX = 18
"""All numbers of so many digits fit into 63 bits."""
_ALL = (1 << 64) - 1
_ZEROS = 0x3030303030303030
_BEYOND_NINE = 0x7676767676767676
_HIGH_BITS = 0x8080808080808080
_LAST_BYTES = {
    done: np.array(
        [_ALL << (WORD - min(max(count - done, 0), WORD)) * 8 & _ALL for count in range(DIGITS_MAX + 2)], np.uint64
    )
    for done in range(0, DIGITS_MAX, WORD)
}
"""By the number of digits that were read already, and by the count of all: the mask of those at a word's end."""
_CONTINUED = np.array([sum(0x80 << 8 * n for n in range(size - 1)) & _ALL for size in range(11)], np.uint64)
"""By the size of a number, the bits that say that a byte is not its last."""
_VARINT_SIZES = [1 << 7 * groups for groups in range(1, 10)]
_SIGNED_SIZES = [1 << 8 * size - 1 for size in range(1, 8)]
_TO_THE_FRONT = np.array([0, *((WORD - n) * 8 for n in range(1, WORD + 1))], np.uint64)
_VALUE = 0x02


class Number(NamedTuple):
    """``value``: 0 where ``is_plain`` is false."""

    value: Words
    is_plain: Flags


class Piece(NamedTuple):
    """The first ``sizes`` bytes of each word, 8 at the most."""

    words: Words
    sizes: Sizes


def no_digits(words: Words) -> Words:
    """Not zero where one of these bytes, from which the character 0 was taken by an exclusive or, is no digit."""
    return ((words + _BEYOND_NINE) | words) & _HIGH_BITS


def eight_digits(digits: Words) -> Words:
    """The number of eight digits, one in each byte, as numbers from 0 to 9."""
    pairs = (digits * 10 + (digits >> 8)) & 0x00FF00FF00FF00FF
    fours = (pairs * 100 + (pairs >> 16)) & 0x0000FFFF0000FFFF
    number: Words = (fours * 10_000 + (fours >> 32)) & 0xFFFFFFFF
    return number


def number_before(source: Words, ends: Sizes, counts: Sizes) -> Number:
    """What ``counts`` digits before ``ends`` say; plain are 1 to ``DIGITS_MAX`` of them.

    Args:
        source: the word at each byte of a text.
    """
    is_plain = (counts >= 1) & (counts <= DIGITS_MAX)
    if not is_plain.all():
        counts = np.where(is_plain, counts, 1)
    value, most = np.zeros(len(ends), np.uint64), int(counts.max(initial=1))
    for done in range(0, most, WORD):
        digits = (source[ends - (done + WORD)] ^ _ZEROS) & _LAST_BYTES[done][counts]
        is_plain &= no_digits(digits) == 0
        value += eight_digits(digits) * 10**done
    if not is_plain.all():
        value[~is_plain] = 0
    return Number(value, is_plain)


def zigzag(values: npt.NDArray[np.int64]) -> Words:
    """As Avro numbers integers: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def varint_pieces(numbers: Words) -> list[Piece]:
    """The branch of a value, and a number below 2^63 in base 128."""
    most = int(numbers.max(initial=0))
    sizes = _sizes(numbers, _VARINT_SIZES, most)
    low = numbers & ((1 << 56) - 1)
    for limit, kept, moved, by in _SPREADING:
        if most >= limit:
            low = (low & kept) | ((low & moved) << by)
    low |= _CONTINUED[sizes]
    pieces = [Piece((low << 8) | _VALUE, np.minimum(sizes + 1, WORD))]
    if most >= _VARINT_SIZES[6]:
        rest = low >> 56
        if most >= 1 << 56:
            rest |= (numbers >> 56) << 8  # a byte that is the last one: numbers have 63 bits
        pieces.append(Piece(rest, np.maximum(sizes + 1 - WORD, 0)))
    return pieces


_SPREADING = (
    (1 << 28, 0x0FFFFFFF, 0xFFFFFFF0000000, 4),
    (1 << 14, 0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
    (1 << 7, 0x007F007F007F007F, 0x3F803F803F803F80, 1),
)
"""From 56 bits to two groups of 28, four of 14, eight of 7; each is only needed for numbers from a limit on."""


def signed_pieces(numbers: Words, is_negative: Flags) -> list[Piece]:
    """The branch of a value, and a number as bytes of its own length, the most significant first: a decimal."""
    most = int(numbers.max(initial=0))
    sizes = _sizes(numbers, _SIGNED_SIZES, most)
    signed = np.where(is_negative, ~numbers + 1, numbers)
    front = signed.byteswap() >> _TO_THE_FRONT[sizes]
    head = (sizes.astype(np.uint64) << 9) | _VALUE
    pieces = [Piece((front << 16) | head, np.minimum(sizes + 2, WORD))]
    if most >= _SIGNED_SIZES[5]:
        pieces.append(Piece(front >> 48, np.maximum(sizes + 2 - WORD, 0)))
    return pieces


def _sizes(numbers: Words, limits: list[int], most: int) -> Sizes:
    """1, and one more for each limit that a number reaches."""
    sizes = np.ones(len(numbers), np.int64)
    for limit in limits:
        if most < limit:
            break
        sizes += numbers >= limit
    return sizes
