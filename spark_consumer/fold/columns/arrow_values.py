"""Decoded values as Arrow columns.

In: a leaf, the bytes that it is of, the column's type in the lake. Out: an Arrow array of that type.
"""

import numpy as np
import pyarrow as pa

from walbridge.spark_consumer.fold.columns.avro_bytes import AvroBytes, NotPlain
from walbridge.spark_consumer.fold.columns.decoded import Leaf
from walbridge.spark_consumer.fold.columns.spans import span_array, with_nulls

_WORD_BITS = 64


def arrow_array(source: AvroBytes, leaf: Leaf, of: pa.DataType) -> pa.Array:
    """The values as Arrow; bytes are copied, so that ``source`` need not stay.

    Raises:
        NotPlain: text that is not UTF-8, or a decimal of more than 18 digits.
    """
    present = leaf.present
    if present is not None and not present.any():
        return pa.nulls(len(present), of)
    if leaf.end is not None and present is not None:
        return with_nulls(arrow_array(source, leaf.of_rows(present).without_nulls, of), present)
    if pa.types.is_decimal(of):
        return _decimals(source, leaf, of)
    if leaf.end is not None:
        return _texts(source, leaf, of)
    found = pa.array(leaf.first, mask=None if present is None else ~present)
    return found if found.type == of else found.view(of)


def _texts(source: AvroBytes, leaf: Leaf, of: pa.DataType) -> pa.Array:
    assert leaf.end is not None
    found = span_array(source.data, leaf.first, leaf.end)
    try:
        return found if of == found.type else found.cast(of)
    except pa.ArrowInvalid:
        raise NotPlain from None


def _decimals(source: AvroBytes, leaf: Leaf, of: pa.DataType) -> pa.Array:
    """Of up to eight bytes: big-endian, in two's complement."""
    assert leaf.end is not None
    size = leaf.end - leaf.first
    if len(size) and (size.min() < 1 or size.max() > _WORD_BITS // 8):
        raise NotPlain
    low = source.word(leaf.first).byteswap().view(np.int64) >> (_WORD_BITS - 8 * size)
    words = np.empty((len(low), 2), np.int64)
    words[:, 0], words[:, 1] = low, low >> (_WORD_BITS - 1)
    return pa.Array.from_buffers(of, len(low), [None, pa.py_buffer(words)])
