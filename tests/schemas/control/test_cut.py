"""Cuts form a chain; a lost, repeated or torn batch is noticed (I7, I8)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schemas.strategies import CUTS, TYPE_RECORDS
from walbridge.schemas.control.cut import (
    Barrier,
    Cut,
    Epoch,
    PartitionRange,
    TableChanges,
    chain_break,
    changes_tables,
    count_mismatch,
    decode_cut,
    encode_cut,
    merge_ranges,
)
from walbridge.schemas.control.metadata_record import encode_metadata
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn, Position

EPOCH = Epoch("7000000000000000000", 1, "walbridge", 0x1000)
NEXT_EPOCH = EPOCH._replace(consistent_point=0x9000)
FIRST = Cut(EPOCH, 1, 0x1000, 0x1000, None, None, 0, False, 1)
SECOND = replace(FIRST, cut_id=2, end_lsn=0x2000, complete=True)


def reading(*ranges: PartitionRange) -> Cut:
    return replace(FIRST, partitions=ranges)


@given(CUTS)
def test_decoded_cut_is_the_encoded_one(cut: Cut) -> None:
    assert decode_cut(encode_cut(cut)) == cut


def test_barriers_come_back_as_positions() -> None:
    barrier = Barrier("shape", Position(Lsn(7), 3), "0123456789abcdef")
    cut = replace(FIRST, tables=(TableChanges(16_384, "p.public.t", ("0123456789abcdef",), 1, (barrier,)),))

    assert decode_cut(encode_cut(cut)).tables[0].barriers[0].position.ordinal == 3


@given(TYPE_RECORDS)
def test_other_record_is_no_cut(record: object) -> None:
    with pytest.raises(ProtocolError):
        decode_cut(encode_metadata(record))  # type: ignore[arg-type]


def test_epoch_names_server_timeline_slot_and_consistent_point() -> None:
    assert str(EPOCH) == "7000000000000000000-1-walbridge-0/1000"


@pytest.mark.parametrize(
    ("previous", "cut"),
    [
        (None, FIRST),
        (FIRST, SECOND),
        (SECOND, replace(FIRST, epoch=NEXT_EPOCH)),
        (FIRST, replace(SECOND, end_lsn=0x1000)),
    ],
    ids=["first", "next", "next epoch", "nothing new"],
)
def test_unbroken_chain_is_taken(previous: Cut | None, cut: Cut) -> None:
    assert chain_break(previous, cut) is None


@pytest.mark.parametrize(
    ("previous", "cut", "reason"),
    [
        (None, SECOND, f"epoch {EPOCH} begins with cut 2, not 1"),
        (FIRST, replace(SECOND, epoch=NEXT_EPOCH), f"epoch {NEXT_EPOCH} begins with cut 2, not 1"),
        (FIRST, replace(SECOND, cut_id=3), "cut 3 follows cut 1"),
        (FIRST, FIRST, "cut 1 follows cut 1"),
        (FIRST, replace(SECOND, previous_end_lsn=0x1001), "cut 2 continues at 0/1001, but cut 1 ended at 0/1000"),
        (FIRST, replace(SECOND, end_lsn=0xFFF), "cut 2 ends before it begins"),
    ],
    ids=["lost start", "lost start of epoch", "lost", "repeated", "gap", "backwards"],
)
def test_broken_chain_is_told(previous: Cut | None, cut: Cut, reason: str) -> None:
    assert chain_break(previous, cut) == reason


def test_range_as_long_as_its_count_is_taken() -> None:
    assert count_mismatch(reading(PartitionRange("t", 0, 5, 9, 4), PartitionRange("t", 1, 3, 3, 0))) is None


@pytest.mark.parametrize("records", [3, 5])
def test_range_longer_or_shorter_than_its_count_is_told(records: int) -> None:
    torn = PartitionRange("t", 1, 5, 9, records)

    assert count_mismatch(reading(PartitionRange("t", 0, 0, 2, 2), torn)) == torn


def test_ranges_of_consecutive_cuts_join_over_markers_and_keep_the_count() -> None:
    cuts = [
        reading(PartitionRange("t", 0, 5, 9, 4), PartitionRange("t", 1, 0, 1, 1)),
        reading(),
        reading(PartitionRange("t", 0, 10, 12, 2), PartitionRange("u", 0, 7, 8, 1)),
    ]

    assert merge_ranges(cuts) == {
        ("t", 0): PartitionRange("t", 0, 5, 12, 6),
        ("t", 1): PartitionRange("t", 1, 0, 1, 1),
        ("u", 0): PartitionRange("u", 0, 7, 8, 1),
    }


@given(st.lists(CUTS, max_size=4))
def test_joined_ranges_lose_and_add_no_record(cuts: list[Cut]) -> None:
    joined = merge_ranges(cuts)

    assert sum(part.records for part in joined.values()) == sum(part.records for cut in cuts for part in cut.partitions)
    assert set(joined) == {(part.topic, part.partition) for cut in cuts for part in cut.partitions}


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (SECOND, False),
        (FIRST, True),
        (replace(SECOND, tables=(TableChanges(16_384, "p.public.t", (), 1),)), True),
        (replace(SECOND, tables=(TableChanges(16_384, "p.public.t", (), 0),)), True),
        (replace(SECOND, tables=(TableChanges(0, "p.messages", (), 1),)), False),
    ],
    ids=["without rows", "inside of a transaction", "with a row", "with a barrier", "with a message"],
)
def test_cut_that_names_a_table_may_have_changed_it(cut: Cut, expected: bool) -> None:
    """Messages are of no table."""
    assert changes_tables(cut) is expected
