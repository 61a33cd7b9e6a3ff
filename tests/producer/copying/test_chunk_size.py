"""Chunks are halved when their windows are too large, and grow again."""

from walbridge.producer.copying.chunk_size import (
    LARGEST_BYTES,
    LARGEST_ROWS,
    SMALLEST_BYTES,
    SMALLEST_ROWS,
    ChunkSize,
)


def test_chunk_is_halved_when_its_window_was_too_large() -> None:
    assert ChunkSize(1_000, 2**20).after_too_large() == ChunkSize(500, 2**19)


def test_chunk_is_never_smaller_than_the_smallest() -> None:
    size = ChunkSize()
    for _ in range(40):
        size = size.after_too_large()

    assert (size.row_count, size.size_bytes) == (SMALLEST_ROWS, SMALLEST_BYTES)


def test_chunk_is_doubled_after_several_that_entered() -> None:
    sizes = [size := ChunkSize(1_000, 2**20)]
    for _ in range(4):
        sizes.append(size := size.after_entry())

    assert [each.row_count for each in sizes] == [1_000, 1_000, 1_000, 1_000, 2_000]
    assert sizes[-1].size_bytes == 2**21


def test_window_that_is_too_large_begins_the_count_anew() -> None:
    size = ChunkSize(1_000, 2**20).after_entry().after_entry().after_entry().after_too_large().after_entry()

    assert size.row_count == 500


def test_chunk_never_grows_beyond_the_largest() -> None:
    size = ChunkSize()
    for _ in range(40):
        size = size.after_entry()

    assert (size.row_count, size.size_bytes) == (LARGEST_ROWS, LARGEST_BYTES)
