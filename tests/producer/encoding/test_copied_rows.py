"""A line of COPY, encoded without its tuple: the same bytes and the same refusals as by way of it (I6, I7)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.avro_reader import record_of
from tests.producer.copy_lines import line_of
from tests.producer.strategies import fields_of
from tests.producer.written_record import BIG, ID
from tests.schemas.strategies import tables
from walbridge.producer.encoding.copied_rows import RowEncoder, RowFormat
from walbridge.producer.encoding.transcoder import make_line_encoder, make_plain_encoder
from walbridge.producer.pgoutput.copy_text import tuple_of_line
from walbridge.producer.pgoutput.messages import Unsent
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.table_schema import TableSchema


def _by_tuple(of: TableSchema, line: bytes) -> tuple[bytes | None, bytes] | str | None:
    try:
        encode = make_plain_encoder(record_of(of=of))
        return encode(tuple_of_line(line, len(of.columns)), 0, b"part", b"transaction", -1, b"rest")
    except ProtocolError:
        return "refused"


def _by_line(of: TableSchema, line: bytes) -> tuple[bytes | None, bytes] | str | None:
    try:
        made = make_line_encoder(record_of(of=of))(line, b"part")
    except ProtocolError:
        return "refused"
    return None if made is None else (made[0], made[1] + b"transaction\x01rest")


@settings(deadline=None, max_examples=examples(100))
@given(tables(), st.data())
def test_line_becomes_what_its_tuple_becomes(of: TableSchema, data: st.DataObject) -> None:
    sent = [None if isinstance(each, Unsent) else each[0] for each in data.draw(fields_of(of))]
    line = line_of(*sent)

    assert _by_line(of, line) == _by_tuple(of, line) != "refused"


@settings(deadline=None, max_examples=examples(100))
@given(tables(), st.data())
def test_damaged_line_is_refused_where_its_tuple_is(of: TableSchema, data: st.DataObject) -> None:
    """I7"""
    sent = [None if isinstance(each, Unsent) else each[0] for each in data.draw(fields_of(of))]
    line = bytearray(line_of(*sent))
    line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(line[: data.draw(st.integers(0, len(line)))]) + data.draw(st.sampled_from([b"", b"\n", b"\t\n"]))

    assert _by_line(of, damaged) == _by_tuple(of, damaged)


@pytest.mark.parametrize("line", [b"1\n", b"1\tname\tmore\n", b"1\tname", b""])
def test_line_of_another_form_is_refused(line: bytes) -> None:
    """I7"""
    with pytest.raises(ProtocolError):
        make_line_encoder(record_of(ID, BIG))(line, b"")


def test_rows_of_a_table_without_columns_are_rows() -> None:
    encode = make_line_encoder(record_of())

    row = encode(b"\n", b"part")
    assert row is not None
    assert (row[0], row[1][-4:]) == (None, b"part")
    with pytest.raises(ProtocolError):
        encode(b"1\n", b"part")


def test_few_rows_are_left_to_their_writer() -> None:
    """It takes a millisecond to generate a function, and many tables have no more rows."""
    encoder = RowEncoder(RowFormat(record_of(ID, BIG), b"part"))

    few, many, more = ([line_of(b"%d" % id_, b"big") for id_ in range(count)] for count in (3, 4, 1))

    assert encoder.block(few) == ([None] * 3, few)
    assert None not in encoder.block(many).rows
    assert None not in encoder.block(more).rows


def test_few_rows_are_counted_over_blocks() -> None:
    """Large rows come one by one: whoever began anew with each block would leave all of them to their writer."""
    encoder = RowEncoder(RowFormat(record_of(ID, BIG), b"part"))
    blocks = [encoder.block([line_of(b"%d" % id_, b"big")]) for id_ in range(6)]

    assert [row is None for block in blocks for row in block.rows] == [True] * 3 + [False] * 3
