"""The state of one table in the pipeline, and what happens to it.

In: what the stream, the catalogue, a chunk or an operator tells. Out: the state after it, a value
that goes into progress with the cut it belongs to.

    STALE, QUARANTINED, CURRENT --begin_copy--> COPYING --end_copy--> CURRENT
    CURRENT --list_keys--> CURRENT, with keys whose rows are read again --enter--> CURRENT
    all but DROPPED --doubt--> STALE, --quarantine--> QUARANTINED, --leave--> DROPPED

A table that appears, or appears again, begins as STALE. CURRENT is said of a table only between the end of a copy and
the first doubt. Nothing but a copy leads there, since no change is published in the other states. COPYING keeps how far
it is, so that a restart is no event: the copy goes on after the last chunk that is committed in Kafka. A table without
a key is copied in one piece, and after a restart from its beginning.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from walbridge.schemas.control.table_progress import (
    COPYING,
    CURRENT,
    DROPPED,
    IN_ONE_PIECE,
    QUARANTINED,
    STALE,
    TableCopy,
)
from walbridge.schemas.position import Lsn

LISTED_BYTES_READ = 2**15
"""Of keys to read again: from here on they are a chunk of their own, before the next range."""
LISTED_BYTES_MAX = 2**18
"""Of all keys to read again: they are in progress, whose record has to stay small."""


class Illegal(Exception):
    """An event in a state that has no place for it: a mistake of ours."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one chunk brought.

    ``bound`` and ``is_last`` are those of a key range; a chunk of listed keys has ``asked`` in their place.
    ``moved`` and ``read_again`` are the window's.
    """

    row_count: int
    size_bytes: int
    bound: tuple[str, ...] | None = None
    is_last: bool = False
    asked: Collection[bytes] | None = None
    moved: Collection[bytes] = ()
    read_again: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableState:
    """One table at a cut. ``since`` and ``why`` tell of the state; a copy is there while it is COPYING, or while it is
    CURRENT and rows of listed keys are read again."""

    relation_id: int
    state: str
    since: Lsn
    why: str = ""
    copy: TableCopy | None = None

    @classmethod
    def appeared(cls, relation_id: int, lsn: Lsn, why: str) -> "TableState":
        """A table of which the pipeline holds no copy."""
        return cls(relation_id, STALE, lsn, why)

    @property
    def is_followed(self) -> bool:
        """Whether its changes are published."""
        return self.state in (CURRENT, COPYING)

    @property
    def is_whole(self) -> bool:
        """Nothing is left to be read."""
        return self.copy is not None and self.copy.is_whole

    @property
    def corrects(self) -> bool:
        """Rows of listed keys are read again, and the table stays what it is."""
        return self.state == CURRENT and self.copy is not None

    @property
    def reads_listed(self) -> bool:
        """The next chunk is that of the listed keys: there are many, or nothing else is left to read."""
        copy = self.copy
        if copy is None or not copy.listed:
            return False
        return copy.has_all_ranges or _listed_bytes(copy) >= LISTED_BYTES_READ

    # What the stream and the catalogue tell.

    def truncate(self) -> "TableState":
        """All rows are gone: those that were to be read again, too."""
        return self._copying(lambda copy: replace(copy, listed={}))

    def list_moved(self, lsn: Lsn, keys: Mapping[bytes, bytes]) -> "TableState":
        """Rows came to these keys with values that the topic may lack (``Step.moves_unknown``)."""
        if self.copy is None or not keys or self.corrects:
            return self
        copy = replace(self.copy, listed={**self.copy.listed, **keys})
        if _listed_bytes(copy) > LISTED_BYTES_MAX:
            return self._to(STALE, lsn, "too many of its rows changed their keys while it was copied")
        return replace(self, copy=copy)

    def leave(self, lsn: Lsn, why: str) -> "TableState":
        """It was dropped, or taken out of the publication."""
        return self if self.state == DROPPED else self._to(DROPPED, lsn, why)

    def doubt(self, lsn: Lsn, why: str) -> "TableState":
        """What is published of it may differ from the source. What is known to be worse stays."""
        if self.state in (STALE, QUARANTINED, DROPPED):
            return self
        return self._to(STALE, lsn, why)

    def quarantine(self, lsn: Lsn, why: str) -> "TableState":
        """It is not copied again before an operator says so."""
        self._refuse(DROPPED, QUARANTINED)
        return self._to(QUARANTINED, lsn, why)

    def list_keys(self, lsn: Lsn, keys: Iterable[bytes]) -> "TableState":
        """An operator wants the rows of these keys (``key_json``) to be read again."""
        if self.state != CURRENT:
            raise Illegal(f"keys of a table that is {self.state}")
        copy = self.copy or TableCopy(lsn, has_all_ranges=True)
        return replace(self, why="", copy=replace(copy, listed={**copy.listed, **dict.fromkeys(keys, b"")}))

    def end_correction(self, why: str = "") -> "TableState":
        """None of the keys is left; or ``why`` they cannot be read."""
        return replace(self, why=why, copy=None)

    # What a copy does.

    def begin_copy(self, lsn: Lsn, shape: str = "", *, in_one_piece: bool = False) -> "TableState":
        """``copy_begin`` is in this cut."""
        self._refuse(DROPPED, COPYING)
        bound = IN_ONE_PIECE if in_one_piece else None
        return TableState(self.relation_id, COPYING, lsn, copy=TableCopy(lsn, bound, shape=shape))

    def read_anew(self) -> "TableState":
        """The copy goes on from the first row: what is read twice is right twice."""
        return self._copying(lambda copy: TableCopy(copy.begun_lsn, shape=copy.shape))

    def enter(self, chunk: Chunk) -> "TableState":
        """The chunk is in the topic with this cut."""

        def entered(copy: TableCopy) -> TableCopy:
            done = {*(chunk.asked or ()), *chunk.moved}
            still = {key: row for key, row in copy.listed.items() if key not in done}
            counted = replace(
                copy,
                rows=copy.rows + chunk.row_count,
                bytes=copy.bytes + chunk.size_bytes,
                chunks=copy.chunks + 1,
                listed={**still, **chunk.read_again},
            )
            if chunk.asked is not None:
                return counted
            if copy.has_all_ranges:
                raise Illegal("a range after the last one")
            return replace(counted, bound=chunk.bound or copy.bound, has_all_ranges=chunk.is_last)

        self._require_copy()
        after = replace(self, why="")._copying(entered)
        return after.end_correction() if after.corrects and after.is_whole else after

    def end_copy(self, lsn: Lsn) -> "TableState":
        """``copy_end`` is in this cut."""
        if not self._require_copy().is_whole:
            raise Illegal("the end of a copy that is not whole")
        return self._to(CURRENT, lsn, "")

    def _to(self, state: str, since: Lsn, why: str) -> "TableState":
        return TableState(self.relation_id, state, since, why)

    def _copying(self, change: Callable[[TableCopy], TableCopy]) -> "TableState":
        return self if self.copy is None else replace(self, copy=change(self.copy))

    def _require_copy(self) -> TableCopy:
        if self.copy is None:
            raise Illegal(f"a chunk of a table that is {self.state}")
        return self.copy

    def _refuse(self, *states: str) -> None:
        if self.state in states:
            raise Illegal(f"no such event for a table that is {self.state}")


def _listed_bytes(copy: TableCopy) -> int:
    """What the listed keys take in progress."""
    return sum(len(key) + len(row) for key, row in copy.listed.items())
