"""A chunk that workers read in parts, without servers: what of it is handed over, and what is not."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import cast

import pytest

from tests.producer.avro_reader import record_of
from tests.producer.postgres.table_reads.test_snapshot import published
from tests.producer.written_record import ID, NAME
from walbridge.producer.copying.visibility import Before
from walbridge.producer.encoding.copied_rows import CopiedBlock, RowFormat
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkRead, ChunkWanted
from walbridge.producer.postgres.copy_beside.encoded_chunk import chunk_answers, shape_of
from walbridge.producer.postgres.copy_workers.pool import Answered, CopyWorkers
from walbridge.producer.postgres.copy_workers.protocol import RangeWanted, RowsHanded
from walbridge.producer.postgres.table_reads.chunk_reader import TableRead
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.postgres.table_reads.row_spool import RowSpool
from walbridge.schemas.errors import RetryableError

TABLE = published()
FORMAT = RowFormat(record_of(ID, NAME), b"part")
ROWS = 1_000


def line(number: int) -> bytes:
    return b"%d\tv\n" % number


def at(number: int) -> Bound:
    return Bound((str(number),))


def number_of(bound: Bound | None) -> int:
    return 0 if bound is None else int(bound.values[0])


class Range:
    """Rows of the numbers behind one, up to the one that reaches a limit."""

    def __init__(self, after: Bound | None, rows_max: int, bytes_max: int) -> None:
        first, size = number_of(after), 0
        self._numbers: list[int] = []
        while first + len(self._numbers) < ROWS and len(self._numbers) < rows_max and size < bytes_max:
            self._numbers.append(first + len(self._numbers) + 1)
            size += len(line(self._numbers[-1]))
        self.is_end = len(self._numbers) < rows_max and size < bytes_max
        self.bound = at(self._numbers[-1]) if self._numbers else at(first)

    def blocks(self) -> Iterator[list[bytes]]:
        yield [line(number) for number in self._numbers]


class Read:
    """A table of so many rows, whose keys are their numbers."""

    table = TABLE
    snapshot = "10:10:"
    storage: tuple[()] = ()
    key = "the key"
    insert_lsn = 7

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.is_lost = False

    def labels(self) -> frozenset[str]:
        return frozenset()

    def export(self) -> str:
        return "exported"

    def refuse_lost(self) -> None:
        if self.is_lost:
            raise RetryableError("the connection ended")

    def bounds_after(self, after: Bound | None, counts: list[int]) -> list[Bound]:
        first = number_of(after)
        return [at(first + count) for count in counts if first + count <= ROWS]

    def range_after(self, after: Bound | None, rows_max: int, bytes_max: int) -> Range:
        self.ranges.append((number_of(after), rows_max))
        return Range(after, rows_max, bytes_max)


class Spool:
    """Stands for a file."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines, self.is_closed = lines, False

    def blocks(self) -> Iterator[CopiedBlock]:
        yield CopiedBlock([(None, each) for each in self._lines], self._lines)

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Workers:
    """They answer in any order, and read all but what they are told not to: ``unread``, or only the first few rows of
    ``short``; both by what comes before a part. ``shifts``: they see another state."""

    count: int = 3
    unread: tuple[int, ...] = ()
    short: tuple[int, ...] = ()
    shifts: bool = False

    def __post_init__(self) -> None:
        self.spools: list[Spool] = []
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def read(self, wanted: Iterator[RangeWanted]) -> Iterator[Answered | None]:
        yield None
        for each in reversed(list(wanted)):
            after = number_of(each.after)
            if after in self.unread:
                yield Answered(each, None)
                continue
            rows = Range(each.after, 5 if after in self.short else each.rows_max, each.bytes_max)
            (lines,) = rows.blocks()
            spool = Spool(lines)
            self.spools.append(spool)
            bound = at(int(rows.bound.values[0]) + 1) if self.shifts else rows.bound
            is_end = rows.is_end and after not in self.short
            handed = RowsHanded(len(lines), sum(map(len, lines)), bound, is_end)
            yield Answered(each, cast(RowSpool, spool), handed)


def answered(
    workers: Workers | None,
    read: Read | None = None,
    rows_max: int = 600,
    after: int = 0,
    is_wanted: bool = True,
    bytes_max: int = 10**6,
) -> ChunkRead | None:
    seen = cast(TableRead, read or Read())
    begin = at(after) if after else None
    before = Before(0, array("I"))
    wanted = ChunkWanted(TABLE, shape_of(seen), before, begin, None, rows_max, bytes_max, FORMAT)
    folder = tempfile.gettempdir()
    _, *rest = chunk_answers(seen, wanted, folder, lambda: is_wanted, cast("CopyWorkers | None", workers))
    chunk = rest[0] if rest else None
    assert chunk is None or isinstance(chunk, ChunkRead)
    return chunk


def numbers(chunk: ChunkRead | None) -> list[int]:
    assert chunk is not None
    with closing(chunk.rows) as rows:
        found = [int(each.split(b"\t")[0]) for block in rows.blocks() for each in block.lines]
    assert chunk.row_count == len(found)
    assert chunk.bound == at(found[-1])
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize(("after", "rows_max"), [(0, 600), (300, 600), (600, 600), (0, 1000), (0, 1001)])
def test_parts_are_together_the_rows_of_the_range_in_their_order(count: int, after: int, rows_max: int) -> None:
    """I8"""
    chunk = answered(Workers(count), after=after, rows_max=rows_max)

    assert numbers(chunk) == list(range(after + 1, min(after + rows_max, ROWS) + 1))
    assert chunk is not None
    assert chunk.is_last == (after + rows_max > ROWS)


def test_part_that_no_worker_read_is_read_in_the_snapshot_itself() -> None:
    """I8: what a worker had read when it died is nowhere."""
    read = Read()

    assert numbers(answered(Workers(unread=(0, 200)), read)) == list(range(1, 601))
    assert read.ranges == [(0, 200), (200, 200)]


def test_part_that_ends_by_its_bytes_ends_the_chunk_and_the_next_one_goes_on_there() -> None:
    """I8: what lies behind it would leave a gap."""
    workers = Workers(short=(200,))
    chunk = answered(workers)

    assert numbers(chunk) == list(range(1, 206))
    assert chunk is not None
    assert not chunk.is_last
    assert all(spool.is_closed for spool in workers.spools)


@pytest.mark.parametrize("unread", [(), (0,), (200,), (400,), (0, 200, 400)])
def test_part_with_which_a_chunk_has_its_bytes_ends_it_whoever_reads_the_parts(unread: tuple[int, ...]) -> None:
    """I9: a chunk is one Kafka transaction, and each part alone may have its bytes."""
    workers, rows = Workers(unread=unread), 250
    bytes_max = sum(len(line(number)) for number in range(1, rows + 1))
    chunk = answered(workers, bytes_max=bytes_max)

    assert chunk is not None
    assert numbers(chunk) == list(range(1, (rows if 200 in unread else 400) + 1))
    assert not chunk.is_last
    assert all(spool.is_closed for spool in workers.spools)


def test_parts_of_another_state_are_not_put_together() -> None:
    """I8"""
    workers = Workers(shifts=True)
    with pytest.raises(RetryableError, match="not of one state"):
        answered(workers)

    assert all(spool.is_closed for spool in workers.spools)


@pytest.mark.parametrize("unread", [(), (200,), None], ids=["by workers", "one part by none", "without workers"])
def test_chunk_whose_lock_was_lost_on_the_way_is_not_handed_over(unread: tuple[int, ...] | None) -> None:
    """I8: a worker may have begun its part when the table was another one already."""
    read, workers = Read(), None if unread is None else Workers(unread=unread)
    read.is_lost = True
    with pytest.raises(RetryableError, match="connection ended"):
        answered(workers, read)

    assert workers is None or all(spool.is_closed for spool in workers.spools)


def test_workers_are_ended_where_their_chunk_is_not_wanted_any_more() -> None:
    workers = Workers()

    assert answered(workers, is_wanted=False) is None
    assert workers.closed == 1


def test_few_rows_are_not_divided() -> None:
    read, workers = Read(), Workers()

    assert numbers(answered(workers, read, rows_max=150)) == list(range(1, 151))
    assert read.ranges == [(0, 150)]
    assert not workers.spools
