"""Differences that two rounds prove, and those that they do not: pure."""

from __future__ import annotations

from hashlib import md5

import pytest

from walbridge.verify.comparison.differences import Difference, Row, differences
from walbridge.verify.comparison.verdict import Verdict, proves_difference


def row(text: str, version: str) -> Row:
    return Row(md5(text.encode()).digest(), version)


def difference(source: list[Row], lake: list[Row]) -> Difference:
    return Difference(tuple(source), tuple(lake))


def test_a_row_at_rest_in_the_source_proves_the_lake_wrong() -> None:
    before = difference([row("a", "v1")], [row("old", "p1")])
    after = difference([row("a", "v1")], [row("older", "p2")])
    assert proves_difference(before, after)


def test_a_row_at_rest_in_the_lake_proves_it_wrong_though_the_source_moves_on() -> None:
    before = difference([row("a", "v1")], [row("x", "p1")])
    after = difference([row("b", "v2")], [row("x", "p1")])
    assert proves_difference(before, after)


def test_a_row_that_moves_on_both_sides_proves_nothing() -> None:
    before = difference([row("b", "v2")], [row("a", "p1")])
    after = difference([row("c", "v3")], [row("b", "p2")])
    assert not proves_difference(before, after)


def test_a_row_that_toggles_between_two_values_proves_nothing() -> None:
    """Equal digests in both rounds, but written anew between: versions tell."""
    before = difference([row("on", "v1")], [row("off", "p1")])
    after = difference([row("on", "v3")], [row("off", "p2")])
    assert not proves_difference(before, after)


def test_an_equal_row_inserted_and_deleted_between_the_looks_proves_nothing() -> None:
    """The cut has it, neither snapshot does; the row beside it is at rest and right."""
    before = difference([row("a", "v1"), row("a", "v2")], [row("a", "p1")])
    after = difference([row("a", "v1")], [row("a", "p1"), row("a", "p3")])
    assert not proves_difference(before, after)


def test_a_doubled_row_at_rest_is_proved_though_its_copies_share_a_position() -> None:
    found = difference([row("a", "v1")], [row("a", "p1"), row("a", "p1")])
    assert proves_difference(found, found)


def test_only_what_differed_in_the_first_round_is_on_trial() -> None:
    verdict = Verdict()
    verdict.add_round({"late": difference([row("a", "v1")], [])})
    verdict.add_round({"new": difference([row("b", "v1")], [])})
    assert (verdict.confirmed, verdict.undecided) == ({}, {})


def test_a_difference_is_undecided_until_a_round_proves_it() -> None:
    verdict = Verdict()
    for version in range(3):
        verdict.add_round({"hot": difference([row("a", f"v{version}")], [row("b", f"p{version}")])})
    assert list(verdict.undecided) == ["hot"]
    verdict.add_round({"hot": difference([row("a", "v2")], [row("c", "p3")])})
    assert (list(verdict.confirmed), verdict.undecided) == (["hot"], {})


@pytest.mark.parametrize("unseen", [0, 1], ids=["first round", "second round"])
def test_round_whose_snapshot_may_lack_what_its_cut_holds_proves_nothing(unseen: int) -> None:
    """I8: a commit that waits for a synchronous standby is decoded, and in the lake, before it is visible."""
    verdict = Verdict()
    late = differences([("1", row("old", "a"))], [("1", row("new", "b"))])
    for number in range(2):
        verdict.add_round(late, is_visible=number != unseen)
    assert (verdict.confirmed, verdict.is_conclusive, verdict.is_settled) == ({}, False, False)

    verdict.add_round(late)
    if unseen == 1:
        verdict.add_round(late)
    assert (list(verdict.confirmed), verdict.is_conclusive) == (["1"], True)


def test_equal_table_is_equal_whatever_is_in_progress() -> None:
    verdict = Verdict()
    verdict.add_round({}, is_visible=False)
    assert verdict.is_settled
    assert verdict.is_conclusive
