"""Divides one table's events into segments at its barriers, in the order of the stream.

In: the table as the lake has it, its pending copy if there is one, and what each cut says of the table. Out: the
segments to apply, the table's state after them, and the copy that is pending then. Pure.

Everything before the last truncate or copy_begin is void, so segments begin there, and the first one
empties the table (``apply/changes.py``). A copy beside the stream changes nothing of a table until its ``copy_end``: a
current table takes its changes until then, and not the copied rows. At ``copy_end`` the segments so far are void, and
those of the copy, from its beginning on, take their place. A large copy is deferred: the plan applies nothing of it,
and a thread writes it beside the plans later (``ended_copies.py``); a current table goes on to take its changes.
"""

from dataclasses import dataclass, field

from walbridge.schemas.control.cut import Barrier, Cut, TableChanges
from walbridge.schemas.control.table_progress import STALE
from walbridge.schemas.position import Position
from walbridge.spark_consumer.plan.pending_copy import PendingCopy, begins_copy_beside, copy_begun, is_step_of_copy
from walbridge.spark_consumer.plan.segments.segment import Segment, SegmentBuilder
from walbridge.spark_consumer.plan.table_head import SUPERSEDED, TableHead

EMPTYING = frozenset({"truncate", "copy_begin"})
_STATE_AFTER = {"copy_begin": "copying", "copy_end": "current", "dropped": STALE}
"""A table that left the publication keeps its rows, but equals the source no longer (I8)."""


@dataclass
class TableWalk:
    """Goes over one table's barriers in a plan, cut by cut. Call ``pass_cut`` for each cut, then ``end``.

    ``base``: the table before the plan; None where the lake has none. ``copy``: its pending copy, before the plan and,
    after ``end``, behind it. ``segments`` and ``state`` are the result.
    """

    base: TableHead | None
    copy: PendingCopy | None
    awaits_copy: bool = False
    """The table is stale or quarantined, so it takes no changes until a copy of it ends."""
    deferred_from: int | None = None
    """An ended copy with at least this many records is deferred; None: no copy is."""
    state: str = ""
    swapped: PendingCopy | None = None
    """The copy that ended in this plan and replaces the table: all of its records are read."""
    unread: set[int] = field(default_factory=set)
    """Numbers of the cuts that hold nothing of the table but rows of a copy that goes on."""

    def __post_init__(self) -> None:
        self.state = self.base.state if self.base else "copying"
        self._events = SegmentBuilder(
            self.base.schema_id if self.base else "",
            is_copied=self.state == "copying",
            ignores_copied_rows=self._copy_goes_on,
        )
        # Whether the table takes its events. If not, barriers make no segments.
        # A current table takes them also while a copy of it goes on; any other waits for its copy.
        self._is_open = not self.awaits_copy and (self.copy is None or self.state == "current")

    @property
    def segments(self) -> list[Segment]:
        """Those that are closed; after ``end`` all of them."""
        return self._events.closed

    def pass_cut(self, cut: Cut, table: TableChanges) -> None:
        """Take what one cut says of the table."""
        goes_on = self._copy_goes_on
        for barrier in table.barriers:
            if begins_copy_beside(barrier, cut, table.barriers):
                self._begin(barrier, table.topic)
            elif barrier.kind == "copy_end" and self.copy is not None:
                self._end_copy(self.copy, barrier)
            else:
                self._pass(barrier)
        # Behind the barriers, since the records of a cut that begins or ends a copy are the copy's too: those before
        # ``copy_begin`` have earlier positions, and those behind ``copy_end`` are changes, which it takes as well.
        if self.copy is not None:
            self.copy = self.copy.with_cut(cut)
        if self.swapped is not None:
            self.swapped = self.swapped.with_cut(cut)
        if goes_on and self._copy_goes_on and is_step_of_copy(cut):
            self.unread.add(cut.cut_id)

    @property
    def _copy_goes_on(self) -> bool:
        return self.copy is not None and not self.copy.has_ended

    def end(self) -> None:
        """Close the last segment: the plan ends."""
        # A copy that was deferred before may have become small, since the table was emptied.
        if self.copy is not None and self.copy.has_ended and not self._is_deferred(self.copy):
            self._swap(self.copy)
        if self._is_open:
            self._events.close(None)

    def _begin(self, barrier: Barrier, topic: str) -> None:
        """A copy beside the stream begins."""
        self.copy = copy_begun(topic, barrier)
        if self.state != "current":
            self._is_open = False
            # What came before has no table to go into; the copy has all of it.
            if self.base is None or self.base.state == SUPERSEDED:
                self._events.closed.clear()
            return
        # Rows of a copy that has ended in this plan are in the same segment.
        self._events.ignores_copied_rows = self.swapped is None
        # The copy's first event names the shape, so no ``shape`` barrier of its own tells that it is another one.
        if self.copy.schema_id != self._events.schema_id:
            self._divide(barrier.position)
            self._events.schema_id = self.copy.schema_id

    def _end_copy(self, copy: PendingCopy, barrier: Barrier) -> None:
        if not self._is_deferred(copy):
            self._swap(copy)
            return
        self.copy = copy.ended()
        if self._is_open:
            # The copy's own rows stand here at the latest. Copied rows that come later are those of listed keys.
            self._divide(_behind_copied_rows(barrier.position))
            self._events.ignores_copied_rows = False

    def _is_deferred(self, copy: PendingCopy) -> bool:
        return self.deferred_from is not None and copy.records >= self.deferred_from

    def _swap(self, copy: PendingCopy) -> None:
        """The copy is applied: the plan goes over its records from the first one on, shape by shape, and empties the
        table."""
        self._events.begin_anew()
        self._events.ignores_copied_rows = False
        self.swapped, self.copy = copy, None
        self.state, self._is_open = "current", True
        at_end = len(copy.shapes) if copy.shapes_at_end is None else copy.shapes_at_end
        for number, shape in enumerate(copy.shapes):
            if number > 0:
                self._divide(shape.position, copy_goes_on=number < at_end)
            self._events.start, self._events.schema_id = shape.position, shape.schema_id

    def _pass(self, barrier: Barrier) -> None:
        """Any other barrier."""
        if self.swapped is not None and barrier.kind == "shape" and barrier.schema_id == self._events.schema_id:
            # No barrier to a fold, and copied rows may stand at this very position.
            return
        self._divide(barrier.position)
        self._events.is_copied = self._events.is_copied and barrier.kind != "copy_end"
        self._events.schema_id = barrier.schema_id or self._events.schema_id
        if barrier.kind in EMPTYING and self._is_open:
            self._events.begin_anew(is_copied=barrier.kind == "copy_begin")
        if self._is_open:
            self.state = _STATE_AFTER.get(barrier.kind, self.state)
        if self.copy is not None:
            self.copy = _copy_after(self.copy, barrier)

    def _divide(self, at: Position, *, copy_goes_on: bool = False) -> None:
        """The segment ends here, and the next one begins."""
        if self._is_open:
            # Rows that were copied at this LSN, before its transactions, are of the schema before it or behind it.
            end = at if self.swapped is None else _behind_copied_rows(at)
            self._events.close(end, copy_goes_on=copy_goes_on)
        self._events.open(at)


def _behind_copied_rows(at: Position) -> Position:
    return at._replace(ordinal=max(at.ordinal, 0))


def _copy_after(copy: PendingCopy, barrier: Barrier) -> PendingCopy | None:
    if barrier.kind == "dropped":
        return None
    if barrier.kind == "truncate":
        return copy.began_anew(barrier.position)
    return copy.shaped(barrier.position, barrier.schema_id) if barrier.schema_id else copy
