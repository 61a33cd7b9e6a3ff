"""Rows of a chunk, encoded as far as they can be before it is known where the chunk enters its topic.

In: lines of COPY's text format. Out: keys, and values without their ends, which all rows of a chunk share; None for a
row that only its table's ``RecordWriter`` can make a record of. The lines stay with them: a row that the
window touched, or whose table has another name by now, is made of its line again.
"""

from dataclasses import dataclass
from typing import NamedTuple

from walbridge.producer.encoding.record import INTERPRETED_ROWS
from walbridge.producer.encoding.transcoder import LineEncoder, make_line_encoder
from walbridge.schemas.control.metadata_record import RelationRecord

EncodedRow = tuple[bytes | None, bytes]
"""Key; value up to the relation's part of ``source``."""


class CopiedBlock(NamedTuple):
    """Some rows, at the same place in both lists."""

    rows: list[EncodedRow | None]
    lines: list[bytes]


@dataclass(frozen=True, slots=True)
class RowFormat:
    """Of which relation version rows are made; ``part``: the relation's part of their ``source``."""

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
