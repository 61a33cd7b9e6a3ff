"""Events between two barriers, and how a table's events are divided into such.

In: what holds from a position on. Out: segments, in the order of the stream. Pure.
"""

from dataclasses import dataclass, field

from walbridge.schemas.position import Position


@dataclass(frozen=True, slots=True)
class Segment:
    """Events between two barriers, all of one schema.

    ``empties``: afterwards the table holds this segment's rows alone.
    ``is_copied``: all events are copied rows (op r), which are appended without folding.
    ``ignores_copied_rows``: copied rows (op r) among the events belong to a pending copy, and are skipped.
    ``copy_goes_on``: the copy's rows continue in the next segment. A row with a value that neither this
    segment nor the table knows comes again there, complete.
    """

    index: int
    schema_id: str
    start: Position | None
    end: Position | None
    empties: bool = False
    is_copied: bool = False
    ignores_copied_rows: bool = False
    copy_goes_on: bool = False


@dataclass(slots=True)
class SegmentBuilder:
    """The segments of one table so far. The last one is open: its schema, its start and its flags may still change."""

    schema_id: str
    start: Position | None = None
    empties: bool = False
    is_copied: bool = False
    ignores_copied_rows: bool = False
    closed: list[Segment] = field(default_factory=list)

    def begin_anew(self, *, is_copied: bool = False) -> None:
        """What came before is void: the table is emptied, and the open segment is its first."""
        self.closed.clear()
        self.empties, self.is_copied = True, is_copied

    def close(self, end: Position | None, *, copy_goes_on: bool = False) -> None:
        """The open segment ends here."""
        flags = self.empties, self.is_copied, self.ignores_copied_rows, copy_goes_on
        self.closed.append(Segment(len(self.closed), self.schema_id, self.start, end, *flags))

    def open(self, start: Position) -> None:
        """The next segment begins here. The one before it has emptied the table, if that was to be done."""
        self.start, self.empties = start, False
