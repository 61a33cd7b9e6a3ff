"""What the producer asks of a worker process, and what a worker answers.

In: a part of a table in an exported snapshot: a piece of its pages, or a range of its key's order; and of which
relation version its rows are made. Out: its rows in a file, whose descriptor follows the answer; or why they could not
be read, in words that hold no value of a row (I10).
"""

from dataclasses import dataclass

from walbridge.producer.encoding.copied_rows import RowFormat
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.table_reads.key_order import Bound, KeyOrder
from walbridge.producer.postgres.table_reads.pieces import Piece
from walbridge.schemas.errors import WalbridgeError


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a worker is told first. ``folder``: for rows."""

    dsn: str
    folder: str


@dataclass(frozen=True, slots=True)
class PieceWanted:
    """Ask for the rows of a piece. Lines stay only of those that are not encoded."""

    snapshot: str
    piece: Piece
    row_format: RowFormat

    @property
    def table(self) -> PublishedTable:
        return self.piece.table


@dataclass(frozen=True, slots=True)
class RangeWanted:
    """Ask for rows in the key's order, after a key; see ``KeyRange``."""

    snapshot: str
    table: PublishedTable
    row_format: RowFormat
    key: KeyOrder
    after: Bound | None
    rows_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class RowsHanded:
    """All of them. ``bound``, ``is_end``: of a range, as ``KeyRange`` has them."""

    row_count: int
    size_bytes: int
    bound: Bound | None = None
    is_end: bool = True


@dataclass(frozen=True, slots=True)
class NotRead:
    """Nothing is handed over."""

    reason: str

    @classmethod
    def because(cls, error: Exception) -> "NotRead":
        """Without a value (I10): only our own words are known to have none."""
        if isinstance(error, WalbridgeError):
            return cls(str(error))
        words = f": {error.strerror}" if isinstance(error, OSError) else ""
        return cls(f"{type(error).__name__}{words}")


Wanted = PieceWanted | RangeWanted
Message = RowsHanded | NotRead
