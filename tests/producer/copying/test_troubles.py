"""A table that is in trouble is copied again, but not for ever."""

from __future__ import annotations

import pytest

from walbridge.producer.copying.troubles import AGAIN_MAX, WITHIN_S, after_trouble, is_copied_too_often
from walbridge.schemas.control.table_progress import CURRENT, QUARANTINED, STALE, TableProgress
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
