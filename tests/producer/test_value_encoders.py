"""Postgres text to Avro bytes, one value at a time; fastavro is the reader."""

import struct
import tracemalloc
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from producer.value_encoders import encoder_of, split_array
from schemas.pg_types import BUILTIN_NAMES, ColumnType, column_type
from tests.schemas.strategies import INT_64, numeric_typmod

_OIDS = {name: oid for oid, name in BUILTIN_NAMES.items()}


def type_named(name: str, typmod: int = -1) -> ColumnType:
    """A built-in type; ``_name`` is its array."""
    return column_type(_OIDS[name], typmod, {})


def read(known: ColumnType, encoded: bytes | None) -> Any:
    """What an Avro reader makes of the bytes, which must be used up."""
    assert encoded is not None
    source = BytesIO(encoded)
    value = fastavro.schemaless_reader(source, fastavro.parse_schema(["null", known.avro]), None)
    assert source.tell() == len(encoded)
    return value


def through(name: str, text: str | bytes, typmod: int = -1) -> Any:
    """Text of a built-in type, encoded and read back."""
    known = type_named(name, typmod)
    return read(known, encoder_of(known)(text if isinstance(text, bytes) else text.encode()))


def is_exceptional(name: str, text: str, typmod: int = -1) -> bool:
    return encoder_of(type_named(name, typmod))(text.encode()) is None


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


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{NULL}", [None]),
        ('{"NULL"}', [b"NULL"]),
        ('{"null",NULL}', [b"null", None]),
        ('{""}', [b""]),
        ("{a,b}", [b"a", b"b"]),
        ('{"a,b","{}"," "}', [b"a,b", b"{}", b" "]),
        (r'{"\"","\\","\\\""}', [b'"', b"\\", b'\\"']),
        ('{"line\nfeed"}', [b"line\nfeed"]),
        ('{"\\\n"}', [b"\n"]),
        (r'{"{\"{\\\\}\"}"}', [b'{"{\\\\}"}']),
        ("{é,😀}", ["é".encode(), "😀".encode()]),
    ],
)
def test_elements_of_an_array_are_unquoted(text: str, items: list[bytes | None]) -> None:
    assert items == split_array(text.encode())


@pytest.mark.parametrize("text", ["[0:1]={a,b}", "[2:2]={a}", "{{a},{b}}", "{{}}", "[1:1][0:1]={{a,b}}", "[-1:0]={}"])
def test_array_of_another_shape_is_exceptional(text: str) -> None:
    assert split_array(text.encode()) is None


def literal(items: list[str | None]) -> str:
    """As ``array_out`` prints it."""
    return "{" + ",".join(map(_element, items)) + "}"


def _element(item: str | None) -> str:
    if item is None:
        return "NULL"
    if item and item.upper() != "NULL" and not any(char in '{}",\\ \t\n\r\v\f' for char in item):
        return item
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.lists(st.none() | st.text(st.sampled_from(',"\\{}NUL null\n é😀'), max_size=12) | st.text(max_size=8)))
def test_any_array_of_text_reads_back(items: list[str | None]) -> None:
    assert items == through("_text", literal(items))


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)))
def test_any_array_of_int4_reads_back(items: list[int | None]) -> None:
    assert items == through("_int4", literal([None if item is None else str(item) for item in items]))


def test_array_with_an_element_that_its_type_cannot_hold_is_exceptional() -> None:
    assert is_exceptional("_date", "{2000-01-01,infinity}")
    assert is_exceptional("_numeric", "{1.00,NaN}", numeric_typmod(10, 2))
    assert [date(2000, 1, 1), None] == through("_date", "{2000-01-01,NULL}")


def test_long_element_takes_memory_as_its_length() -> None:
    """I9: a pattern that can go back keeps a hundred bytes a character."""
    for item in ("x" * 200_000, '"' * 100_000, 'a"' * 60_000):
        text = ('{"' + item.replace('"', '\\"') + '"}').encode()
        tracemalloc.start()
        try:
            items = split_array(text)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert [item.encode()] == items
        assert peak_bytes < 9 * len(text)
