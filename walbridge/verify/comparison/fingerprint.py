"""Which buckets of a table differ, so that only their rows are fetched.

In: digests of the rows of both sides. Out: buckets that differ. Pure.

The first digits of a row's digest choose its bucket. Of a bucket, the number of rows and the sum of 60 other bits of
their digests are compared.
"""

from typing import Any

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
