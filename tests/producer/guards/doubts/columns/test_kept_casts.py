"""Casts that keep every value of a column, and those that may not."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from walbridge.producer.guards.doubts.columns.kept_casts import Enums, enums_cast_to_text, may_print_other_numbers
from walbridge.schemas.ddl_row import REWRITE, DdlRow
from walbridge.schemas.pg_types import TypeFacts

BEFORE = frozenset({(1, 23, -1), (2, 21, -1), (3, 700, -1), (4, 1700, 786440)})
ENUM, ENUMS, COMPOSITE, DOMAIN = 600_001, 600_002, 600_003, 600_004
FACTS = {
    each.oid: each
    for each in (
        TypeFacts(ENUM, "public", "mood", "e"),
        TypeFacts(ENUMS, "public", "_mood", "a", element_type=ENUM),
        TypeFacts(COMPOSITE, "public", "pair", "c"),
        TypeFacts(DOMAIN, "public", "feeling", "d", base_type=ENUM),
    )
}
TEXT, TEXTS, VARCHAR, VARCHARS = (25, -1), (1009, -1), (1043, -1), (1015, -1)


def cast(
    before: Collection[tuple[int, int, int]],
    now: Collection[tuple[int, int, int]],
    made: frozenset[tuple[int, int]] | None = frozenset(),
) -> Enums | None:
    told = DdlRow(REWRITE, 7, is_plain=True, types=frozenset(now), made_casts=made)
    return enums_cast_to_text(frozenset(before), told, FACTS.get)


@pytest.mark.parametrize(
    ("now", "is_kept"),
    [
        ({(1, 20, -1), (2, 23, -1), (3, 701, -1), (4, 1700, 786440)}, True),
        ({(1, 20, -1), (5, 25, -1)}, True),
        ({(1, 21, -1)}, False),
        ({(1, 26, -1)}, False),
        ({(1, 701, -1)}, False),
        ({(4, 1700, -1)}, False),
        (set(), False),
        (BEFORE, False),
    ],
)
def test_casts_to_wider_numbers_keep_every_value(now: Collection[tuple[int, int, int]], is_kept: bool) -> None:
    """Whoever made a cast, and where earlier code of the trigger does not tell it. I8: who rewrites a table in which
    nothing is another cast it from something else."""
    for made in (frozenset({(23, 25)}), None):
        assert (cast(BEFORE, now, made) is not None) is is_kept


@pytest.mark.parametrize(
    ("old", "now", "enums"),
    [
        ((1007, -1), (1016, -1), set()),
        ((1005, -1), (1007, -1), set()),
        ((1016, -1), (1007, -1), None),
        ((1021, -1), (1022, -1), None),
        ((1007, -1), TEXTS, None),
        ((1007, -1), TEXT, None),
        ((ENUM, -1), TEXT, {ENUM}),
        ((ENUM, -1), VARCHAR, {ENUM}),
        ((ENUM, -1), (1043, 14), None),
        ((ENUM, -1), (1042, -1), None),
        ((ENUM, -1), TEXTS, None),
        ((ENUMS, -1), TEXTS, {ENUM}),
        ((ENUMS, -1), VARCHARS, {ENUM}),
        ((ENUMS, -1), (1015, 14), None),
        ((DOMAIN, -1), TEXT, None),
        ((COMPOSITE, -1), TEXT, None),
        ((600_009, -1), TEXT, None),
        ((2950, -1), TEXT, set()),
        ((3802, -1), VARCHAR, set()),
        ((114, -1), TEXT, set()),
        ((2951, -1), TEXTS, set()),
        ((1015, 14), TEXTS, set()),
        ((1015, 14), (1015, 24), set()),
        ((1015, 24), (1015, 14), None),
        ((1015, -1), (1015, 14), None),
        ((1043, 14), (114, -1), set()),
        (TEXT, (3802, -1), None),
        (TEXT, (2950, -1), None),
        ((1042, 14), TEXT, None),
        ((869, -1), TEXT, None),
        ((1186, -1), TEXT, None),
        ((23, -1), TEXT, None),
        ((1082, -1), (1114, -1), None),
    ],
)
def test_casts_that_keep_the_text_of_a_value(
    old: tuple[int, int], now: tuple[int, int], enums: set[int] | None
) -> None:
    assert cast({(1, *old)}, {(1, *now)}) == (None if enums is None else frozenset(enums))
    assert cast({(1, *old)}, {(1, *now)}, None) is None
    assert cast({(1, *old)}, {(1, *now)}, frozenset({(old[0], now[0])})) is None


@pytest.mark.parametrize(("old", "now", "made"), [(1007, 1016, (23, 20)), (ENUMS, 1009, (ENUM, 25))])
def test_cast_of_an_element_that_somebody_made_may_change_it(old: int, now: int, made: tuple[int, int]) -> None:
    assert cast({(1, old, -1)}, {(1, now, -1)}, frozenset({made})) is None


def test_all_columns_must_keep_their_values() -> None:
    """A text that becomes a longer one is no reason for a rewrite, and loses nothing beside one that is."""
    before = {(1, ENUM, -1), (2, 1043, 14), (3, 23, -1)}
    assert cast(before, {(1, *TEXT), (2, *TEXT), (3, 20, -1)}) == frozenset({ENUM})
    assert cast(before, {(1, *TEXT), (2, *TEXT), (3, 21, -1)}) is None
    assert cast(before, {(1, ENUM, -1), (2, *TEXT), (3, 23, -1)}) is None


def test_integer_that_is_called_an_oid_reads_otherwise() -> None:
    """I8: -1 is another number there, and no row is rewritten."""
    assert may_print_other_numbers(BEFORE, frozenset({(1, 26, -1)}))
    assert not may_print_other_numbers(BEFORE, frozenset({(1, 20, -1), (3, 26, -1), (9, 26, -1)}))
    assert not may_print_other_numbers(BEFORE, frozenset())
