"""float4 and float8 as Postgres prints them with extra_float_digits = 3.

In: a number. Out: the shortest digits that lie nearer to it than to its neighbours. Postgres takes
no digits half-way between two numbers, though a reader that rounds to even would find the right
one; Python's ``repr`` does, so such digits are looked for again. Source: PostgreSQL ``d2s.c``, ``f2s.c``.
"""

import math
import struct
from fractions import Fraction

_SCIENTIFIC_FROM_FLOAT, _SCIENTIFIC_FROM_DOUBLE = 6, 15
_HALF_WAY_FROM, _HALF_WAY_UNTIL = 2.0**53, 1e41
"""Between these a number of 17 digits may lie half-way between two doubles; elsewhere it takes more."""
_FLOAT_END = 2.0**128


def double_text(number: float) -> bytes:
    """The text that ``float8out`` prints."""
    if special := _special(number):
        return special
    size = abs(number)
    mantissa, _, exponent = repr(size).partition("e")
    whole, _, decimals = mantissa.partition(".")
    digits = (whole + decimals).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + decimals) - len(digits))
    digits = digits.rstrip("0")
    if _HALF_WAY_FROM <= size < _HALF_WAY_UNTIL and _is_half_way(int(digits) * 10 ** (point - len(digits)), size):
        below, above = math.nextafter(size, 0), math.nextafter(size, math.inf)
        digits, point = _shortest(Fraction(below), Fraction(size), Fraction(above))
    return _printed(number, digits, point - 1, _SCIENTIFIC_FROM_DOUBLE)


def float_text(number: float) -> bytes:
    """The text that ``float4out`` prints."""
    if special := _special(number):
        return special
    size = abs(number)
    (bits,) = struct.unpack("<I", struct.pack("<f", size))
    below, above = (_float_of(bits + step) for step in (-1, 1))
    digits, point = _rounded(below, size, above) or _shortest(Fraction(below), Fraction(size), Fraction(above))
    return _printed(number, digits, point - 1, _SCIENTIFIC_FROM_FLOAT)


def _rounded(below: float, size: float, above: float) -> tuple[str, int] | None:
    """The same as ``_shortest`` for a float4: doubles can hold the points half-way to its neighbours.

    None where that cannot tell: neighbours at two distances, or digits that as a double lie half-way.
    """
    if size - below != above - size:
        return None
    low, high = (below + size) / 2, (size + above) / 2
    few = low < float(f"{size:.5e}") < high
    for count in range(1, 7) if few else range(7, 10):
        text = f"{size:.{count - 1}e}"
        read = float(text)
        if low < read < high:
            mantissa, _, exponent = text.partition("e")
            return mantissa.replace(".", "").rstrip("0"), int(exponent) + 1
        if read in (low, high):
            return None
    return None


def _special(number: float) -> bytes | None:
    if number != number:
        return b"NaN"
    if math.isinf(number):
        return b"Infinity" if number > 0 else b"-Infinity"
    if not number:
        return b"-0" if math.copysign(1, number) < 0 else b"0"
    return None


def _float_of(bits: int) -> float:
    (number,) = struct.unpack("<f", struct.pack("<I", bits))
    return _FLOAT_END if math.isinf(number) else float(number)


def _is_half_way(decimal: int, size: float) -> bool:
    number = int(size)
    return any(2 * decimal == number + int(math.nextafter(size, towards)) for towards in (0, math.inf))


def _shortest(below: Fraction, number: Fraction, above: Fraction) -> tuple[str, int]:
    """The fewest digits between the points half-way to both neighbours, and the place of their decimal point.

    Of several such numbers the nearest; of two equally near ones the even one.
    """
    low, high = (below + number) / 2, (number + above) / 2
    point = math.floor(math.log10(number)) + 1  # may be one off: digits are counted afterwards
    for count in range(1, 19):
        unit = Fraction(10) ** (point - count)
        floor = number // unit
        inside = [each for each in (floor, floor + 1) if low < each * unit < high]
        if inside:
            digits = str(min(inside, key=lambda each: (abs(each * unit - number), each & 1)))
            return digits.rstrip("0"), point - count + len(digits)
    raise AssertionError("eighteen digits tell any double from its neighbours")


def _printed(number: float, digits: str, exponent: int, scientific_from: int) -> bytes:
    sign = "-" if number < 0 else ""
    if not -4 <= exponent < scientific_from:
        rest = "." + digits[1:] if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{exponent:+03d}".encode()
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}".encode()
    whole, decimals = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}{'.' + decimals if decimals else ''}".encode()
