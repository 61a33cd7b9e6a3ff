"""What the producer asks of a worker process, and what a worker answers.

In: a piece of a table, and of which relation version its rows are made. Out: its rows in a file, whose descriptor
follows the answer; or why they could not be read, in words that hold no value of a row (I10).
"""

from dataclasses import dataclass

from walbridge.producer.encoding.copied_rows import RowFormat
from walbridge.producer.postgres.table_reads.pieces import Piece


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a worker is told first. ``snapshot``: exported, and which every piece is read in."""

    dsn: str
    snapshot: str
    folder: str


@dataclass(frozen=True, slots=True)
class PieceWanted:
    """Ask for the rows of a piece."""

    piece: Piece
    row_format: RowFormat


@dataclass(frozen=True, slots=True)
class PieceRead:
    """All of them; ``row_count`` rows. The descriptor of their file comes behind it."""

    row_count: int


@dataclass(frozen=True, slots=True)
class PieceFailed:
    """Nothing of it is handed over."""

    reason: str
