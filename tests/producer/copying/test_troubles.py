"""A table that is in trouble is copied again, but not for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.copying.troubles import (
    AGAIN_MAX,
    WITHIN_S,
    after_trouble,
    is_copied_too_often,
    with_copy_begun,
    with_copy_ended,
    with_fault,
    with_trouble,
)
from walbridge.schemas.control.table_progress import COPYING, CURRENT, QUARANTINED, STALE, TableProgress
from walbridge.schemas.position import Lsn

KNOWN = TableProgress(1, CURRENT, topic="p.public.t", membership="7")


def after(known: TableProgress, now_s: float, *, may_copy: bool = True) -> TableProgress:
    return after_trouble(known, "public.t", Lsn(5), "it changed", may_copy=may_copy, now_s=now_s)


def test_table_in_trouble_is_stale_and_remembers_when() -> None:
    found = after(KNOWN, 1000.9)
    assert (found.state, found.name, found.since, found.why) == (STALE, "public.t", 5, "it changed")
    assert (found.topic, found.membership, found.troubles) == ("p.public.t", "7", (1000,))


def test_table_that_no_copy_mends_is_quarantined() -> None:
    assert after(KNOWN, 1000, may_copy=False).state == QUARANTINED


def test_table_that_was_copied_again_too_often_is_quarantined() -> None:
    table = KNOWN
    for number in range(AGAIN_MAX):
        table = after(table, number)
        assert table.state == STALE
    last = after(table, AGAIN_MAX)
    assert (last.state, is_copied_too_often(last.troubles)) == (QUARANTINED, True)


def test_table_that_its_owner_rewrites_is_copied_as_often() -> None:
    table = KNOWN
    for number in range(2 * AGAIN_MAX):
        table = after_trouble(table, "public.t", Lsn(5), "it changed", may_copy=True, now_s=number, counts=False)
        assert (table.state, table.troubles) == (STALE, ())


def test_troubles_of_long_ago_do_not_count() -> None:
    table = KNOWN
    for number in range(AGAIN_MAX):
        table = after(table, number)
    assert after(table, WITHIN_S + AGAIN_MAX).troubles == (WITHIN_S + AGAIN_MAX,)


@pytest.mark.parametrize("jump_s", [-2 * 86_400, 2 * 86_400])
def test_troubles_before_the_clock_was_set_do_not_count(jump_s: int) -> None:
    """Else those of a clock that was ahead would keep the table quarantined until their time has come."""
    table = KNOWN
    for number in range(AGAIN_MAX):
        table = after(table, number)
    last = after(table, jump_s)
    assert (last.state, last.troubles) == (STALE, (jump_s,))


HOURS_S = 3 * WITHIN_S
"""How long a copy takes."""


def test_copies_that_take_hours_and_do_not_help_are_not_made_for_ever() -> None:
    table, now_s = KNOWN, 0
    for _ in range(AGAIN_MAX):
        table = after(table, now_s)
        assert table.state == STALE
        begun = with_copy_begun(table, now_s + 5)
        table = with_copy_ended(begun, now_s + HOURS_S)
        now_s += HOURS_S + 5
    assert after(table, now_s).state == QUARANTINED


def test_troubles_while_copies_take_hours_count() -> None:
    """As where the lake cannot take the first rows of each copy, and asks for the next one at once."""
    table, now_s = KNOWN, 0
    for _ in range(AGAIN_MAX + 1):
        begun = replace(with_copy_begun(table, now_s), state=COPYING)
        table = replace(with_copy_ended(with_trouble(begun, now_s + 60), now_s + HOURS_S), state=CURRENT)
        now_s += HOURS_S
    assert is_copied_too_often(table.troubles)


def test_copy_that_has_another_reason_brings_no_old_trouble_back() -> None:
    table = with_trouble(KNOWN, 0)
    begun = with_copy_begun(table, WITHIN_S)
    assert with_copy_ended(begun, WITHIN_S + 60).troubles == ()


def test_table_that_was_well_for_an_hour_after_its_copy_has_no_trouble() -> None:
    begun = with_copy_begun(with_trouble(KNOWN, 0), 5)
    ended = with_copy_ended(begun, HOURS_S)
    assert with_trouble(ended, HOURS_S + WITHIN_S).troubles == (HOURS_S + WITHIN_S,)


def test_copy_that_ends_before_a_clock_that_was_set_back_leaves_troubles_as_they_are() -> None:
    begun = with_copy_begun(with_trouble(KNOWN, 1000), 1005)
    assert with_copy_ended(begun, 500).troubles == (1000,)


def test_faults_that_a_copy_of_days_meets_now_and_then_do_not_add_up() -> None:
    table = replace(KNOWN, state=COPYING)
    for number in range(2 * AGAIN_MAX):
        table = with_fault(table, number * WITHIN_S / 2)
    assert not is_copied_too_often(table.troubles)
