"""Which rows differ, under their keys.

In: rows of both sides. Out: the keys under which they differ. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Row(NamedTuple):
    """A row of either side.

    ``version``: identifies this version of the row. In the source it is tableoid, ctid and xmin; in
    the lake, commit LSN and ordinal.
    """

    digest: bytes
    version: str


@dataclass(frozen=True, slots=True)
class Difference:
    """All rows under one key, or of one digest in a table without a key, on both sides."""

    source: tuple[Row, ...]
    lake: tuple[Row, ...]

    @property
    def kind(self) -> str:
        """``missing`` in the lake, ``extra`` in the lake, or ``different``."""
        if len(self.source) == len(self.lake):
            return "different"
        return "missing" if len(self.source) > len(self.lake) else "extra"

    @property
    def count(self) -> int:
        """How many rows are missing, extra or different."""
        return abs(len(self.source) - len(self.lake)) or len(self.source)


Differences = Mapping[str, Difference]
"""By key: the canonical texts of the key columns, or the digest."""


def differences(source: Iterable[tuple[str, Row]], lake: Iterable[tuple[str, Row]]) -> dict[str, Difference]:
    """Keys whose multisets of digests differ."""
    by_key: dict[str, tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate((source, lake)):
        for key, row in rows:
            by_key.setdefault(key, ([], []))[side].append(row)
    return {
        key: Difference(tuple(ours), tuple(theirs))
        for key, (ours, theirs) in by_key.items()
        if digests_of(ours) != digests_of(theirs)
    }


def digests_of(rows: Iterable[Row]) -> Counter[bytes]:
    """How many rows have each digest."""
    return Counter(row.digest for row in rows)
