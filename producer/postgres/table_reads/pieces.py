"""Pieces of tables: ranges of their pages, which several connections read at a time in one snapshot.

In: published tables that are locked, and their sizes. Out: pieces that together are each row of the snapshot once. A
row is on one page and stays there while the table is locked against rewrites, and the last piece has no upper end, so
that an estimate of pages that is too low leaves no row out. A partitioned table is cut as one: a piece has those pages
of every partition.

Postgres reads a range of pages alone only from version 14 on ("TID Range Scan"), and only in a heap. Of other tables
the whole is one piece.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import psycopg
from psycopg import sql

from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.table_reads.table_size import TablePages

PIECE_BYTES = 16 * 2**20
"""Of the table's files, TOAST with them: a piece waits on disk until all of it is there."""
WHOLE_BYTES_MAX = 4 * PIECE_BYTES
"""What is more than this and cannot be cut is no piece for a worker, whose rows wait on disk."""
RANGES_SINCE = 140_000

# A range is read as one: any other way would read the whole table for it.
_BY_PAGES = "; ".join(
    f"SET LOCAL {name} = {value}"
    for name, value in {
        "enable_seqscan": "off",
        "enable_indexscan": "off",
        "enable_indexonlyscan": "off",
        "enable_bitmapscan": "off",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
    }.items()
)


@dataclass(frozen=True, slots=True)
class Piece:
    """The pages from ``first`` on that are before ``end``; None: from the first one on, or to the last one.

    ``is_large``: it cannot be cut further, and is too much to wait on disk.
    """

    table: PublishedTable
    first: int | None = None
    end: int | None = None
    is_large: bool = False

    @property
    def condition(self) -> sql.Composable | None:
        """On rows of the table, which is called ``t``; None for all of them."""
        bounds = [
            sql.SQL("t.ctid {} {}::tid").format(sql.SQL(comparison), sql.Literal(f"({page},0)"))
            for comparison, page in ((">=", self.first), ("<", self.end))
            if page is not None
        ]
        return sql.SQL(" AND ").join(bounds) if bounds else None


def pieces_of(
    tables: Iterable[PublishedTable], pages: Mapping[int, TablePages], server_version: int
) -> Iterator[Piece]:
    """Of each table in its turn.

    Args:
        pages: by relation id.
    """
    for table in tables:
        known = pages.get(table.relation_id, TablePages(0, 0, is_heap=False))
        if not known.is_heap or server_version < RANGES_SINCE:
            yield Piece(table, is_large=known.size_bytes > WHOLE_BYTES_MAX)
            continue
        count = min(-(-known.size_bytes // PIECE_BYTES), known.pages)
        ends = [known.pages * number // count for number in range(1, count)]
        is_large = known.size_bytes > count * WHOLE_BYTES_MAX  # few pages, and much in their TOAST
        for first, end in zip([None, *ends], [*ends, None], strict=True):
            yield Piece(table, first, end, is_large=is_large)


def read_by_pages(connection: psycopg.Connection[object]) -> None:
    """Until the transaction ends."""
    connection.execute(_BY_PAGES.encode())
