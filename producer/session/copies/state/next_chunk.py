"""What the next chunk of a copied table reads: behind which key or of which keys, and how much at the most.

In: how far the copy is, the chunks that are open before it. Out: keys as the text by which rows are asked for, numbers
of rows and bytes. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from walbridge.producer.copying.chunk_size import SMALLEST_BYTES, SMALLEST_ROWS, ChunkSize
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.session.copies.state.open_chunk import OpenChunk
from walbridge.schemas.control.table_progress import TableCopy
from walbridge.schemas.control.table_request import key_values
from walbridge.schemas.settings_sections import Producer

FIRST_ROWS = 1_000
"""Of a copy's first chunk: how large rows are is not known yet."""
LIMITED_CHUNKS_PER_S = 4
"""Of a copy whose speed is limited. Each costs other tables two Kafka transactions and a look at the catalogue besides
its rows: ten a second would take half of the producer's time, and a chunk of a quarter of a second's rows enters in
some 60 ms."""


def last_key_read(copy: TableCopy, open_chunks: Sequence[OpenChunk]) -> Bound | None:
    """The key behind which the next range begins; None where that is the first row."""
    if open_chunks and (read := open_chunks[-1].read) is not None:
        return read.bound
    return None if copy.bound is None else Bound(copy.bound)


def chunk_limits(
    copy: TableCopy, open_chunks: Sequence[OpenChunk], size: ChunkSize, limits: Producer
) -> tuple[int, int]:
    """Rows and bytes that a chunk may have."""
    bytes_max = min(size.size_bytes, limits.batch_bytes_max)
    if limits.copy_bytes_per_s:
        # The other tables wait while a chunk enters: a copy that is to go slowly takes small ones.
        bytes_max = min(bytes_max, max(limits.copy_bytes_per_s // LIMITED_CHUNKS_PER_S, SMALLEST_BYTES))
    rows_max = min(size.row_count, limits.batch_rows_max)
    reads = [chunk.read for chunk in open_chunks if chunk.read is not None]
    rows = copy.rows + sum(read.row_count for read in reads)
    size_bytes = copy.bytes + sum(read.size_bytes for read in reads)
    average = size_bytes // rows if rows else bytes_max // FIRST_ROWS
    return min(rows_max, max(SMALLEST_ROWS, bytes_max // max(average, 1))), bytes_max


def moved_keys(
    listed: Mapping[bytes, bytes], column_names: Sequence[str], key_names: Sequence[str]
) -> dict[bytes, Bound] | None:
    """The keys that the stream listed, of their rows as it sent them; None where one cannot be told as text."""
    asked = {}
    for key, row in listed.items():
        values = dict(zip(column_names, decode_tuple(row), strict=True))
        texts = [values[name] for name in key_names]
        if not all(isinstance(text, bytes) for text in texts):
            return None  # in binary
        asked[key] = Bound(tuple(text.decode() for text in texts if isinstance(text, bytes)))
    return asked


def keys_asked_for(listed: Iterable[bytes], key_names: Sequence[str], rows_max: int) -> dict[bytes, Bound]:
    """The first of the keys that an operator listed."""
    return {key: Bound(tuple(key_values(key)[name] for name in key_names)) for key in islice(listed, rows_max)}


def have_columns(listed: Iterable[bytes], key_names: Sequence[str]) -> bool:
    """Whether the keys that an operator listed are of the key that the table has."""
    names = set(key_names)
    return bool(names) and all(key_values(key).keys() == names for key in listed)
