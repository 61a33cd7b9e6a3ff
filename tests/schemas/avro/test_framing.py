"""Framings of Avro records: what stands before a body says which schema it has, whatever a pipeline is set to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.schemas.avro.framing import frame_id_if_known, frame_of, json_frame_id, prefix_of, registry_frame_id
from walbridge.schemas.errors import ProtocolError

FRAME_IDS = st.binary(min_size=8, max_size=8).map(bytes.hex) | st.integers(0, 2**31 - 1).map(registry_frame_id)
FRAME_IDS |= st.binary(min_size=8, max_size=8).map(lambda each: json_frame_id(each.hex()))


def test_single_object_is_the_marker_and_eight_bytes_of_fingerprint() -> None:
    assert prefix_of("0123456789abcdef").hex() == "c3010123456789abcdef"


def test_json_begins_with_the_schema_id_as_its_first_field() -> None:
    assert prefix_of(json_frame_id("0123456789abcdef")) == b'{"schema_id":"0123456789abcdef'


def test_confluent_is_a_zero_byte_and_the_registrys_id_big_endian() -> None:
    assert prefix_of(registry_frame_id(258)) == b"\x00\x00\x00\x01\x02"


@given(FRAME_IDS, st.binary(max_size=20))
def test_what_was_put_before_a_body_is_found_there(frame_id: str, body: bytes) -> None:
    value = prefix_of(frame_id) + body

    found = frame_of(value)

    assert (found.frame_id, value[found.body_at :]) == (frame_id, body)


@given(FRAME_IDS, st.binary(max_size=20))
def test_a_frame_is_known_where_a_body_follows(frame_id: str, body: bytes) -> None:
    assert frame_id_if_known(prefix_of(frame_id) + body) == (frame_id if body else None)


@pytest.mark.parametrize("value", [b"", b"\xc3\x01", b"\xc3\x01" + bytes(7), bytes(4), b"\x01" + bytes(20)])
def test_value_of_no_known_framing_is_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError, match="neither Avro single-object encoding nor Confluent"):
        frame_of(value)
