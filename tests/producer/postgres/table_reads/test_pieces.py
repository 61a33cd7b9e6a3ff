"""Pieces of tables, without a server: together they are each page once."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.producer.postgres.table_reads.test_snapshot import published
from walbridge.producer.postgres.table_reads.pieces import PIECE_BYTES, WHOLE_BYTES_MAX, Piece, pieces_of
from walbridge.producer.postgres.table_reads.table_size import TablePages

TABLE = published()


def pieces(pages: TablePages, server_version: int = 180_000) -> list[Piece]:
    return list(pieces_of([TABLE], {TABLE.relation_id: pages}, server_version))


def holds(piece: Piece, page: int) -> bool:
    return (piece.first is None or piece.first <= page) and (piece.end is None or page < piece.end)


@given(pages=st.integers(0, 5_000), size=st.integers(0, 200 * PIECE_BYTES), grown=st.integers(0, 100))
@example(pages=0, size=PIECE_BYTES * 3, grown=1)
@example(pages=1, size=PIECE_BYTES * 3, grown=0)
def test_each_page_is_in_one_piece_also_those_that_came_since(pages: int, size: int, grown: int) -> None:
    """I8: what is in none is missing in the copy, what is in two is there twice."""
    cut = pieces(TablePages(pages, size, is_heap=True))

    ends = [piece.end for piece in cut]
    assert [piece.first for piece in cut] == [None, *ends[:-1]]
    assert ends[-1] is None
    for page in {0, *(end + step for end in ends[:-1] if end is not None for step in (-1, 0, 1)), pages + grown}:
        assert sum(holds(piece, page) for piece in cut) == 1


@given(pages=st.integers(1_000, 5_000), size=st.integers(1, 400 * PIECE_BYTES))
def test_piece_is_a_share_of_the_files_size(pages: int, size: int) -> None:
    """I9: its rows wait on disk."""
    cut = pieces(TablePages(pages, size, is_heap=True))

    assert (len(cut) - 1) * PIECE_BYTES < size <= len(cut) * PIECE_BYTES


def test_table_that_no_range_of_pages_can_be_read_of_is_one_piece() -> None:
    """Small ones are a worker's; the rows of a large one would fill the disk."""
    small, large = (TablePages(9, size, is_heap=True) for size in (WHOLE_BYTES_MAX, WHOLE_BYTES_MAX + 1))

    assert pieces(small, 130_000) == [Piece(TABLE)]
    assert pieces(large, 130_000) == [Piece(TABLE, is_large=True)]
    assert pieces(TablePages(9, 10 * PIECE_BYTES, is_heap=False)) == [Piece(TABLE, is_large=True)]


@pytest.mark.parametrize(("size", "is_large"), [(100 * WHOLE_BYTES_MAX, False), (100 * WHOLE_BYTES_MAX + 1, True)])
def test_pages_with_more_out_of_line_than_a_piece_may_have_are_read_by_the_producer(size: int, is_large: bool) -> None:
    """I9: a page is the least that can be read alone."""
    cut = pieces(TablePages(100, size, is_heap=True))

    assert len(cut) == 100
    assert {piece.is_large for piece in cut} == {is_large}


def test_whole_table_has_no_condition() -> None:
    assert Piece(TABLE).condition is None
    middle = Piece(TABLE, 3, 7).condition
    assert middle is not None
    assert middle.as_string(None) == "t.ctid >= '(3,0)'::tid AND t.ctid < '(7,0)'::tid"
