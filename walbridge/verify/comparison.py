"""Which rows differ, and which differences are real on a source that is being written to.

In: row digests of both sides. Out: buckets that differ, rows that differ, and the verdict on
each. Pure: no database, no lake, no clock.

A table is first compared by buckets: rows fall into one by the first digits of their digest, and
a bucket is its count and the sum of 60 other bits. Only rows of differing buckets are fetched.

The snapshot of the source and the published cut are never of one moment, so a difference counts
only if it survives the next cut. Rounds are ordered: cut k, snapshot k, cut k+1 (which holds all
that snapshot k saw), snapshot k+1. Two proofs, neither of which an in-between change can fool:

- a row version (tableoid, ctid, xmin) that is in both snapshots was there at cut k+1 between
  them: the lake lacks it if it does not hold that many rows of its digest;
- a lake row whose digest and position are the same in both cuts was, if the lake is right, in
  the source all the while, so in snapshot k: else the lake has it wrongly.

Both need that a snapshot shows all that the cut before it holds. A round that may not, since commits
wait for a synchronous standby (``visibility.py``), proves nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

HASH_BITS = 60
_MASK = np.uint64((1 << HASH_BITS) - 1)
_DIGITS_BY_ROWS = ((1_000_000, 3), (64_000_000, 4))


def bucket_digits(rows_estimated: float) -> int:
    """How many hexadecimal digits name a bucket: a bucket then has some hundreds of rows at most."""
    return next((digits for rows, digits in _DIGITS_BY_ROWS if rows_estimated < rows), 5)


class Fingerprint:
    """Count and sum of digests per bucket."""

    def __init__(self, digits: int) -> None:
        self.digits = digits
        self.counts = np.zeros(16**digits, dtype=np.int64)
        self.sums = np.zeros(16**digits, dtype=np.uint64)  # modulo 2**64

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def add_bucket(self, bucket: str, count: int, total: int) -> None:
        """Add what Postgres aggregated of one bucket."""
        at = int(bucket, 16)
        self.counts[at] += count
        self.sums[at] = (int(self.sums[at]) + total) % 2**64

    def add_digests(self, digests: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
        """Add rows by their MD5: a (rows, 2) array of its big-endian halves."""
        buckets = buckets_of(digests, self.digits)
        self.counts += np.bincount(buckets, minlength=len(self.counts))
        np.add.at(self.sums, buckets, digests[:, 1] & _MASK)

    def differing(self, other: "Fingerprint", rows_max: int) -> tuple[list[int], bool]:
        """Buckets that differ, as many as ``rows_max`` rows allow (I9), and whether that is all."""
        unequal = np.flatnonzero((self.counts != other.counts) | (self.sums != other.sums))
        rows = np.cumsum(np.maximum(self.counts[unequal], other.counts[unequal]))
        taken = max(1, int(np.searchsorted(rows, rows_max, side="right")))
        return [int(bucket) for bucket in unequal[:taken]], taken >= len(unequal)


def buckets_of(digests: np.ndarray[Any, np.dtype[np.uint64]], digits: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The bucket of each row."""
    return (digests[:, 0] >> np.uint64(64 - 4 * digits)).astype(np.int64)


class Row(NamedTuple):
    """A row of either side.

    ``version``: which writing of the row it is. In the source tableoid, ctid and xmin; in the
    lake commit LSN and ordinal.
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
        """Rows concerned."""
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
        if _digests(ours) != _digests(theirs)
    }


def _digests(rows: Iterable[Row]) -> Counter[bytes]:
    return Counter(row.digest for row in rows)


def survives(first: Difference, second: Difference) -> bool:
    """Whether two rounds prove that the lake is wrong, by either argument of this module."""
    kept_by_source = Counter(first.source) & Counter(second.source)
    kept_by_lake = Counter(first.lake) & Counter(second.lake)
    return _exceeds(_digests(kept_by_source.elements()), _digests(second.lake)) or _exceeds(
        _digests(kept_by_lake.elements()), _digests(first.source)
    )


def _exceeds(kept: Counter[bytes], held: Counter[bytes]) -> bool:
    return any(count > held[digest] for digest, count in kept.items())


@dataclass(slots=True)
class Verdict:
    """What the rounds so far say of one table.

    Only keys that differed in the first round are on trial: one that is equal later was late,
    one that begins to differ later was equal before. ``undecided`` holds the last round's rows.
    ``whole``: whether that first round, or the one from which the trial began anew, saw all.
    ``was_tried``: whether two rounds since then could prove anything; ``is_visible`` that the last one can.
    """

    confirmed: dict[str, Difference] = field(default_factory=dict)
    undecided: dict[str, Difference] = field(default_factory=dict)
    rounds: int = 0
    whole: bool = True
    was_tried: bool = False
    is_visible: bool = True

    @property
    def is_settled(self) -> bool:
        """Whether another round can say no more."""
        return self.rounds > 0 and not self.undecided and (self.whole or bool(self.confirmed))

    def add_round(self, found: Differences, whole: bool = True, *, is_visible: bool = True) -> None:
        """Take the differences of the next round; its cut holds all that the last snapshot saw.

        ``whole``: whether every differing bucket was looked at; if not, a key that is not in
        ``found`` may differ all the same. ``is_visible``: whether the snapshot shows all that its cut holds.
        """
        self.rounds += 1
        proves, self.is_visible = is_visible and self.is_visible, is_visible
        if self.rounds == 1:
            self.undecided, self.whole = dict(found), whole
            return
        self.was_tried |= proves
        self.confirmed |= {
            key: found[key]
            for key, before in self.undecided.items()
            if proves and key in found and survives(before, found[key])
        }
        still = {key: found.get(key, before) for key, before in self.undecided.items() if key in found or not whole}
        self.undecided = {key: now for key, now in still.items() if key not in self.confirmed}
        if not self.whole and not self.undecided and not self.confirmed:
            # All that was looked at was late. What was not looked at then is on trial from here on.
            self.undecided, self.whole, self.rounds, self.was_tried = dict(found), whole, 1, False

    @property
    def is_judged(self) -> bool:
        """Whether all that differed was looked at twice, with eyes that could have proved it."""
        return self.whole and (self.was_tried or not self.undecided)

    def confirmed_keys(self) -> Iterator[tuple[str, str, int]]:
        """Kind, key and rows of each real difference, in order of key."""
        return ((found.kind, key, found.count) for key, found in sorted(self.confirmed.items()))
