"""New files that rows about DDL explain, and those that they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.guards.doubts.told_rewrites import ToldRewrites, keeps_values, reads_otherwise
from walbridge.producer.postgres.facts import TableFile

TABLE = 16_400
FIRST = TableFile(TABLE, 1, 5, 2)


def told(*files: tuple[int, int]) -> ToldRewrites:
    rewrites = ToldRewrites()
    for before, now in files:
        rewrites.begin(TABLE, before)
        assert rewrites.end(TABLE, now)
    return rewrites


def test_rewrites_that_are_told_one_after_another_explain_the_last_file() -> None:
    rewrites = told((1, 2), (2, 3))
    assert rewrites.explain(FIRST, replace(FIRST, file=3, toast=6))
    assert rewrites.explain(FIRST, replace(FIRST, file=2))


def test_file_that_none_of_them_left_is_not_explained() -> None:
    """I8: there was a TRUNCATE, or a rewrite that was not told."""
    rewrites = told((1, 2), (3, 4))
    assert not rewrites.explain(FIRST, replace(FIRST, file=4))
    assert not rewrites.explain(FIRST, replace(FIRST, file=9))
    assert not rewrites.explain(FIRST, replace(FIRST, relation_id=1, file=2))


def test_column_that_came_on_the_way_is_not_explained() -> None:
    """I8: its value is in the new file, and in no catalogue any more."""
    assert not told((1, 2)).explain(FIRST, replace(FIRST, file=2, column_count=3))


def test_command_that_ends_with_the_same_file_or_was_not_told_to_rewrite_explains_nothing() -> None:
    rewrites = ToldRewrites()
    assert not rewrites.end(TABLE, 2)
    rewrites.begin(TABLE, 2)
    assert not rewrites.end(TABLE, 2)
    assert not rewrites.explain(FIRST, replace(FIRST, file=2))


def test_what_is_told_before_the_catalogue_shows_it_is_kept_until_it_does() -> None:
    """A commit is in the WAL a moment before that."""
    rewrites, now = told((1, 2)), replace(FIRST, file=2)
    rewrites.forget([FIRST])
    assert rewrites.explain(FIRST, now)
    rewrites.forget([now])
    assert not rewrites.explain(FIRST, now)


def test_files_that_lead_in_a_circle_end() -> None:
    assert not told((1, 2), (2, 1)).explain(FIRST, replace(FIRST, file=3))


BEFORE = frozenset({(1, 23, -1), (2, 21, -1), (3, 700, -1), (4, 1700, 786440)})


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({(1, 20, -1), (2, 23, -1), (3, 701, -1), (4, 1700, 786440)}, True),
        ({(1, 20, -1), (5, 25, -1)}, True),
        ({(1, 21, -1)}, False),
        ({(1, 26, -1)}, False),
        ({(1, 701, -1)}, False),
        ({(4, 1700, -1)}, False),
        (set(), False),
    ],
)
def test_casts_to_wider_numbers_keep_every_value(now: set[tuple[int, int, int]], expected: bool) -> None:
    assert keeps_values(BEFORE, frozenset(now)) is expected


def test_integer_that_is_called_an_oid_reads_otherwise() -> None:
    """I8: -1 is another number there, and no row is rewritten."""
    assert reads_otherwise(BEFORE, frozenset({(1, 26, -1)}))
    assert not reads_otherwise(BEFORE, frozenset({(1, 20, -1), (3, 26, -1), (9, 26, -1)}))
    assert not reads_otherwise(BEFORE, frozenset())
