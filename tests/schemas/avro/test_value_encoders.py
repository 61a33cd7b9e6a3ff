"""Postgres text to Avro bytes, one value at a time; fastavro is the reader."""

import struct
from decimal import Decimal
from io import BytesIO

import fastavro
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.producer.encoded_values import is_exceptional, through, type_named
from tests.schemas.strategies import INT_64, numeric_typmod
from walbridge.schemas.avro.value_encoders import encoder_of


@pytest.mark.parametrize(("text", "value"), [("t", True), ("f", False)])
def test_bool_is_read_from_its_letter(text: str, value: bool) -> None:
    assert value is through("bool", text)


@given(INT_64)
@example(2**63 - 1)
@example(-(2**63))
@example(2**13 - 1)
@example(2**13)
@example(-(2**13))
@example(2**27)
@example(-(2**27) - 1)
def test_any_int8_reads_back(value: int) -> None:
    assert value == through("int8", str(value))


@pytest.mark.parametrize("bits", range(64))
def test_integers_around_every_power_of_two_read_back(bits: int) -> None:
    for value in {sign * (1 << bits) + more for sign in (-1, 1) for more in (-1, 0, 1)}:
        if -(2**63) <= value < 2**63:
            assert value == through("int8", str(value))


def test_integers_are_as_short_as_fastavro_writes_them() -> None:
    """Key bytes choose the partition: another producer of the same key must hash alike (I3)."""
    for value in (0, -1, 63, 64, -64, -65, 8191, 8192, 2**27 - 1, 2**27, 2**41, -(2**41) - 1, 2**63 - 1, -(2**63)):
        out = BytesIO()
        fastavro.schemaless_writer(out, ["null", "long"], value)

        assert out.getvalue() == encoder_of(type_named("int8"))(str(value).encode())


def test_largest_oid_is_no_negative_number() -> None:
    assert through("oid", "4294967295") == 4294967295


@given(st.floats())
@example(-0.0)
@example(5e-324)
@example(1.7976931348623157e308)
@example(2.2250738585072014e-308)
def test_any_float8_keeps_its_bits(value: float) -> None:
    text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    expected = struct.pack("<d", float("nan") if value != value else value)

    assert expected == struct.pack("<d", through("float8", text))


def float4_bits(text: str) -> str:
    encoded = encoder_of(type_named("float4"))(text.encode())
    assert encoded is not None
    return encoded[:0:-1].hex()


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("0", "00000000"),
        ("-0", "80000000"),
        ("1e-45", "00000001"),
        ("1.1754942e-38", "007fffff"),
        ("1.1754944e-38", "00800000"),
        ("3.4028235e+38", "7f7fffff"),
        ("-3.4028235e+38", "ff7fffff"),
        ("Infinity", "7f800000"),
        ("-Infinity", "ff800000"),
        ("NaN", "7fc00000"),
        # The nearest double lies half-way between two floats: rounding twice gives 15ae43fe.
        ("7.038531e-26", "15ae43fd"),
        ("-7.038531e-26", "95ae43fd"),
    ],
)
def test_float4_keeps_its_bits(text: str, bits: str) -> None:
    assert bits == float4_bits(text)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_any_float4_keeps_its_bits_however_many_digits_are_printed(value: float) -> None:
    for text in (f"{value:.9g}", f"{value:.8e}"):
        assert struct.pack(">f", value).hex() == float4_bits(text)


@given(st.text())
def test_any_text_reads_back(text: str) -> None:
    assert text == through("text", text)


@pytest.mark.parametrize("length", [0, 63, 64, 4095, 4096, 8191, 8192, 1_100_000])
def test_text_of_any_length_reads_back(length: int) -> None:
    assert "x" * length == through("text", "x" * length)


@given(st.binary())
@example(bytes(range(256)))
def test_any_bytea_reads_back(value: bytes) -> None:
    assert value == through("bytea", "\\x" + value.hex())


@given(st.data(), st.integers(1, 38), st.integers(0, 38))
def test_any_numeric_of_a_scale_reads_back(data: st.DataObject, precision: int, scale: int) -> None:
    precision = max(precision, scale)
    unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    value = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))

    assert value == through("numeric", f"{value:f}", numeric_typmod(precision, scale))


@pytest.mark.parametrize(
    ("precision", "scale", "text", "value"),
    [
        (5, 0, "0", "0"),
        (5, 2, "-0.01", "-0.01"),
        (2, -3, "12000", "12000"),
        (2, -3, "-99000", "-99000"),
        (3, 5, "0.00123", "0.00123"),
        (38, 38, "-0." + "9" * 38, "-0." + "9" * 38),
        (38, 0, "-" + "9" * 38, "-" + "9" * 38),
    ],
)
def test_numeric_at_the_edge_of_its_digits_reads_back(precision: int, scale: int, text: str, value: str) -> None:
    assert Decimal(value) == through("numeric", text, numeric_typmod(precision, scale))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("scale", [0, 2])
def test_numeric_that_is_no_number_is_exceptional(text: str, scale: int) -> None:
    assert is_exceptional("numeric", text, numeric_typmod(10, scale))


def test_numeric_without_bounds_is_its_text() -> None:
    assert through("numeric", "NaN") == "NaN"
    assert through("numeric", "1.50") == "1.50"


@pytest.mark.parametrize(
    ("name", "text"),
    [("bool", "x"), ("bool", ""), ("int4", ""), ("int4", "1.5"), ("float4", "1e"), ("float8", ""), ("bytea", "abc"),
     ("bytea", "\\xg0"), ("bytea", "\\x0"), ("date", "2023-02-29"), ("timestamp", "2024-01-32 00:00:00"),
     ("_int4", "{1,}"), ("_int4", "{1"), ("_int4", "{,1}"), ("_int4", "{1 }x}"), ("_text", '{"a}'), ("_text", '{a"b"}'),
     ("_text", '{"a"b}'), ("_text", "{}}"), ("_text", '{"\\"}')],
)  # fmt: skip
def test_text_that_postgres_never_prints_is_no_value(name: str, text: str) -> None:
    known = type_named(name)
    try:
        encoded = encoder_of(known)(text.encode())
    except (ValueError, IndexError, OverflowError):  # the transcoder makes a ProtocolError of these
        return
    assert encoded is None
    assert known.may_be_exceptional
