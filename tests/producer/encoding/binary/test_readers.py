"""Readers of binary values on bytes that no server sends, and where servers differ."""

from __future__ import annotations

import contextlib
import struct
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from walbridge.producer.encoding.binary import floats, types
from walbridge.producer.encoding.binary.floats import double_text, float_text
from walbridge.producer.encoding.binary.reader import Reader
from walbridge.producer.encoding.binary.types import BinaryFacts, TypeReaders
from walbridge.schemas.errors import OperatorError, ProtocolError

MALFORMED = (ProtocolError, IndexError, KeyError, ValueError, struct.error, OverflowError, RecursionError)
"""What the transcoder makes a ProtocolError of."""
OWN = sorted(types._READERS)
COMPOSITE, RANGE, MULTIRANGE, ARRAY, INT4 = 1, 2, 3, 4, 5
HOLDING = {
    COMPOSITE: BinaryFacts(COMPOSITE, "pair", ("", "record_out"), ("", "record_send"), fields=(INT4, ARRAY)),
    RANGE: BinaryFacts(RANGE, "int4range", ("", "range_out"), ("", "range_send"), subtype=INT4),
    MULTIRANGE: BinaryFacts(
        MULTIRANGE, "int4multirange", ("", "multirange_out"), ("", "multirange_send"), subtype=RANGE
    ),
    ARRAY: BinaryFacts(ARRAY, "integer[]", ("", "array_out"), ("", "array_send"), element=INT4),
    INT4: BinaryFacts(INT4, "integer", ("", "int4out"), ("", "int4send")),
}


def readers(server_version: int = 180000, facts: dict[int, BinaryFacts] = HOLDING) -> TypeReaders:
    return TypeReaders(lambda oids: facts, server_version)


def reader_of(output: str, server_version: int) -> Reader:
    ((functions, _),) = [each for each in types._READERS.items() if each[0][0][1] == output]
    return readers(server_version, {1: BinaryFacts(1, output, *functions)})[1]


@pytest.mark.parametrize("functions", OWN, ids=lambda each: each[0][1])
@settings(max_examples=examples(30), deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_text_or_malformed(functions: tuple[types.Function, types.Function], data: bytes) -> None:
    with contextlib.suppress(*MALFORMED):
        assert isinstance(types._READERS[functions](data), bytes)


@pytest.mark.parametrize("oid", [COMPOSITE, RANGE, MULTIRANGE, ARRAY])
@settings(max_examples=examples(60), deadline=None)
@given(
    data=st.binary(max_size=60)
    | st.lists(st.integers(-2, 5), max_size=12).map(lambda n: struct.pack(f">{len(n)}i", *n))
)
def test_any_bytes_are_a_container_or_malformed(oid: int, data: bytes) -> None:
    with contextlib.suppress(*MALFORMED, OperatorError):  # the latter: an oid that no catalogue has
        assert isinstance(readers()[oid](data), bytes)


def test_count_of_elements_that_are_not_there_takes_no_time() -> None:
    """I9"""
    many = 2**31 - 1
    dimensions = struct.pack(">iiI", 6, 0, INT4) + struct.pack(">ii", many, 1) * 6
    started_s = time.monotonic()
    for oid, data in ((ARRAY, dimensions), (COMPOSITE, struct.pack(">i", many)), (MULTIRANGE, struct.pack(">i", many))):
        with pytest.raises(MALFORMED):
            readers()[oid](data)
    assert time.monotonic() - started_s < 20  # two billion of them take minutes


@pytest.mark.parametrize("output", ["vector_out", "halfvec_out"])
def test_vector_without_numbers_is_malformed(output: str) -> None:
    """pgvector has none, and Avro would end such a list twice."""
    with pytest.raises(ValueError, match="another form"):
        reader_of(output, 180000)(bytes(4))


def test_arrays_in_arrays_without_end_are_malformed() -> None:
    """No type is so; the bytes could be."""
    data = b""
    for _ in range(2_000):
        data = struct.pack(">iiIiii", 1, 0, ARRAY, 1, 1, len(data)) + data
    with pytest.raises(MALFORMED):
        readers()[ARRAY](data)


@pytest.mark.parametrize(("version", "text"), [(160013, b"178956970 years 7 mons"), (170000, b"infinity")])
def test_greatest_interval_is_infinity_from_postgres_17_on(version: int, text: bytes) -> None:
    value = struct.pack(">qii", 2**63 - 1, 2**31 - 1, 2**31 - 1)

    assert reader_of("interval_out", version)(value).startswith(text)


@pytest.mark.parametrize(("version", "text"), [(150000, b"\xe9"), (160000, b"\\351")])
def test_char_beyond_ascii_is_octal_from_postgres_16_on(version: int, text: bytes) -> None:
    assert reader_of("charout", version)(b"\xe9") == text


@given(st.floats(allow_nan=False))
def test_text_of_a_double_is_read_as_the_same_double(number: float) -> None:
    assert struct.pack("<d", float(double_text(number))) == struct.pack("<d", number)


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False))
def test_text_of_a_float_is_read_as_the_same_float(number: float) -> None:
    assert struct.pack("<f", float(float_text(number))) == struct.pack("<f", number)


@settings(deadline=None, max_examples=examples(300))
@given(st.floats(width=32, min_value=0, exclude_min=True, allow_infinity=False))
def test_quick_way_to_the_shortest_digits_of_a_float_is_the_exact_one(number: float) -> None:
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    below, above = (floats._float_of(bits + step) for step in (-1, 1))

    quick = floats._rounded(below, number, above)

    assert quick in (None, floats._shortest(Fraction(below), Fraction(number), Fraction(above)))


def test_digits_half_way_between_two_doubles_are_not_taken() -> None:
    """As Postgres, unlike repr: 1e23 is as near to the double below as to the one above."""
    assert repr(1e23) == "1e+23"
    assert double_text(1e23) == b"9.999999999999999e+22"


def test_function_of_somebody_else_is_not_taken_for_postgres_own() -> None:
    """I7"""
    foreign = {1: BinaryFacts(1, "public.mine", ("?", "int4out"), ("", "int4send"))}
    with pytest.raises(OperatorError, match=r"public\.mine"):
        readers(facts=foreign)[1]
