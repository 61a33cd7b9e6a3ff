"""Which rows differ, and which differences are real on a source that is being written to.

In: row digests of both sides. Out: buckets that differ, rows that differ, and the verdict on
each. Pure: no database, no lake, no clock.

A table is first compared by buckets. The first digits of a row's digest choose its bucket; for a
bucket, the number of rows and the sum of 60 other bits of their digests are compared. Only rows of
differing buckets are fetched.

The snapshot of the source and the published cut are never of the same moment, so a difference
counts only if two rounds prove it. Rounds are ordered: cut k, snapshot k, cut k+1 (which holds all
that snapshot k saw), snapshot k+1. There are two proofs; changes in between cannot mislead them:

- A row version (tableoid, ctid, xmin) that is in both snapshots was in the source at cut k+1, which
  lies between them. If the lake at cut k+1 has fewer rows of its digest, the lake lacks the row.
- A lake row with the same digest and position in both cuts was, if the lake is right, in the source
  all the time, so also in snapshot k. If it is not in snapshot k, the lake should not have it.

Both proofs need snapshots that show all that the cut before them holds. While commits wait for a
synchronous standby that is not certain (``visibility.py``), and the round proves nothing.
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
    """How many hexadecimal digits of the digest choose the bucket, so that a bucket has some hundreds of rows."""
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
        """Add the count and sum that Postgres computed for one bucket."""
        at = int(bucket, 16)
        self.counts[at] += count
        self.sums[at] = (int(self.sums[at]) + total) % 2**64

    def add_digests(self, digests: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
        """Add rows by their MD5: a (rows, 2) array of its big-endian halves."""
        buckets = buckets_of(digests, self.digits)
        self.counts += np.bincount(buckets, minlength=len(self.counts))
        np.add.at(self.sums, buckets, digests[:, 1] & _MASK)

    def differing(self, other: "Fingerprint", rows_max: int) -> tuple[list[int], bool]:
        """Buckets that differ, as many as have ``rows_max`` rows together (I9), and whether these are all."""
        unequal = np.flatnonzero((self.counts != other.counts) | (self.sums != other.sums))
        rows = np.cumsum(np.maximum(self.counts[unequal], other.counts[unequal]))
        taken = max(1, int(np.searchsorted(rows, rows_max, side="right")))
        return [int(bucket) for bucket in unequal[:taken]], taken >= len(unequal)


def buckets_of(digests: np.ndarray[Any, np.dtype[np.uint64]], digits: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The bucket of each row."""
    return (digests[:, 0] >> np.uint64(64 - 4 * digits)).astype(np.int64)


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
        if _digests(ours) != _digests(theirs)
    }


def _digests(rows: Iterable[Row]) -> Counter[bytes]:
    return Counter(row.digest for row in rows)


def proves_difference(first: Difference, second: Difference) -> bool:
    """Whether two rounds prove that the lake is wrong, by either proof of this module."""
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

    Only keys that differed in the first round are examined further: a key that is equal in a later round was only
    late in the lake, and one that begins to differ later was equal before. ``confirmed``: keys with a proved
    difference; ``undecided``: the other keys that still differ, with their rows in the last round.
    ``whole``: whether the first round (or the one in which the examination began anew) fetched all differing rows.
    ``had_proving_rounds``: whether there were two rounds in a row since then that could prove a difference.
    ``is_visible``: whether the last round can be one of such two.
    """

    confirmed: dict[str, Difference] = field(default_factory=dict)
    undecided: dict[str, Difference] = field(default_factory=dict)
    rounds: int = 0
    whole: bool = True
    had_proving_rounds: bool = False
    is_visible: bool = True

    @property
    def is_settled(self) -> bool:
        """Whether another round can say no more."""
        return self.rounds > 0 and not self.undecided and (self.whole or bool(self.confirmed))

    def add_round(self, found: Differences, whole: bool = True, *, is_visible: bool = True) -> None:
        """Add the differences of the next round; its cut holds all that the last snapshot saw.

        ``whole``: whether the rows of every differing bucket were fetched; if not, a key that is not
        in ``found`` may still differ. ``is_visible``: whether the snapshot shows all that its cut holds.
        """
        self.rounds += 1
        proves, self.is_visible = is_visible and self.is_visible, is_visible
        if self.rounds == 1:
            self.undecided, self.whole = dict(found), whole
            return
        self.had_proving_rounds |= proves
        self.confirmed |= {
            key: found[key]
            for key, before in self.undecided.items()
            if proves and key in found and proves_difference(before, found[key])
        }
        still = {key: found.get(key, before) for key, before in self.undecided.items() if key in found or not whole}
        self.undecided = {key: now for key, now in still.items() if key not in self.confirmed}
        if not self.whole and not self.undecided and not self.confirmed:
            # All rows fetched so far were only late. Begin anew with the buckets that were not fetched then.
            self.undecided, self.whole, self.rounds, self.had_proving_rounds = dict(found), whole, 1, False

    @property
    def is_conclusive(self) -> bool:
        """Whether all that differed was compared in two rounds that could have proved a difference."""
        return self.whole and (self.had_proving_rounds or not self.undecided)

    def confirmed_keys(self) -> Iterator[tuple[str, str, int]]:
        """Kind, key and rows of each real difference, in order of key."""
        return ((found.kind, key, found.count) for key, found in sorted(self.confirmed.items()))
