"""A reader of the topic of a table that is copied beside the stream, by the contract alone.

In: its records, cut by cut, and the source's rows at any LSN. What must be true: a row that is copied is the source's
at the LSN at which it stands, in a cut that names no transaction, which has no changes; from the end of a copy on the
table is the source's at every complete cut.
"""

from collections.abc import Callable
from typing import Any

from tests.simulation.broker import Place
from tests.simulation.world import Violation
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.position import COPIED_ORDINAL, Position

Rows = dict[int, str]
Record = tuple[Position, Place, dict[str, Any]]


class CopiedReader:
    """``at``: the source's rows at an LSN."""

    def __init__(self, at: Callable[[int], Rows]) -> None:
        self._at = at
        self.begun: int | None = None
        """Where the first copy began: from there on changes of the table are published."""
        self.is_current = False
        self.copies = self.copied_rows = self.moved_rows = 0
        self._rows: dict[int, str | None] = {}
        """None: a value that was not in the topic yet."""
        self._named: set[int] = set()
        self._moved: str | None = None
        self._records: list[Record] = []

    def take(self, position: Position, place: Place, envelope: dict[str, Any]) -> None:
        """A record of the cut that is read."""
        self._records.append((position, place, envelope))

    def end_cut(self, cut: Cut, kinds: list[str]) -> None:
        """All of the cut was taken. ``kinds``: of the table's barriers."""
        end_lsn = cut.end_lsn
        if cut.commit_lsn is None and any(position.ordinal != COPIED_ORDINAL for position, *_ in self._records):
            raise Violation("I8: a change in a cut that names no transaction, which the lake takes for copied rows")
        markers = {r[2]["source"]["snapshot"] for r in self._records if r[2]["op"] == "m"}
        if ("copy_begin" in kinds) != ("first_in_data_collection" in markers):
            raise Violation("a copy that begins in the cut alone, or in the topic alone")
        if ("copy_end" in kinds) != ("last_in_data_collection" in markers):
            raise Violation("a copy that ends in the cut alone, or in the topic alone")
        if "copy_begin" in kinds:
            self._begin(end_lsn)
        for position, _, envelope in sorted(self._records, key=lambda record: record[:2]):
            if envelope["op"] != "m":
                self._apply(position, envelope)
        self._records = []
        if "copy_end" in kinds:
            self._end()
        if self.is_current and cut.complete and self._rows != self._at(end_lsn):
            raise Violation(f"I8: the table is {self._rows} at {end_lsn}, and the source {self._at(end_lsn)}")

    def _begin(self, lsn: int) -> None:
        self.begun = lsn if self.begun is None else self.begun
        self.is_current, self._named = False, set()

    def _end(self) -> None:
        self.copies += 1
        self.is_current = True
        self._rows = {key: note for key, note in self._rows.items() if key in self._named}

    def _apply(self, position: Position, envelope: dict[str, Any]) -> None:
        op, before, after = envelope["op"], envelope["before"], envelope["after"]
        if op == "t":
            self._rows.clear()
        elif op == "d":
            self._moved = self._rows.pop(before["id"], None)
        else:
            note = after["note"]
            if envelope["unchanged"]:
                is_moved = before is not None and before["id"] != after["id"]
                note = self._moved if is_moved else self._rows.get(after["id"])
            elif op == "r":
                self._check_copied(position, after)
            self._rows[after["id"]] = note
        for image in (before, after):
            if image is not None:
                self._named.add(image["id"])

    def _check_copied(self, position: Position, row: dict[str, Any]) -> None:
        assert position.ordinal == COPIED_ORDINAL
        self.copied_rows += 1
        if self._at(position.commit_lsn).get(row["id"]) != row["note"]:
            raise Violation(f"I4: {row} was copied at {position.commit_lsn}: {self._at(position.commit_lsn)}")
