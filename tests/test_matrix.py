"""The table of features and versions says what tests did, and nothing else."""

from __future__ import annotations

import json
from collections import Counter

from tests.matrix import DATA, FEATURES, PAGE, passed, table, written_into

ROW, OTHER = "row filters", "column lists"


def test_page_of_versions_shows_the_matrix_that_was_run_last() -> None:
    page, found = PAGE.read_text(), json.loads(DATA.read_text())

    assert written_into(page, found) == page
    assert found.keys() == FEATURES.keys()


def test_cell_is_ticked_only_where_tests_ran_and_all_passed() -> None:
    outcomes = {
        (ROW, 15): Counter(passed=2),
        (ROW, 16): Counter(passed=1, failed=1),
        (ROW, 17): Counter(skipped=1),
        (OTHER, 15): Counter(passed=1, skipped=1),
    }

    found = passed(outcomes)

    assert (found[ROW], found[OTHER]) == ({"15": 2}, {})
    assert f"| {ROW} | — | — | — | ✓ |  |  |  |\n" in table(found)
    assert f"| {OTHER} | — | — | — |  |  |  |  |\n" in table(found)
