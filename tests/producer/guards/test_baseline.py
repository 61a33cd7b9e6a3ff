"""Facts beside the stream, compared with those of the copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.guards.baseline import Baseline
from walbridge.producer.postgres.facts import PublicationState
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn

BASELINE = Baseline(16400, {1: "16401", 2: "16402+16403", 3: "*"}, {"p.metadata": "a+/b", "p.public.t": "c"})
NOW = PublicationState(16400, (), BASELINE.members, Lsn(7))


def _dropped(now: PublicationState | None) -> set[int]:
    return BASELINE.dropped("walbridge", now, lambda relation_id: f"public.t{relation_id}")


def test_baseline_is_read_back_from_the_options_that_carry_it() -> None:
    assert Baseline.of({"proto_version": "1"} | BASELINE.options) == BASELINE
    for generated in (None, "n", "s"):
        assert Baseline.of(Baseline(0, {}, {}, generated).options) == Baseline(0, {}, {}, generated)


def test_progress_of_earlier_code_has_none() -> None:
    assert Baseline.of({"proto_version": "1"}) is None


def test_generated_columns_are_compared_where_they_were_written_down() -> None:
    published = replace(NOW, generated_columns="s")
    assert _dropped(published) == set()
    with pytest.raises(OperatorError, match="publish_generated_columns of publication walbridge was changed"):
        replace(BASELINE, generated_columns="n").dropped("walbridge", published, str)


def test_table_that_left_is_told_and_one_that_came_is_not() -> None:
    assert _dropped(NOW) == set()
    assert _dropped(replace(NOW, members={1: "16401", 3: "*", 4: "16409"})) == {2}


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (None, "was dropped"),
        (replace(NOW, oid=16500), "dropped and made again"),
        (replace(NOW, missing_operations=("delete", "truncate")), "does not publish delete, truncate"),
        (replace(NOW, members={**BASELINE.members, 1: "16410"}), "table public.t1 was taken out"),
    ],
)
def test_publication_that_may_have_left_out_changes_is_refused(now: PublicationState | None, words: str) -> None:
    """I7."""
    with pytest.raises(OperatorError, match=words) as refusal:
        _dropped(now)
    assert refusal.value.remedy


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ({"p.metadata": "a+/b"}, "topic p.public.t is gone"),
        ({"p.metadata": "a+/b", "p.public.t": "d"}, "topic p.public.t was deleted and made again"),
    ],
)
def test_topic_that_is_not_the_one_that_was_written_is_refused(topics: dict[str, str], words: str) -> None:
    """I7."""
    BASELINE.refuse_other_topics(BASELINE.topics)
    with pytest.raises(OperatorError, match=words):
        BASELINE.refuse_other_topics(topics)
