"""The fields of one column as pieces of Avro bytes, branch of the ``["null", T]`` union included.

In: the fields of a column and its type. Out: pieces that together are each field's value, the same bytes as its encoder
in ``value_encoders`` gives; and for which fields they are. The common types are read by arithmetic over all rows at
once, texts are taken from where they stand, and what remains, such as arrays, goes through its encoder, value by value.
"""

from collections.abc import Callable
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

import numpy as np

from walbridge.producer.encoding.columns.instants import days, microseconds
from walbridge.producer.encoding.columns.text_fields import PADDING, Fields, Text
from walbridge.producer.encoding.columns.words import (
    DIGITS_MAX,
    Flags,
    Piece,
    Sizes,
    number_before,
    signed_pieces,
    varint_pieces,
    zigzag,
)
from walbridge.schemas.avro.value_encoders import NULL, Encoder, encoder_of
from walbridge.schemas.pg_types import ColumnType

REFUSALS = (IndexError, KeyError, ValueError, StructError, OverflowError, RecursionError)
"""What encoders raise on malformed text."""
_MINUS, _POINT, _TRUE, _FALSE = b"-.tf"


class Span(NamedTuple):
    """Bytes as they stand in a text."""

    text: Text
    starts: Sizes
    sizes: Sizes


class Values(NamedTuple):
    """``pieces`` in their order. Where ``is_plain`` is false they are not the field's value."""

    pieces: list[Piece | Span]
    is_plain: Flags


ColumnEncoder = Callable[[Fields, Flags], Values]
"""(fields, which rows may be encoded) → values."""


def column_encoder(column_type: ColumnType) -> ColumnEncoder:
    """How the columns of a type are encoded."""
    if column_type.codec == "decimal" and column_type.scale < DIGITS_MAX:
        return lambda fields, _: _decimals(fields, column_type.scale)
    known = _ENCODERS.get(column_type.codec)
    if known is not None:
        return lambda fields, _: known(fields)
    encode = encoder_of(column_type)
    return lambda fields, wanted: _each(fields, wanted, encode)


def _texts(fields: Fields) -> Values:
    sizes = fields.sizes
    pieces = varint_pieces(zigzag(sizes))
    if fields.nulls is not None:
        sizes[fields.nulls] = 0
    span = Span(fields.text, fields.starts, sizes)
    return Values([*_with_nulls(pieces, fields), span], np.ones(len(sizes), np.bool_))


def _integers(fields: Fields) -> Values:
    is_negative = (fields.heads & 0xFF) == _MINUS
    number = number_before(fields.text.words, fields.ends, fields.sizes - is_negative)
    signed = number.value.view(np.int64)
    values = zigzag(np.where(is_negative, -signed, signed)) if is_negative.any() else number.value << 1
    return _values(varint_pieces(values), fields, number.is_plain)


def _decimals(fields: Fields, scale: int) -> Values:
    words, ends = fields.text.words, fields.ends
    is_negative = (fields.heads & 0xFF) == _MINUS
    counts = fields.sizes - is_negative
    if not scale:
        number = number_before(words, ends, counts)
        return _values(signed_pieces(number.value, is_negative), fields, number.is_plain)
    points = ends - scale - 1
    # A point before the field's beginning leaves no digit before it.
    whole = number_before(words, points, counts - scale - 1)
    part = number_before(words, ends, np.full(len(ends), scale))
    is_plain = whole.is_plain & part.is_plain & ((words[points] & 0xFF) == _POINT) & (counts <= DIGITS_MAX + 1)
    value = whole.value * 10**scale + part.value
    value[~is_plain] = 0
    return _values(signed_pieces(value, is_negative), fields, is_plain)


def _booleans(fields: Fields) -> Values:
    letters = fields.heads & 0xFF
    is_true = letters == _TRUE
    is_plain = (is_true | (letters == _FALSE)) & (fields.sizes == 1)
    pieces = [Piece((is_true.astype(np.uint64) << 8) | 0x02, np.full(len(letters), 2))]
    return _values(pieces, fields, is_plain)


def _dates(fields: Fields) -> Values:
    found = days(fields)
    return _values(varint_pieces(zigzag(found.values)), fields, found.is_plain)


def _timestamps(fields: Fields) -> Values:
    found = microseconds(fields, has_zone=False)
    return _values(varint_pieces(zigzag(found.values)), fields, found.is_plain)


def _timestamps_of_zone(fields: Fields) -> Values:
    found = microseconds(fields, has_zone=True)
    return _values(varint_pieces(zigzag(found.values)), fields, found.is_plain)


_ENCODERS: dict[str, Callable[[Fields], Values]] = {
    "bool": _booleans,
    "int": _integers,
    "string": _texts,
    "date": _dates,
    "timestamp": _timestamps,
    "timestamptz": _timestamps_of_zone,
}


def _each(fields: Fields, wanted: Flags, encode: Encoder) -> Values:
    """By the type's encoder."""
    data, is_plain = fields.text.data, wanted.copy()
    nulls = np.zeros(len(is_plain), np.bool_) if fields.nulls is None else fields.nulls
    encoded = []
    for row, (start, end, is_wanted, is_null) in enumerate(
        zip(fields.starts.tolist(), fields.ends.tolist(), wanted.tolist(), nulls.tolist(), strict=True)
    ):
        value: bytes | None = NULL
        if is_wanted and not is_null:
            try:
                value = encode(data[start:end])
            except REFUSALS:
                value = None
            if value is None:
                is_plain[row] = False
        encoded.append(value or b"")
    sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return Values([Span(Text(encoded), np.cumsum(sizes) - sizes + PADDING, sizes)], is_plain)


def _values(pieces: list[Piece], fields: Fields, is_plain: Flags) -> Values:
    return Values([*_with_nulls(pieces, fields)], is_plain if fields.nulls is None else is_plain | fields.nulls)


def _with_nulls(pieces: list[Piece], fields: Fields) -> list[Piece]:
    """Of a null one byte, of which all bits are zero."""
    if fields.nulls is not None:
        pieces[0].words[fields.nulls] = 0
        for piece, size in zip(pieces, (1, 0), strict=False):
            piece.sizes[fields.nulls] = size
    return pieces
