"""The rows of a chunk as they are at E, most of them as the reader encoded them.

In: the rows that were read, the window of their chunk, the writer of the table as it is now. Out: blocks of encoded
rows; and those as TupleData that are to be encoded yet: which the window touched, which the reader left to the writer,
and all of them where the table has another name by now. Of listed keys also those that the source lacks at E.
"""

from collections.abc import Iterable, Iterator

from walbridge.producer.copying.window import Window
from walbridge.producer.encoding.copied_rows import CopiedBlock, EncodedRow
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.copy_text import tuple_of_line
from walbridge.producer.pgoutput.messages import Unsent
from walbridge.producer.pgoutput.tuple_data import encode_tuple
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkRead


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


def keys_gone(
    read: ChunkRead, window: Window, writer: RecordWriter, asked: Iterable[dict[str, str]], *, is_encoded: bool
) -> list[bytes]:
    """Of the keys that were asked for, those without a row at E, as Postgres sends an old key.

    One that was not read had no row in the snapshot. If a change that the snapshot lacks gave it one, the window has
    touched it, and the topic has from the stream what became of it.
    """
    tuples = [_key_tuple(writer, values) for values in asked]
    keys = {key: fields for fields in tuples if (key := writer.row_key(fields)) is not None}
    there = window.touched_keys()
    column_count = len(writer.relation.table.columns)
    for block in read.rows.blocks():
        for row, line in zip(block.rows, block.lines, strict=True):
            key = row[0] if is_encoded and row is not None else writer.row_key(tuple_of_line(line, column_count))
            if key is not None:
                there.add(key)
    return [fields for key, fields in keys.items() if key not in there]


def _key_tuple(writer: RecordWriter, values: dict[str, str]) -> bytes:
    columns = writer.relation.table.columns
    return encode_tuple([values[each.name].encode() if each.name in values else Unsent.NULL for each in columns])


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
