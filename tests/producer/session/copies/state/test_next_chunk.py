"""What the next chunk of a copied table reads: pure."""

from __future__ import annotations

from typing import Any

from tests.producer.copied_session import row
from tests.producer.pgoutput.encoder import tuple_data
from walbridge.producer.copying.chunk_size import SMALLEST_BYTES, SMALLEST_ROWS, ChunkSize
from walbridge.producer.pgoutput.messages import Binary, Unsent
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkRead
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.session.copies.state.next_chunk import (
    FIRST_ROWS,
    LIMITED_CHUNKS_PER_S,
    chunk_limits,
    have_columns,
    keys_asked_for,
    last_key_read,
    moved_keys,
)
from walbridge.producer.session.copies.state.open_chunk import OpenChunk
from walbridge.schemas.control.table_progress import TableCopy
from walbridge.schemas.control.table_request import key_json
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings_sections import Producer

BEGUN = TableCopy(Lsn(100))
NOTHING: Any = None
"""No window, writer or rows are looked at here."""


def read(row_count: int, size_bytes: int, bound: Bound | None) -> OpenChunk:
    return OpenChunk(NOTHING, NOTHING, None, ChunkRead(NOTHING, Lsn(0), row_count, size_bytes, bound, is_last=False))


def copied(rows: int, size_bytes: int) -> TableCopy:
    return TableCopy(Lsn(100), ("9",), rows, size_bytes, 1)


def test_range_begins_behind_the_chunk_before_it_though_that_has_not_entered() -> None:
    assert last_key_read(copied(10, 100), [read(5, 50, Bound(("14",)))]) == Bound(("14",))


def test_range_begins_behind_what_progress_says_or_at_the_first_row() -> None:
    assert last_key_read(copied(10, 100), []) == Bound(("9",))
    assert last_key_read(BEGUN, []) is None


def test_first_chunk_is_small_since_nobody_knows_how_large_rows_are() -> None:
    rows_max, bytes_max = chunk_limits(BEGUN, [], ChunkSize(), Producer())
    assert FIRST_ROWS <= rows_max <= FIRST_ROWS + 1
    assert bytes_max == ChunkSize().size_bytes


def test_rows_are_as_many_as_fit_by_those_that_were_read() -> None:
    """I9: those of chunks that have not entered yet count as well."""
    size = ChunkSize(100_000, 1_000_000)
    assert chunk_limits(copied(10, 10_000), [], size, Producer())[0] == 1_000
    assert chunk_limits(copied(10, 10_000), [read(10, 30_000, None)], size, Producer())[0] == 500


def test_large_rows_leave_a_chunk_its_smallest_number_and_its_bytes() -> None:
    assert chunk_limits(copied(1, 2**30), [], ChunkSize(), Producer())[0] == SMALLEST_ROWS


def test_chunk_is_no_larger_than_a_batch() -> None:
    limits = Producer(batch_rows_max=7, batch_bytes_max=2_000)
    assert chunk_limits(copied(10, 10), [], ChunkSize(), limits) == (7, 2_000)


def test_copy_whose_speed_is_limited_takes_small_chunks() -> None:
    quick, slow = (Producer(copy_bytes_per_s=each * LIMITED_CHUNKS_PER_S) for each in (2**20, 1))
    assert chunk_limits(copied(10, 10), [], ChunkSize(), quick)[1] == 2**20
    assert chunk_limits(copied(10, 10), [], ChunkSize(), slow)[1] == SMALLEST_BYTES


def test_keys_that_rows_came_to_are_told_as_the_stream_sent_them() -> None:
    assert moved_keys({b"a": row(3, Unsent.NULL)}, ["id", "note"], ["id"]) == {b"a": Bound(("3",))}


def test_key_in_binary_cannot_be_told_nor_one_beside_it() -> None:
    listed = {b"a": row(3, Unsent.NULL), b"b": tuple_data(Binary(b"\0\0\0\4"), Unsent.NULL)}
    assert moved_keys(listed, ["id", "note"], ["id"]) is None


def test_keys_of_an_operator_are_read_some_at_a_time_in_the_order_of_the_tables_key() -> None:
    listed = [key_json({"a": str(n), "b": "x"}) for n in range(3)]
    assert list(keys_asked_for(listed, ["b", "a"], 2).values()) == [Bound(("x", "0")), Bound(("x", "1"))]


def test_keys_of_other_columns_than_the_tables_are_not_read() -> None:
    listed = [key_json({"a": "1"})]
    assert have_columns(listed, ["a"])
    assert not have_columns(listed, ["a", "b"])
    assert not have_columns(listed, [])
