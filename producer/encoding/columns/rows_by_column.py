"""Many lines of COPY at a time to keys and envelopes, column by column.

In: lines, all of one relation version. Out: the rows that ``make_line_encoder`` makes of them, byte for byte, with the
same refusals: a row of which any field is not of its type's plain form, or escaped, is encoded by that function, from
its line. So the arithmetic of this package need not know what is malformed, exceptional or rare; it must only know what
is plain.
"""

from collections.abc import Sequence

import numpy as np

from walbridge.producer.encoding.columns.column_values import Values, column_encoder
from walbridge.producer.encoding.columns.joined_rows import JoinedRows, joined_rows
from walbridge.producer.encoding.columns.text_fields import TextFields, text_fields
from walbridge.producer.encoding.transcoder import LineEncoder
from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.avro.value_encoders import NULL, VALUE
from walbridge.schemas.control.metadata_record import RelationRecord

PLAIN_MIN = 0.5
"""The share of plain rows from which on columns are worth it."""
BLOCKS_LEFT = 15
"""So many blocks are left to lines after one that had fewer plain rows."""

Row = tuple[bytes | None, bytes]


class RowsByColumn:
    """Encodes blocks of one relation version."""

    def __init__(self, record: RelationRecord, part: bytes, encode_line: LineEncoder) -> None:
        self._part, self._encode_line = part, encode_line
        self._columns = record.table.columns
        self._encoders = [column_encoder(column.column_type) for column in self._columns]
        self._head = record.avro_prefix + NULL + VALUE
        self._key_head = None if record.key_frame_id is None else prefix_of(record.key_frame_id)
        # The key's field for texts that no Avro type holds, which a plain row does not have.
        exceptional = any(column.column_type.may_be_exceptional for column in record.table.key_columns)
        self._key_tail = NULL if exceptional else b""
        self._left_blocks = 0

    def block(self, lines: list[bytes]) -> list[Row | None] | None:
        """The rows of these lines, None where only the ``RecordWriter`` can encode one; None instead of all where they
        are better encoded line by line.

        Raises:
            ProtocolError: a line is malformed.
        """
        if self._left_blocks:
            self._left_blocks -= 1
            return None
        fields = text_fields(lines, len(self._columns)) if self._columns else None
        return None if fields is None else self._rows(fields, lines)

    def _rows(self, fields: TextFields, lines: list[bytes]) -> list[Row | None] | None:
        is_plain, values = fields.is_plain, list[Values]()
        for encode, column in zip(self._encoders, fields.columns, strict=True):
            values.append(encode(column, is_plain))
            is_plain = is_plain & values[-1].is_plain
        if np.count_nonzero(is_plain) < PLAIN_MIN * len(lines):
            self._left_blocks = BLOCKS_LEFT
            return None
        rows: list[Row | None] = [*zip(self._keys(values, len(lines)), self._values(values, len(lines)), strict=True)]
        for number in np.flatnonzero(~is_plain).tolist():
            rows[number] = self._encode_line(lines[number], self._part)
        return rows

    def _values(self, values: list[Values], count: int) -> list[bytes]:
        return joined_rows(self._head, [piece for each in values for piece in each.pieces], self._part, count).rows()

    def _keys(self, values: list[Values], count: int) -> Sequence[bytes | None]:
        if self._key_head is None:
            return [None] * count
        of_key = zip(values, self._columns, strict=True)
        pieces = [piece for each, column in of_key if column.is_key for piece in each.pieces]
        keys: JoinedRows = joined_rows(self._key_head, pieces, self._key_tail, count)
        return keys.rows()
