"""Lines of COPY, encoded column by column: the same bytes and the same refusals as line by line (I6, I7)."""

from __future__ import annotations

import sys
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.avro_reader import record_of
from tests.producer.copy_lines import line_of
from tests.producer.strategies import values
from tests.producer.written_record import BIG, DAY, ID, NAME
from tests.schemas.strategies import column, numeric_typmod, relation_records
from walbridge.producer.encoding import copied_rows
from walbridge.producer.encoding.columns import rows_by_column
from walbridge.producer.encoding.columns.rows_by_column import BLOCKS_LEFT, RowsByColumn
from walbridge.producer.encoding.copied_rows import COLUMNS_ROWS_MIN, FIELD_BYTES_MAX, RowEncoder, RowFormat
from walbridge.producer.encoding.transcoder import make_line_encoder
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.pg_types import ColumnType
from walbridge.schemas.table_schema import Column, TableSchema

PART = b"part of source"
Rows = list[tuple[bytes | None, bytes] | None]
OF_TYPES = [
    column("bigint", 20, is_key=True),
    column("price", 1700, numeric_typmod(12, 2)),
    column("count", 1700, numeric_typmod(30, 0)),
    column("wide", 1700, numeric_typmod(38, 20)),
    column("flag", 16),
    column("day", 1082, is_key=True),
    column("at", 1114),
    column("zoned", 1184),
    column("share", 701),
    column("name", 25),
]
"""Every type that is read by arithmetic, and some that are not."""
SOME_TYPES = st.lists(st.sampled_from(OF_TYPES), min_size=1, unique_by=lambda each: each.name)


def by_line(record: RelationRecord, lines: list[bytes]) -> Rows | str:
    encode = make_line_encoder(record)
    try:
        return [encode(line, PART) for line in lines]
    except ProtocolError as error:
        return str(error)


def by_column(record: RelationRecord, lines: list[bytes]) -> Rows | str:
    """Whatever the share of plain rows is."""
    with patch.object(rows_by_column, "PLAIN_MIN", 0):
        try:
            rows = RowsByColumn(record, PART, make_line_encoder(record)).block(lines)
        except ProtocolError as error:
            return str(error)
    return by_line(record, lines) if rows is None else rows


@st.composite
def lines_of(draw: st.DrawFn, of: TableSchema) -> list[bytes]:
    """Rows, among which there are plain ones, nulls and any that the types can have."""
    fields = st.tuples(*(st.none() | _texts(each.column_type) for each in of.columns))
    return [line_of(*row) for row in draw(st.lists(fields, min_size=1, max_size=12))]


def _texts(known: ColumnType) -> st.SearchStrategy[bytes]:
    any_of_it = values(known).map(lambda value: value[0])
    return any_of_it | _EDGES[known.codec] if known.codec in _EDGES else any_of_it


def _strings(*texts: str) -> st.SearchStrategy[bytes]:
    return st.sampled_from([text.encode() for text in texts])


_DIGITS = st.integers(1, 20).flatmap(lambda count: st.sampled_from([10**count - 1, 10**count, 8 ** (count * 2) - 1]))
_EDGES = {
    "int": (st.integers(-(2**63), 2**63 - 1) | _DIGITS | _DIGITS.map(int.__neg__)).map(lambda n: str(n).encode())
    | _strings("007", "-0", "+5", " 5", "1_0", "", "-", "5\v", "٣"),
    "bool": _strings("", "true", "T", "x"),
    "decimal": st.from_regex(rb"-?\d{0,22}(\.\d{0,22})?", fullmatch=True) | _strings("-.50", ".50", "1e5", "1.5e"),
    "date": _strings("2000-02-29", "1900-02-29", "2001-13-01", "2001-00-10", "2001-04-31", "0001-01-01", "0000-01-01",
                     "9999-12-31", "99999-12-31", "2001-01-0", "2001/01/01", "20010101  ", "2001-01-00"),
    "string": st.integers(0, 300).map(lambda size: b"x" * size) | _strings("\\N", "N", "\\", "\t", "é"),
}  # fmt: skip
_TIMES = st.from_regex(
    rb"(2000-02-29|1969-12-31|1970-01-01|0001-01-01|9999-12-31|2023-02-29|12001-01-01)[ T]"
    rb"([0-2]\d:[0-9]\d:[0-9]\d|24:00:00|99:99:99|1:00:00)(\.\d{0,7})?",
    fullmatch=True,
)
_EDGES["timestamp"] = _TIMES
_EDGES["timestamptz"] = st.tuples(_TIMES, _strings("+00", "", "+01", "-00", "+00:30")).map(b"".join)


@settings(deadline=None, max_examples=examples(200))
@given(st.data(), relation_records().filter(lambda record: bool(record.table.columns)))
def test_rows_of_any_table_are_those_of_its_lines(data: st.DataObject, record: RelationRecord) -> None:
    """Also behind the short heads of a registry."""
    lines = data.draw(lines_of(record.table))

    assert by_column(record, lines) == by_line(record, lines)


@settings(deadline=None, max_examples=examples(400))
@given(st.data(), SOME_TYPES)
def test_rows_of_the_types_that_are_computed_are_those_of_their_lines(data: st.DataObject, of: list[Column]) -> None:
    record = record_of(*of)
    lines = data.draw(lines_of(record.table))

    assert by_column(record, lines) == by_line(record, lines)


@settings(deadline=None, max_examples=examples(200))
@given(st.data(), SOME_TYPES)
def test_damaged_line_is_refused_as_it_is_alone(data: st.DataObject, of: list[Column]) -> None:
    """I7"""
    record = record_of(*of)
    lines = data.draw(lines_of(record.table))
    number = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[number])
    line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.sampled_from([b"", b"\n", b"\t\n"]))
    lines[number] = bytes(line[: data.draw(st.integers(0, len(line)))]) + end

    assert by_column(record, lines) == by_line(record, lines)


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.integers(-(10**18) + 1, 10**18 - 1), min_size=1), st.lists(st.datetimes(), min_size=1))
def test_common_values_are_computed(numbers: list[int], times: list[object]) -> None:
    """None of them is left to its line, which would be right too."""
    record = record_of(OF_TYPES[0], OF_TYPES[7], NAME)
    assume(all(len(str(time)) <= 26 for time in times))
    lines = [line_of(b"%d" % n, f"{time}+00".encode(), b"x" * (n % 200)) for n in numbers for time in times]

    assert RowsByColumn(record, PART, lambda line, part: None).block(lines) == by_line(record, lines)


def test_long_texts_and_short_ones_stand_in_one_block() -> None:
    record = record_of(column("code", 25, is_key=True), column("more", 25, is_key=True), NAME)
    texts = [bytes([97 + size % 26]) * size for size in (*range(140), 4095, 4096, 8191, 8192, 70_000)]
    lines = [line_of(text, texts[-number], text[:number]) for number, text in enumerate(texts)]

    assert by_column(record, lines) == by_line(record, lines)


def test_row_that_is_not_plain_is_encoded_from_its_line_in_its_place() -> None:
    """I6: an escape, and a day that Avro's type cannot hold, which only the table's writer can encode."""
    record = record_of(ID, DAY)
    lines = [line_of(b"%d" % id_, b"2026-11-27") for id_ in range(8)]
    lines[2], lines[5] = line_of(b"2", b"infinity"), b"5\t2026-\\0611-27\n"

    rows = RowsByColumn(record, PART, make_line_encoder(record)).block(lines)

    assert rows == by_line(record, lines)
    assert [row is None for row in rows] == [number == 2 for number in range(8)]


def test_table_of_which_few_rows_are_plain_is_left_to_its_lines_for_a_while() -> None:
    """To look at each of its blocks would cost more than it gains."""
    encoder = RowsByColumn(record_of(ID, BIG), PART, make_line_encoder(record_of(ID, BIG)))
    plain, escaped = [line_of(b"1", b"a")] * 3, [line_of(b"1", b"\\")] * 3

    assert encoder.block(escaped) is None
    assert [encoder.block(plain) for _ in range(BLOCKS_LEFT)] == [None] * BLOCKS_LEFT
    assert encoder.block(plain) == by_line(record_of(ID, BIG), plain)


LINES = [line_of(b"%d" % id_, b"big") for id_ in range(COLUMNS_ROWS_MIN)]


def test_copy_needs_no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, rows are encoded one by one."""
    row_format = RowFormat(record_of(ID, BIG), PART)
    with_numpy = RowEncoder(row_format).block(LINES)
    monkeypatch.setitem(sys.modules, "numpy", None)
    for module in [name for name in sys.modules if "encoding.columns." in name]:
        monkeypatch.delitem(sys.modules, module)

    assert RowEncoder(row_format).block(LINES) == with_numpy


@pytest.mark.parametrize(
    ("lines", "are_columns"),
    [(LINES, True), (LINES[1:], False), ([line_of(b"1", b"x" * 2 * FIELD_BYTES_MAX)] * len(LINES), False)],
    ids=["many", "few", "long"],
)
def test_few_and_long_rows_are_encoded_from_their_lines(
    monkeypatch: pytest.MonkeyPatch, lines: list[bytes], are_columns: bool
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(copied_rows, "_columns_encoder", lambda *_: lambda lines: asked.append(len(lines)))
    record = record_of(ID, BIG)

    assert RowEncoder(RowFormat(record, PART)).block(lines).rows == by_line(record, lines)
    assert asked == [len(lines)] * are_columns
