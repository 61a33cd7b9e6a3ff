"""hstore and vectors: Postgres' texts taken apart, to what an Avro reader finds."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.encoded_values import read
from tests.producer.strategies import values
from tests.schemas.strategies import HSTORE_OID, USER_TYPES, VECTOR_OID
from walbridge.schemas.avro.value_encoders import encode_float, encode_map, encode_vector
from walbridge.schemas.pg_types import column_type

HSTORE, VECTOR = (column_type(oid, -1, USER_TYPES) for oid in (HSTORE_OID, VECTOR_OID))


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", {}),
        ('"a"=>"1"', {"a": "1"}),
        ('"a"=>NULL, "b"=>"NULL"', {"a": None, "b": "NULL"}),
        ('""=>""', {"": ""}),
        (r'"\"=>\\"=>"\", \""', {'"=>\\': '", "'}),
        ('"é"=>"😀\n", "x, y"=>"=>"', {"é": "😀\n", "x, y": "=>"}),
    ],
)
def test_entries_of_an_hstore_are_unquoted(text: str, entries: dict[str, str | None]) -> None:
    found = read(HSTORE, encode_map(text.encode()))

    assert (found, list(found)) == (entries, list(entries))


@given(values(HSTORE))
def test_any_hstore_reads_back(value: tuple[bytes, Any]) -> None:
    assert read(HSTORE, encode_map(value[0])) == value[1]


@pytest.mark.parametrize(
    "text", ["a", '"a"', '"a"=>', '"a"=>1', '"a"=>"1",', '"a"=>"1", ', '"a"=>"1""b"=>"2"', '"a"=>"1" "b"=>"2"', " "]
)
def test_text_that_hstore_never_prints_is_no_value(text: str) -> None:
    with pytest.raises(ValueError, match="hstore"):
        encode_map(text.encode())


@given(values(VECTOR))
def test_any_vector_keeps_the_bits_of_its_floats(value: tuple[bytes, list[float]]) -> None:
    text, items = value
    found = read(VECTOR, encode_vector(text))

    assert struct.pack(f"{len(items)}f", *found) == struct.pack(f"{len(items)}f", *items)


@pytest.mark.parametrize("item", ["7.038531e-26", "1e-45", "1.1754942e-38"])
def test_float_that_rounds_twice_is_what_it_is_alone(item: str) -> None:
    floats = b"".join(encode_float(each.encode())[1:] for each in ("0.1", item, "-3"))

    assert encode_vector(f"[0.1,{item},-3]".encode()) == b"\x02\x06" + floats + b"\x00"


@pytest.mark.parametrize("text", ["", "[", "[]", "[,]", "[x]", "{1,2}", "[1,2", "1e999"])
def test_text_that_a_vector_never_prints_is_no_value(text: str) -> None:
    with pytest.raises(ValueError, match=r"vector|float"):
        encode_vector(text.encode())


@given(st.integers(0, 300), st.integers(0, 300))
def test_keys_and_values_of_any_length_read_back(key_length: int, value_length: int) -> None:
    entries = {"k" * key_length: "v" * value_length}
    ((key, value),) = entries.items()

    assert read(HSTORE, encode_map(f'"{key}"=>"{value}"'.encode())) == entries
