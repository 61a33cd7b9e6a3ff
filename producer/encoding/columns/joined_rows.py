"""Pieces of columns joined to rows, all in one array of bytes.

In: for each column the pieces of its values, the first of all rows, then the second of all rows, and so on. Out: the
rows, one after another, and where each begins and ends.

Pieces are written from the left to the right, whole words at a time: what a word has too much is overwritten by the
piece after it, and between two rows there is a gap as wide as the widest word, so that no piece reaches another row.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from walbridge.producer.encoding.columns.column_values import Span
from walbridge.producer.encoding.columns.text_fields import PADDING, at_each_byte
from walbridge.producer.encoding.columns.words import Piece, Sizes

_WIDE = 32
"""Bytes of a span that are copied at a time."""
_SPAN_MAX = 4 * _WIDE
"""What is longer is copied as a whole: a row costs 0.2 µs then."""


class JoinedRows(NamedTuple):
    """Rows in one array."""

    data: memoryview
    starts: Sizes
    ends: Sizes

    def rows(self) -> list[bytes]:
        """Each of them."""
        data = bytes(self.data)
        return [data[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]


def joined_rows(head: bytes, pieces: Sequence[Piece | Span], tail: bytes, count: int) -> JoinedRows:
    """So many rows, each between the same ``head`` and ``tail``."""
    sizes = np.full(count, len(head) + len(tail))
    for piece in pieces:
        sizes += piece.sizes
    gap = _WIDE - min(len(tail), _WIDE)
    ends = np.cumsum(sizes + gap) - gap
    starts = ends - sizes
    out = np.empty(int(ends[-1]) + PADDING if count else PADDING, np.uint8)
    words, at = at_each_byte(out, "<u8"), starts
    _write_all(out, at, head)
    at = at + len(head)
    for piece in pieces:
        if isinstance(piece, Span):
            _write_span(out, at, piece)
        else:
            words[at] = piece.words
        at = at + piece.sizes
    _write_all(out, at, tail)
    return JoinedRows(out.data, starts, ends)


def _write_all(out: "np.ndarray[tuple[int], np.dtype[np.uint8]]", at: Sizes, piece: bytes) -> None:
    """The same bytes, no more, in every row."""
    if piece:
        at_each_byte(out, f"V{len(piece)}")[at] = np.void(piece)


def _write_span(out: "np.ndarray[tuple[int], np.dtype[np.uint8]]", at: Sizes, span: Span) -> None:
    longest, dtype = int(span.sizes.max(initial=0)), f"V{_WIDE}"
    target, source = at_each_byte(out, dtype), at_each_byte(np.frombuffer(span.text.data, np.uint8), dtype)
    target[at] = source[span.starts]
    for done in range(_WIDE, min(longest, _SPAN_MAX), _WIDE):
        left = np.flatnonzero(span.sizes > done)
        target[at[left] + done] = source[span.starts[left] + done]
    if longest > _SPAN_MAX:
        data, bytes_out = memoryview(span.text.data), out.data
        left = np.flatnonzero(span.sizes > _SPAN_MAX)
        positions = (at[left].tolist(), span.starts[left].tolist(), span.sizes[left].tolist())
        for to, start, size in zip(*positions, strict=True):
            bytes_out[to : to + size] = data[start : start + size]
