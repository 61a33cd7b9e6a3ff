"""Rows of a chunk, encoded as far as possible before it is known at which LSN the chunk enters its topic.

In: lines of COPY's text format. Out: keys, and values without their end, which all rows of a chunk have in common; None
for a row that only its table's ``RecordWriter`` can encode. The lines are kept beside the rows: if the window touched a
row, or the table has another name by now, the row is encoded from its line again.
"""

from dataclasses import dataclass
from typing import NamedTuple

from walbridge.producer.encoding.record import INTERPRETED_ROWS
from walbridge.producer.encoding.transcoder import LineEncoder, make_line_encoder
from walbridge.schemas.control.metadata_record import RelationRecord

EncodedRow = tuple[bytes | None, bytes]
"""Key; value up to the relation's part of ``source``."""


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
        self._encode: LineEncoder | None = None
        self._left_rows = 0

    def block(self, lines: list[bytes]) -> CopiedBlock:
        """The rows of these lines.

        Raises:
            ProtocolError: a line is malformed.
        """
        if self._encode is None:
            self._left_rows += len(lines)  # of large rows a block has one or two
            if self._left_rows <= INTERPRETED_ROWS:  # it takes a millisecond to generate a function
                return CopiedBlock([None] * len(lines), lines)
            self._encode = make_line_encoder(self.row_format.record)
        encode, part = self._encode, self.row_format.part
        return CopiedBlock([encode(line, part) for line in lines], lines)
