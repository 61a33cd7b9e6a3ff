"""New files that rows about DDL explain, and those that they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.guards.doubts.ddl_rewrites import DdlRewrites
from walbridge.producer.postgres.facts import TableFile, TableStorage

TABLE = 16_400
FIRST = TableFile(TABLE, 1, 5, 2)


def told(*files: tuple[int, int]) -> DdlRewrites:
    rewrites = DdlRewrites()
    for before, now in files:
        rewrites.begin(TABLE, before)
        assert rewrites.end(TABLE, now)
    return rewrites


def test_rewrites_that_are_told_one_after_another_explain_the_last_file() -> None:
    rewrites = told((1, 2), (2, 3))
    assert rewrites.explains(FIRST, replace(FIRST, file=3, toast=6))
    assert rewrites.explains(FIRST, replace(FIRST, file=2))


def test_file_that_none_of_them_left_is_not_explained() -> None:
    """I8: there was a TRUNCATE, or a rewrite that was not told."""
    rewrites = told((1, 2), (3, 4))
    assert not rewrites.explains(FIRST, replace(FIRST, file=4))
    assert not rewrites.explains(FIRST, replace(FIRST, file=9))
    assert not rewrites.explains(FIRST, replace(FIRST, relation_id=1, file=2))


def test_column_that_came_on_the_way_is_not_explained() -> None:
    """I8: its value is in the new file, and in no catalogue any more."""
    assert not told((1, 2)).explains(FIRST, replace(FIRST, file=2, column_count=3))


def test_command_that_ends_with_the_same_file_or_was_not_told_to_rewrite_explains_nothing() -> None:
    rewrites = DdlRewrites()
    assert not rewrites.end(TABLE, 2)
    rewrites.begin(TABLE, 2)
    assert not rewrites.end(TABLE, 2)
    assert not rewrites.explains(FIRST, replace(FIRST, file=2))


def test_what_is_told_before_the_catalogue_shows_it_is_kept_until_it_does() -> None:
    """A commit is in the WAL a moment before that."""
    rewrites, now = told((1, 2)), replace(FIRST, file=2)
    rewrites.forget([FIRST])
    assert rewrites.explains(FIRST, now)
    rewrites.forget([now])
    assert not rewrites.explains(FIRST, now)


def test_files_that_lead_in_a_circle_end() -> None:
    assert not told((1, 2), (2, 1)).explains(FIRST, replace(FIRST, file=3))


def storage(file: TableFile, *labels: str) -> TableStorage:
    return TableStorage((file,), frozenset(labels))


@pytest.mark.parametrize(
    ("known", "now", "expected"),
    [
        ({"7-a", "7-b", "8-c"}, {"7-a", "7-b"}, True),
        ({"7-a", "7-b"}, {"7-a", "7-x"}, False),
        ({"7-a", "7-b"}, {"7-a"}, False),
        ({"7-a"}, {"7-a", "7-b"}, False),
        ({"8-c"}, set(), False),
        ({"7-a"}, set(), False),
        (set(), {"7-a"}, False),
    ],
)
def test_labels_that_became_texts_are_explained_where_they_are_called_as_they_were(
    known: set[str], now: set[str], expected: bool
) -> None:
    """I8: one that came since may have been renamed before it became a text. Of a type that is gone nobody knows."""
    rewrites = DdlRewrites()
    rewrites.begin(TABLE, 1, frozenset({7}))
    assert rewrites.end(TABLE, 2)
    after = replace(FIRST, file=2)

    rewrites.compare_labels({TABLE: storage(FIRST, *known)}, {TABLE: storage(after)}, lambda enums: frozenset(now))

    assert rewrites.explains(FIRST, after) is expected


def test_labels_are_asked_for_where_the_catalogue_shows_that_they_became_texts() -> None:
    """A commit is in the WAL a moment before that, and with it what else its transaction did."""
    rewrites = told((1, 2))
    rewrites.begin(TABLE, 2, frozenset({7}))
    assert rewrites.end(TABLE, 3)
    asked: list[frozenset[int]] = []

    def ask(enums: frozenset[int]) -> frozenset[str]:
        asked.append(enums)
        return frozenset({"7-a"})

    known = {TABLE: storage(FIRST, "7-a")}
    for file in (1, 2, 3, 3):
        rewrites.compare_labels(known, {TABLE: storage(replace(FIRST, file=file))}, ask)
    assert asked == [frozenset({7})] * 2
    rewrites.compare_labels(known, {TABLE: TableStorage(())}, ask)
    assert rewrites.explains(FIRST, replace(FIRST, file=3))
