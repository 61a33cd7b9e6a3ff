"""The source read block by block, each in a statement of its own: no snapshot is kept for longer than some seconds.

In: a connection, a table. Out: fingerprints and rows as ``source.py`` gives them, of a table of any size.

The parts of a sweep show different moments, all between its begin and its end. Both proofs of
``comparison/verdict.py`` still hold if the cut before was published when the sweep began, and the next cut holds all
that had committed when it ended. A row version that is in two sweeps was there at the cut between them. A lake row that
is the same at the cuts before and after a sweep was, if the lake is right, one row version in one block all the time,
so the part with that block showed it. Only a rewrite of the table moves rows that nobody changes: such a sweep proves
nothing.

The parts are ranges of blocks, not of keys: tables without a key have them too, and they are read in the order of the
disk. For a partitioned table a part is these blocks of all partitions, read through the root: a role needs rights on
the root only.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from walbridge.verify.source import Source, SourceTable
from walbridge.verify.source_connection import Connection

PART_S = 1.0
"""A part is made so large that it takes about this long."""
_BLOCKS_FIRST, _BLOCKS_MAX = 64, 2**17
_RANGES_SINCE = 140000
"""From this version on Postgres reads a range of ctids without reading the whole table."""
_ROW_BYTES_MIN = 28
"""Of the smallest row with its line pointer."""
_FILES = """
SELECT c.oid, pg_relation_filenode(c.oid) AS file,
       pg_relation_size(c.oid) / current_setting('block_size')::int AS blocks
FROM pg_class c WHERE c.relkind IN ('r', 'm')
  AND (c.oid = %(oid)s OR c.oid IN (SELECT relid FROM pg_partition_tree(%(oid)s::oid::regclass)))
"""


class Rewritten(Exception):
    """The table's rows were moved while it was read."""


class Sweep(Source):
    """``beat`` is called before each part; it may raise."""

    def __init__(self, connection: Connection, beat: Callable[[], None]) -> None:
        super().__init__(connection)
        self._beat = beat
        self._version = connection.info.server_version

    def parts(self, table: SourceTable) -> Iterator[str]:
        """Ranges of the blocks that the table has now. Blocks added later hold rows newer than the cut before only.

        Raises:
            Rewritten: the table was rewritten meanwhile.
        """
        before = self._files(table)
        size, first, blocks = max((each["blocks"] for each in before), default=0), 0, _BLOCKS_FIRST
        while True:
            self._beat()
            last, began_s = min(first + blocks, size), time.monotonic()
            yield self._range(first, last)
            if last >= size:
                break
            first = last
            blocks = _next_blocks(blocks, time.monotonic() - began_s)
        if _places(before) != _places(self._files(table)):
            raise Rewritten(table.qualified_name)

    def _range(self, first: int, last: int) -> str:
        if self._version >= _RANGES_SINCE:
            return f"r.ctid >= '({first},0)'::tid AND r.ctid < '({last},0)'::tid"
        # Older servers would read the whole table for a range, but not for places that are listed.
        return (
            "r.ctid = ANY(ARRAY(SELECT ('(' || b || ',' || i || ')')::tid"
            f" FROM generate_series({first}, {last - 1}) AS b,"
            f" generate_series(1, current_setting('block_size')::int / {_ROW_BYTES_MIN}) AS i))"
        )

    def _files(self, table: SourceTable) -> list[dict[str, Any]]:
        return self._connection.execute(_FILES, {"oid": table.oid}).fetchall()


def _places(files: list[dict[str, Any]]) -> set[tuple[int, int]]:
    return {(each["oid"], each["file"]) for each in files}


def _next_blocks(blocks: int, took_s: float) -> int:
    """At most four times as many as before: the next blocks may have larger rows."""
    wanted = blocks * PART_S / max(took_s, PART_S / 4)
    return max(1, min(_BLOCKS_MAX, int(wanted)))


@contextmanager
def sweep(connection: Connection, beat: Callable[[], None]) -> Iterator[Source]:
    """A view of the source for one round."""
    yield Sweep(connection, beat)
