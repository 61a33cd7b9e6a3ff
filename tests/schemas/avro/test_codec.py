"""Control records round trip, and damaged bytes raise ProtocolError and nothing else."""

from io import BytesIO

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.schemas.strategies import CUTS, PROGRESS, TYPE_RECORDS, relation_records
from walbridge.schemas.avro.codec import (
    CONTROL_RECORDS,
    bytes_value,
    control_schema,
    decode_body,
    decode_control,
    encode_control,
    long_bytes,
    schema_id,
    string_value,
)
from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.control.cut import encode_cut
from walbridge.schemas.control.metadata_record import encode_metadata
from walbridge.schemas.control.progress_record import encode_progress
from walbridge.schemas.errors import ProtocolError

POWERS = [2**n + d for n in range(64) for d in (-1, 0, 1)]
EDGES = sorted({sign * n for n in POWERS for sign in (1, -1) if -(2**63) <= sign * n < 2**63} | {-(2**63)})
ENCODED = (
    CUTS.map(encode_cut)
    | PROGRESS.map(encode_progress)
    | TYPE_RECORDS.map(encode_metadata)
    | relation_records().map(encode_metadata)
)


def fastavro_bytes(schema: str, value: object) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.mark.parametrize("value", EDGES)
def test_long_is_written_as_fastavro_writes_it_at_every_power_of_two(value: int) -> None:
    assert long_bytes(value) == fastavro_bytes("long", value)


@given(st.integers(-(2**63), 2**63 - 1))
def test_long_is_written_as_fastavro_writes_it(value: int) -> None:
    assert long_bytes(value) == fastavro_bytes("long", value)


@given(st.binary(max_size=300))
def test_bytes_are_written_as_fastavro_writes_them(value: bytes) -> None:
    assert bytes_value(value) == fastavro_bytes("bytes", value)


@given(st.text(max_size=100))
def test_string_is_written_as_fastavro_writes_it(value: str) -> None:
    assert string_value(value) == fastavro_bytes("string", value)


def test_schema_id_is_the_little_endian_fingerprint_of_the_specification() -> None:
    # 63dd24e7cc258f8a is the fingerprint of "null" in Avro's own test data.
    assert schema_id("null") == bytes.fromhex("63dd24e7cc258f8a")[::-1].hex()


@pytest.mark.parametrize("name", CONTROL_RECORDS)
def test_every_control_schema_is_read_by_fastavro(name: str) -> None:
    version = int(name[-1]) if name[-1].isdigit() else 1
    assert control_schema(name)["name"] == f"walbridge.v{version}.{name.rstrip('234')}"


def test_record_of_another_schema_is_refused_as_newer() -> None:
    with pytest.raises(ProtocolError, match="newer code"):
        decode_control(prefix_of("0123456789abcdef"))


@given(TYPE_RECORDS)
def test_record_of_another_kind_than_wanted_is_refused(record: object) -> None:
    with pytest.raises(ProtocolError, match="is none of Cut"):
        decode_control(encode_metadata(record), ("Cut",))  # type: ignore[arg-type]


@given(ENCODED)
def test_decoded_record_is_encoded_to_the_same_bytes(value: bytes) -> None:
    assert encode_control(*decode_control(value)) == value


@settings(max_examples=examples(20))  # some thousand lengths each
@given(ENCODED)
def test_record_cut_off_at_any_length_is_refused(value: bytes) -> None:
    for length in range(len(value)):
        with pytest.raises(ProtocolError):
            decode_control(value[:length])


@given(ENCODED, st.binary(min_size=1, max_size=4))
def test_bytes_left_over_are_refused(value: bytes, more: bytes) -> None:
    with pytest.raises(ProtocolError, match="left over"):
        decode_control(value + more)


@given(ENCODED, st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=8))
def test_damaged_record_is_decoded_or_refused_but_never_crashes(value: bytes, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(value)
    for place, byte in changes:
        damaged[place % len(damaged)] = byte

    try:
        _, record = decode_control(bytes(damaged))
    except ProtocolError:
        return
    assert isinstance(record, dict)


def test_body_that_is_no_record_is_refused() -> None:
    with pytest.raises(ProtocolError, match="not a record"):
        decode_body(prefix_of("0" * 16) + long_bytes(1), fastavro.parse_schema("long"))
