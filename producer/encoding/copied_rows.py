"""Rows of a chunk, encoded as far as possible before it is known at which LSN the chunk enters its topic.

In: lines of COPY's text format. Out: keys, and values without their end, which all rows of a chunk have in common; None
for a row that only its table's ``RecordWriter`` can encode. The lines are kept beside the rows: if the window touched a
row, or the table has another name by now, the row is encoded from its line again.

Blocks are encoded column by column where numpy is installed, and row by row where it is not: the bytes are the same.
It is imported with the first block that has so many rows, since it takes 12 MB.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from walbridge.producer.encoding.record import INTERPRETED_ROWS
from walbridge.producer.encoding.transcoder import LineEncoder, make_line_encoder
from walbridge.schemas.control.metadata_record import RelationRecord

EncodedRow = tuple[bytes | None, bytes]
"""Key; value up to the relation's part of ``source``."""


COLUMNS_ROWS_MIN = 192
"""Fewer rows are encoded as fast from their lines."""
FIELD_BYTES_MAX = 128
"""On average: of longer fields the most is text, which columns do not copy faster."""
ColumnsEncoder = Callable[[list[bytes]], list[EncodedRow | None] | None]
"""Rows of lines; None where they are to be encoded line by line."""


class CopiedBlock(NamedTuple):
    """Some rows and their lines, in the same order. A row is None where only the ``RecordWriter`` can encode it."""

    rows: list[EncodedRow | None]
    lines: list[bytes]


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The relation version in which rows are encoded; ``part``: the relation's part of their ``source``."""

    record: RelationRecord
    part: bytes


class RowEncoder:
    """Encodes the rows of one format."""

    def __init__(self, row_format: RowFormat) -> None:
        self.row_format = row_format
        self._encode_line: LineEncoder | None = None
        self._by_column: ColumnsEncoder | None = None
        self._left_rows = 0

    def block(self, lines: list[bytes]) -> CopiedBlock:
        """The rows of these lines.

        Raises:
            ProtocolError: a line is malformed.
        """
        if self._encode_line is None:
            self._left_rows += len(lines)  # of large rows a block has one or two
            if self._left_rows <= INTERPRETED_ROWS:  # it takes a millisecond to generate a function
                return CopiedBlock([None] * len(lines), lines)
            self._encode_line = make_line_encoder(self.row_format.record)
        if are_worth_columns(lines, len(self.row_format.record.table.columns)):
            if self._by_column is None:
                self._by_column = _columns_encoder(self.row_format, self._encode_line)
            if (rows := self._by_column(lines)) is not None:
                return CopiedBlock(rows, lines)
        encode, part = self._encode_line, self.row_format.part
        return CopiedBlock([encode(line, part) for line in lines], lines)


def are_worth_columns(lines: list[bytes], column_count: int) -> bool:
    """A block costs some hundred calls of numpy, whatever it holds."""
    return len(lines) >= COLUMNS_ROWS_MIN and sum(map(len, lines)) <= FIELD_BYTES_MAX * column_count * len(lines)


def _columns_encoder(row_format: RowFormat, encode_line: LineEncoder) -> ColumnsEncoder:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # it would start one a core, and no matrix is multiplied here
    try:
        from walbridge.producer.encoding.columns.rows_by_column import RowsByColumn
    except ImportError:
        return lambda lines: None
    return RowsByColumn(row_format.record, row_format.part, encode_line).block
