"""Buckets that differ, of rows that Postgres and we digest: pure."""

from __future__ import annotations

from hashlib import md5

import numpy as np

from walbridge.verify.comparison.fingerprint import Fingerprint, bucket_digits


def digest(text: str) -> bytes:
    return md5(text.encode()).digest()


def from_digests(texts: list[str]) -> Fingerprint:
    halves = np.frombuffer(b"".join(map(digest, texts)), dtype=">u8").astype(np.uint64).reshape(-1, 2)
    fingerprint = Fingerprint(3)
    fingerprint.add_digests(halves)
    return fingerprint


def as_postgres_aggregates(texts: list[str]) -> Fingerprint:
    fingerprint = Fingerprint(3)
    for text in texts:
        hexadecimal = digest(text).hex()
        fingerprint.add_bucket(hexadecimal[:3], 1, int(hexadecimal[17:], 16))
    return fingerprint


def test_both_sides_sum_the_same_bits() -> None:
    texts = [str(n) for n in range(1000)]
    assert as_postgres_aggregates(texts).differing(from_digests(texts[::-1]), 1000) == ([], True)


def test_a_sum_beyond_64_bits_wraps_on_both_sides() -> None:
    texts = ["same"] * 100
    assert as_postgres_aggregates(texts).differing(from_digests(texts), 1000) == ([], True)


def test_a_changed_row_shows_in_the_buckets_of_its_old_and_new_digest() -> None:
    buckets, whole = as_postgres_aggregates(["a", "b"]).differing(from_digests(["a", "c"]), 1000)
    assert buckets == sorted(int(digest(text).hex()[:3], 16) for text in ("b", "c"))
    assert whole


def test_buckets_are_taken_as_far_as_the_row_limit_allows() -> None:  # I9
    texts = [str(n) for n in range(1000)]
    buckets, whole = as_postgres_aggregates(texts).differing(from_digests([]), 10)
    assert 0 < len(buckets) <= 10
    assert not whole


def test_larger_tables_have_more_buckets() -> None:
    assert [bucket_digits(rows) for rows in (-1, 1e6, 1e9)] == [3, 4, 5]
