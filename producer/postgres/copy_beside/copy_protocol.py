"""What the stream asks of the reader of copies, and what the reader answers.

In: what is wanted: the published tables, one table as it is now, one chunk of its rows, or all of them. Out: answers,
in the order of the questions. The snapshot is told before the rows are read, since the stream's changes are judged by
it. All are values that two threads hand over and neither changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.copying.visibility import Before, Snapshot
from walbridge.producer.encoding.copied_rows import RowFormat
from walbridge.producer.postgres.facts import PublishedTable, TableFacts
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.postgres.table_reads.row_spool import RowSpool, RowSpools
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.position import Lsn


@dataclass(frozen=True, slots=True)
class TablesWanted:
    """Ask for all tables of the publication."""


@dataclass(frozen=True, slots=True)
class TableWanted:
    """Ask for what a table is now."""

    table: PublishedTable


@dataclass(frozen=True, slots=True)
class ChunkWanted:
    """Ask for rows: those of ``asked``, or of a range ``after`` a key; unless the snapshot lacks something of
    ``before``, or the table has another ``shape`` by now."""

    table: PublishedTable
    shape: str
    before: Before
    after: Bound | None
    asked: tuple[Bound, ...] | None
    rows_max: int
    bytes_max: int
    row_format: RowFormat


@dataclass(frozen=True, slots=True)
class WholeWanted:
    """Ask for all rows, unless the snapshot lacks something of ``before``, or the table has another ``shape``."""

    table: PublishedTable
    shape: str
    before: Before


@dataclass(frozen=True, slots=True)
class TablesFound:
    """Nobody altered any of them."""

    tables: tuple[PublishedTable, ...]


@dataclass(frozen=True, slots=True)
class TableFound:
    """A table in a moment in which nobody could alter it: what committed at or above ``lsn`` was made later.

    ``key_names``: columns of its key in their order; None where it has none that rows could be read by.
    ``size``: an estimate, for who waits.
    ``membership``: what made it a member of the publication.
    """

    table: PublishedTable
    facts: TableFacts
    types: Mapping[int, TypeFacts]
    shape: str
    key_names: tuple[str, ...] | None
    lsn: Lsn
    size: TableSize | None = None
    membership: str | None = None


@dataclass(frozen=True, slots=True)
class ChunkShown:
    """The snapshot is taken; ``is_read``: its rows come next. ``labels``: ``TableStorage.labels`` as of the snapshot:
    its rows have no other labels, though one that is renamed meanwhile is read by its new name."""

    snapshot: Snapshot
    is_read: bool
    labels: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChunkAltered:
    """The table has another shape than that which was asked for; nothing was read."""


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """The rows. All that they show is below ``insert_lsn``."""

    rows: RowSpool | RowSpools
    insert_lsn: Lsn
    row_count: int
    size_bytes: int
    bound: Bound | None
    is_last: bool


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Some of all rows; to be given back (``CopyReader.give_back``) once nobody holds them any more."""

    rows: tuple[bytes, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WholeRead:
    """There are no more rows. All that they show is below ``insert_lsn``."""

    insert_lsn: Lsn


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing was read, or not all of it."""

    error: BaseException


Wanted = TablesWanted | TableWanted | ChunkWanted | WholeWanted
Answer = TablesFound | TableFound | ChunkShown | ChunkAltered | ChunkRead | RowsRead | WholeRead | Failed
