"""Lines of COPY's text format as columns of fields, without an object for each.

In: lines. Out: where the fields of each column begin and end in the text of all lines, and which rows are plain:
without an escape but ``\\N``. A tab or a line end inside a value is always escaped, so that all that there
are end fields.

Source: PostgreSQL manual, COPY, "Text Format".
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from walbridge.producer.encoding.columns.words import WORD, Flags, Sizes, Words

PADDING = 64
"""Bytes before and after a text, so that each word that begins or ends in it can be read."""
_TAB, _LINE_END, _BACKSLASH = 0x09, 0x0A, 0x5C
_NULL = 0x4E5C
r"""``\N``"""


class Text:
    """Bytes between paddings; positions are those of ``data``."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        padding = bytes(PADDING)
        self.data = b"".join([padding, *pieces, padding])
        self.words: Words = at_each_byte(np.frombuffer(self.data, np.uint8), "<u8")


def at_each_byte(data: npt.NDArray[np.uint8], dtype: str) -> npt.NDArray[Any]:
    """A view of the bytes that has an element at each of them, as long as all of it is there."""
    size = np.dtype(dtype).itemsize
    return as_strided(np.ndarray((1,), dtype, data), (len(data) - size + 1,), (1,), writeable=data.flags.writeable)


class Fields(NamedTuple):
    """One column. ``heads``: the word at the beginning of each field. ``nulls``: None where there is none."""

    text: Text
    starts: Sizes
    ends: Sizes
    heads: Words
    nulls: Flags | None

    @property
    def sizes(self) -> Sizes:
        return self.ends - self.starts


class TextFields(NamedTuple):
    """The columns, and for each row whether its fields stand for themselves."""

    columns: list[Fields]
    is_plain: Flags


def text_fields(lines: Sequence[bytes], column_count: int) -> TextFields | None:
    """The fields of these lines; None where a line does not have so many, or no end."""
    text, count = Text(lines), len(lines)
    data = np.frombuffer(text.data, np.uint8, len(text.data) - 2 * PADDING, PADDING)
    ends = np.flatnonzero((data - _TAB) <= _LINE_END - _TAB)  # bytes below a tab become large
    if len(ends) != count * column_count:
        return None
    line_ends = ends[column_count - 1 :: column_count]
    sizes = np.fromiter(map(len, lines), np.int64, count)
    if (line_ends != np.cumsum(sizes) - 1).any() or np.count_nonzero(data == _LINE_END) != count:
        return None
    if (data[line_ends] != _LINE_END).any():
        return None
    backslashes = np.flatnonzero(data == _BACKSLASH)
    escapes = np.bincount(np.searchsorted(line_ends, backslashes), minlength=count)
    ends += PADDING
    starts = np.empty_like(ends)
    starts[0] = PADDING
    starts[1:] = ends[:-1] + 1
    columns = []
    for number in range(column_count):
        fields = _fields(text, starts[number::column_count], ends[number::column_count], has_nulls=len(backslashes) > 0)
        if fields.nulls is not None:
            escapes -= fields.nulls
        columns.append(fields)
    return TextFields(columns, escapes == 0)


def _fields(text: Text, starts: Sizes, ends: Sizes, *, has_nulls: bool) -> Fields:
    starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
    heads = text.words[starts]
    if has_nulls:
        nulls = ((heads & 0xFFFF) == _NULL) & (ends - starts == 2)
        if nulls.any():
            return Fields(text, starts, ends, heads, nulls)
    return Fields(text, starts, ends, heads, None)


assert WORD <= PADDING
