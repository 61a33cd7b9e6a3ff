"""Clocks that differ are told, and an answer that takes long is no difference."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from walbridge.check.source.clock import skew_findings, skew_s

AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(("said_s", "skew"), [(-7, -7), (0, 0), (30, 0), (60, 0), (72, 12)])
def test_skew_is_what_the_time_of_the_answer_cannot_explain(said_s: float, skew: float) -> None:
    assert skew_s(AT, AT + timedelta(seconds=said_s), AT + timedelta(seconds=60)) == skew


@pytest.mark.parametrize(
    ("skew", "words"), [(42.0, ["42 s ahead of this"]), (-42.0, ["42 s behind this"]), (4.0, []), (-4.0, [])]
)
def test_clocks_that_differ_by_much_are_told(skew: float, words: list[str]) -> None:
    found = list(skew_findings(skew, "server"))

    assert len(found) == len(words)
    assert all(word in each.text for word, each in zip(words, found, strict=True))
