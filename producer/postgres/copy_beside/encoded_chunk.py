"""One chunk of a table, read and encoded: by the thread of the copies' reader, or in parts by worker processes.

In: a read of the table, which holds its lock and its snapshot, and what is wanted of it. Out: its snapshot, then its
rows in files, so that memory is bounded by a block of them.

Parts of a chunk are ranges of its key's order in one snapshot: the key of the n-th row is looked up first, one worker
reads n rows and another one those after that key. So the parts are the chunk's rows, whoever reads them; a part that
ends before its n rows, since they are large, ends the chunk, and so does one with which the chunk has its bytes. A
worker can begin a part only while the read is there that exported the snapshot, and with it the lock; that it still
is, is asked for at the end.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.encoding.copied_rows import RowEncoder, RowFormat
from walbridge.producer.errors.disks import spool_unwritable
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    ChunkAltered,
    ChunkRead,
    ChunkShown,
    ChunkWanted,
    WholeWanted,
)
from walbridge.producer.postgres.copy_workers.pool import Answered, CopyWorkers
from walbridge.producer.postgres.copy_workers.protocol import RangeWanted
from walbridge.producer.postgres.table_reads.chunk_reader import TableRead
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.postgres.table_reads.row_spool import RowSpool, RowSpools
from walbridge.schemas.errors import RetryableError

PART_ROWS_MIN = 100
"""Fewer are read as soon by one."""


@dataclass(frozen=True, slots=True)
class _Part:
    spool: RowSpool
    row_count: int
    size_bytes: int
    bound: Bound | None
    is_last: bool


def chunk_answers(
    read: TableRead,
    wanted: ChunkWanted,
    folder: str,
    is_wanted: Callable[[], bool],
    workers: CopyWorkers | None = None,
) -> Iterator[ChunkAltered | ChunkShown | ChunkRead]:
    """The snapshot, and then the rows if they are those that were asked for, for as long as ``is_wanted``.

    Raises:
        OperatorError: the folder cannot be written.
        ProtocolError: a line is malformed.
        RetryableError: the connection ended.
    """
    shown = shown_to(read, wanted)
    yield shown
    if not isinstance(shown, ChunkShown) or not shown.is_read:
        return
    if workers is not None and wanted.asked is None and wanted.rows_max >= 2 * PART_ROWS_MIN:
        parts = _by_workers(read, wanted, folder, is_wanted, workers)
    else:
        parts = [part] if (part := _by_itself(read, wanted, folder, is_wanted)) is not None else []
    if not parts:
        return
    row_count, size_bytes = sum(part.row_count for part in parts), sum(part.size_bytes for part in parts)
    rows = RowSpools([part.spool for part in parts])
    try:
        read.refuse_lost()
    except BaseException:
        rows.close()
        raise
    yield ChunkRead(rows, read.insert_lsn, row_count, size_bytes, parts[-1].bound, parts[-1].is_last)


def _by_itself(read: TableRead, wanted: ChunkWanted, folder: str, is_wanted: Callable[[], bool]) -> _Part | None:
    if wanted.asked is not None:
        encoded = _encoded(read.listed_blocks(wanted.asked), wanted.row_format, folder, is_wanted)
        return None if encoded is None else _Part(*encoded, None, is_last=False)
    return _range(read, wanted.after, wanted.rows_max, wanted.bytes_max, wanted.row_format, folder, is_wanted)


def _range(
    read: TableRead,
    after: Bound | None,
    rows_max: int,
    bytes_max: int,
    row_format: RowFormat,
    folder: str,
    is_wanted: Callable[[], bool],
) -> _Part | None:
    rows = read.range_after(after, rows_max, bytes_max)
    encoded = _encoded(rows.blocks(), row_format, folder, is_wanted)
    return None if encoded is None else _Part(*encoded, rows.bound, rows.is_end)


def _encoded(
    blocks: Iterable[list[bytes]], row_format: RowFormat, folder: str, is_wanted: Callable[[], bool]
) -> tuple[RowSpool, int, int] | None:
    """Rows, how many, and their bytes; None where they are not wanted any more."""
    row_count, size_bytes = 0, 0
    encoder = RowEncoder(row_format)
    try:
        spool = RowSpool(folder)
        for lines in blocks:
            if not is_wanted():
                spool.close()
                return None
            if lines:
                spool.append(encoder.block(lines))
                row_count, size_bytes = row_count + len(lines), size_bytes + sum(map(len, lines))
        spool.finish()
    except OSError as error:
        raise spool_unwritable(folder, error.strerror) from None
    return spool, row_count, size_bytes


def _by_workers(
    read: TableRead, wanted: ChunkWanted, folder: str, is_wanted: Callable[[], bool], workers: CopyWorkers
) -> list[_Part]:
    """The parts of a chunk in their order; none where it is not wanted any more.

    Raises:
        RetryableError: they are not of one state.
    """
    ranges = _ranges(read, wanted, workers.count)
    answers: dict[Bound | None, Answered] = {}
    found: list[_Part] = []
    is_whole = False
    try:
        for answered in workers.read(iter(ranges)):
            if answered is not None and isinstance(answered.wanted, RangeWanted):
                answers[answered.wanted.after] = answered
            elif not is_wanted():
                workers.close()
                return []
        for part in _joined(read, wanted, ranges, answers, folder, is_wanted):
            if part is None:
                return []
            found.append(part)
        is_whole = True
    finally:
        kept = [id(part.spool) for part in found if is_whole]
        for spool in [*(each.rows for each in answers.values()), *(part.spool for part in found)]:
            if spool is not None and id(spool) not in kept:
                spool.close()
    return found


def _joined(
    read: TableRead,
    wanted: ChunkWanted,
    ranges: list[RangeWanted],
    answers: Mapping[Bound | None, Answered],
    folder: str,
    is_wanted: Callable[[], bool],
) -> Iterator[_Part | None]:
    """The parts up to the one that ends the chunk; None for one that is not wanted any more."""
    bytes_left = wanted.bytes_max
    for each, following in zip(ranges, [*ranges[1:], None], strict=True):
        if (part := _part_of(answers[each.after])) is None:
            # Nothing of a part was handed over that a worker gave back, or died with: it is read here, under the same
            # lock.
            read.refuse_lost()
            part = _range(read, each.after, each.rows_max, bytes_left, wanted.row_format, folder, is_wanted)
        yield part
        if part is None or (part.row_count < each.rows_max and not (part.is_last and following)):
            return
        if following is not None and part.bound != following.after:
            # In one snapshot the last of n rows has the key that was looked up for the n-th.
            raise RetryableError(f"parts of table {read.table.qualified_name} are not of one state")
        bytes_left -= part.size_bytes
        if bytes_left <= 0:
            return


def _ranges(read: TableRead, wanted: ChunkWanted, count: int) -> list[RangeWanted]:
    """As many as there are workers, or rows for them."""
    count = min(count, wanted.rows_max // PART_ROWS_MIN)
    ends = [wanted.rows_max * number // count for number in range(1, count)]
    bounds = read.bounds_after(wanted.after, ends)
    ends = [*ends[: len(bounds)], wanted.rows_max]
    name, key = read.export(), read.key
    assert key is not None
    return [
        RangeWanted(name, read.table, wanted.row_format, key, after, end - begin, wanted.bytes_max)
        for after, begin, end in zip([wanted.after, *bounds], [0, *ends], ends, strict=False)
    ]


def _part_of(answered: Answered) -> _Part | None:
    handed, spool = answered.handed, answered.rows
    if handed is None or spool is None:
        return None
    return _Part(spool, handed.row_count, handed.size_bytes, handed.bound, handed.is_end)


def shown_to(read: TableRead, wanted: ChunkWanted | WholeWanted) -> ChunkAltered | ChunkShown:
    """Whether the rows are those that were asked for."""
    if shape_of(read) != wanted.shape:
        return ChunkAltered()
    snapshot, before = Snapshot.parse(read.snapshot), wanted.before
    is_read = before.has_ended_in(snapshot) and before.is_contained_in(snapshot)
    return ChunkShown(snapshot, is_read, read.labels() if is_read else frozenset())


def shape_of(read: TableRead) -> str:
    """What the copy of a table is of: its columns, its file and its key's order, whatever it is called."""
    storage = [(relation_id, *rest) for relation_id, _name, _schema, *rest in read.storage]
    return hashlib.blake2b(repr((storage, read.key)).encode(), digest_size=16).hexdigest()
