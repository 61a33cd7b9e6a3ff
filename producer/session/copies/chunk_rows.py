"""The rows of a chunk as they are at E, most of them as the reader encoded them.

In: the rows that were read, the window of their chunk, the writer of the table as it is now. Out: blocks of encoded
rows; and those as TupleData that are to be encoded yet: which the window touched, which the reader left to the writer,
and all of them where the table has another name by now.
"""

from collections.abc import Iterator

from walbridge.producer.copying.window import Window
from walbridge.producer.encoding.copied_rows import CopiedBlock, EncodedRow
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.copy_text import tuple_of_line
from walbridge.producer.postgres.copy_reader import ChunkRead


def rows_at_end(
    read: ChunkRead, window: Window, writer: RecordWriter, *, is_encoded: bool
) -> Iterator[list[EncodedRow] | bytes]:
    """Each row that was read and is still there; the touched ones at the end.

    Args:
        is_encoded: whether the rows are encoded as this writer does it.
    """
    touched = window.touched_keys()
    has_others = bool(touched) or not is_encoded
    if is_encoded:
        for block in read.rows.blocks():
            rows = [row for row in block.rows if row is not None and row[0] not in touched]
            has_others = has_others or len(rows) < len(block.lines)
            yield rows
    if has_others:
        others = _others(read.rows.blocks(), touched, writer, is_encoded=is_encoded)
        yield from (row for _, row in window.rows_at_end(others))


def _others(
    blocks: Iterator[CopiedBlock], touched: set[bytes], writer: RecordWriter, *, is_encoded: bool
) -> Iterator[tuple[bytes, bytes]]:
    column_count = len(writer.relation.table.columns)
    for block in blocks:
        for row, line in zip(block.rows, block.lines, strict=True):
            if not is_encoded or row is None or row[0] in touched:
                fields = tuple_of_line(line, column_count)
                key = writer.row_key(fields)
                assert key is not None
                yield key, fields
