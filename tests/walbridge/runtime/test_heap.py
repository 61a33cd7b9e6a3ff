"""What a heap takes: the arithmetic of ARCHITECTURE.md, "Memory of a row"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.runtime.heap import heap_needed, largest_record, readers_at_a_time, record_bytes_max, size_bytes

MIB = 2**20
SHARES = st.sampled_from([0.2, 0.4, 0.6, 0.75])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1g", 2**30), ("768m", 768 * MIB), ("1GB", 2**30), ("512", 512 * MIB), ("524288k", 512 * MIB), ("1.5g", None)],
)
def test_memory_is_read_as_spark_reads_it(text: str, expected: int | None) -> None:
    assert size_bytes(text) == expected


@pytest.mark.parametrize(("heap_mib", "expected_mib"), [(768, 32), (1024, 42), (2048, 83)])
def test_a_heap_takes_records_of_a_twenty_fifth_of_it_and_2_mib(heap_mib: int, expected_mib: int) -> None:
    assert largest_record(heap_mib * MIB) // MIB == expected_mib
    assert largest_record(heap_mib * MIB) == pytest.approx((heap_mib / 25 + 2) * MIB, abs=MIB)


@given(record=st.integers(1, 2**31), share=SHARES)
def test_the_heap_that_a_record_needs_takes_it_and_one_much_smaller_does_not(record: int, share: float) -> None:
    heap = heap_needed(record, share)

    assert largest_record(heap, share) >= record
    assert largest_record(heap - 3 * MIB, share) < record


@given(heap=st.integers(0, 2**36), record=st.integers(1, 2**31), cores=st.integers(1, 128), share=SHARES)
def test_readers_hold_together_no_more_than_the_heap_has(heap: int, record: int, cores: int, share: float) -> None:
    readers = readers_at_a_time(heap, record, cores, share)

    assert 1 <= readers <= cores
    assert readers == 1 or largest_record(heap, share, readers) >= record - 1


def test_the_default_heap_takes_the_default_largest_row_and_one_of_768_mib_does() -> None:
    assert largest_record(2**30) > record_bytes_max(16 * MIB)
    assert largest_record(768 * MIB) > record_bytes_max(16 * MIB)
    assert readers_at_a_time(2**31, record_bytes_max(16 * MIB), 8) == 2
