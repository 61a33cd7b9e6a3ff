"""Facts beside the stream, compared with those of the copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.streaming_progress import STREAMING
from walbridge.producer.guards.baseline import Baseline, refuse_lost_publications
from walbridge.producer.kafka.described_topic import DescribedTopic
from walbridge.producer.postgres.facts import PublicationState
from walbridge.producer.postgres.publications.combined_publications import UNDER_OTHER_NAME
from walbridge.schemas.control.table_progress import CURRENT, TableProgress
from walbridge.schemas.errors import COPY_ALL, OperatorError, StreamLost
from walbridge.schemas.position import Lsn

MEMBERS = {1: "16401", 2: "16402+16403", 3: "*"}
TABLES = {each: TableProgress(each, CURRENT, membership=token) for each, token in MEMBERS.items()}
TABLES[1] = replace(TABLES[1], topic="p.public.t", topic_id="c")
BASELINE = Baseline(frozenset({16400}), TABLES, {"p.metadata": "a+/b"})
NOW = PublicationState({"walbridge": 16400}, (), MEMBERS, Lsn(7))


def _dropped(now: PublicationState) -> set[int]:
    return BASELINE.no_longer_published(["walbridge"], now)


def test_baseline_is_read_back_from_the_progress_that_carries_it() -> None:
    for baseline in (BASELINE, *(Baseline(frozenset(), {}, {}, generated) for generated in (None, "n", "s"))):
        options = {"proto_version": "1"} | baseline.options
        assert Baseline.of(replace(STREAMING, options=options, tables=baseline.tables)) == baseline


def test_progress_of_earlier_code_has_none() -> None:
    assert Baseline.of(STREAMING) is None


def test_generated_columns_are_compared_where_they_were_written_down() -> None:
    published = replace(NOW, generated_columns="s")
    assert not BASELINE.with_other_generated_columns(published)
    assert replace(BASELINE, generated_columns="n").with_other_generated_columns(published) == {16400: "walbridge"}
    assert not replace(BASELINE, generated_columns="s").with_other_generated_columns(published)


def test_generated_columns_of_one_publication_concern_the_tables_that_it_publishes() -> None:
    """Of a membership that does not list them, nobody can tell."""
    members = {1: f"16400={EVERY}=17@7", 2: f"16500={EVERY}=18@7", 3: f"16400={EVERY}=19@7 16500={EVERY}=20@7"}
    baseline = replace(_following(members | {4: "21@7"}, {16400, 16500}), generated_columns="16400=n 16500=n")
    state = replace(NOW, oids={"a": 16400, "b": 16500}, generated_columns="16400=s 16500=n")

    others = baseline.with_other_generated_columns(state)

    assert others == {16400: "a"}
    assert [each for each in (1, 2, 3, 4, 5) if baseline.may_be_in(others, each)] == [1, 3, 4, 5]


def test_table_that_left_is_told_and_one_that_came_is_not() -> None:
    assert _dropped(NOW) == set()
    assert _dropped(replace(NOW, members={1: "16401", 3: "*", 4: "16409"})) == {2}


def test_table_that_is_a_member_anew_is_told() -> None:
    """I7: changes between may be missing; one that left is told as such."""
    assert BASELINE.changed_memberships(NOW) == {}
    assert BASELINE.changed_memberships(replace(NOW, members={1: "16410", 3: "*", 4: "16409"})) == {1: ["walbridge"]}


def test_table_whose_publication_was_altered_and_altered_back_is_told_by_who_wrote_it_last() -> None:
    """I7: what was left out meanwhile shows nowhere else."""
    versioned = replace(BASELINE, tables={1: replace(TABLES[1], membership="16401@754"), 3: TABLES[3]})
    members = {1: "16401@754", 3: "*@754"}
    assert versioned.maybe_interrupted(replace(NOW, members=members)) == {}
    assert versioned.maybe_interrupted(replace(NOW, members=members | {1: "16401@790"})) == {1: ["walbridge"]}
    assert versioned.changed_memberships(replace(NOW, members=members | {1: "16401@790"})) == {}
    assert versioned.changed_memberships(replace(NOW, members=members | {1: "16410@790"})) == {1: ["walbridge"]}
    assert versioned.maybe_interrupted(replace(NOW, members=members | {1: "16410@790"})) == {}


@pytest.mark.parametrize(("version", "then"), [("@754", "then start walbridge produce, which copies"), ("", COPY_ALL)])
def test_operations_that_come_back_are_mended_by_the_next_start_if_it_can_tell(version: str, then: str) -> None:
    """I7: progress of earlier code does not say what publications were."""
    tables = {each: replace(table, membership=f"{table.membership}{version}") for each, table in TABLES.items()}
    with pytest.raises(OperatorError) as refusal:
        replace(BASELINE, tables=tables).no_longer_published(
            ["walbridge"], replace(NOW, missing_operations=("update",))
        )
    assert then in refusal.value.remedy


def test_membership_that_earlier_code_wrote_down_is_no_doubt_and_to_be_written_anew() -> None:
    now = replace(NOW, members={1: "16401@754", 2: "16402+16403@754+760", 3: "*@754"})
    assert (BASELINE.changed_memberships(now), BASELINE.maybe_interrupted(now)) == ({}, {})
    assert BASELINE.memberships_to_remember(now) == now.members
    again = replace(BASELINE, tables={each: replace(TABLES[each], membership=now.members[each]) for each in TABLES})
    assert again.memberships_to_remember(now) == {}
    assert BASELINE.memberships_to_remember(replace(now, members=dict(now.members) | {1: "16410@754"})).keys() == {2, 3}


def test_columns_that_earlier_code_did_not_write_down_are_no_doubt_and_others_later_are() -> None:
    """I7: a table that was a partition for a while has other ones."""
    before = replace(BASELINE, tables={1: replace(TABLES[1], membership="7=insert=5@754 8=delete=6@755")})
    now = replace(NOW, members={1: "7=insert=5@754^700 8=delete=6@755"})
    assert (before.changed_memberships(now), before.maybe_interrupted(now), before.memberships_to_remember(now)) == (
        {},
        {},
        now.members,
    )
    known = replace(BASELINE, tables={1: replace(TABLES[1], membership=now.members[1])})
    assert (known.maybe_interrupted(now), known.memberships_to_remember(now)) == ({}, {})
    for text in ("7=insert=5@754^760 8=delete=6@755", "7=insert=5@754^700 8=delete=6@756"):
        assert known.maybe_interrupted(replace(now, members={1: text})).keys() == {1}
        assert known.memberships_to_remember(replace(now, members={1: text})) == {}
    assert before.maybe_interrupted(replace(now, members={1: "7=insert=5@756^700 8=delete=6@755"})).keys() == {1}


@pytest.mark.parametrize(
    ("known", "now", "is_doubt"),
    [
        ("*@754^700,705", "*@754^705,760", False),
        ("*@754^700", "*@754^700,705", False),
        ("*@754^700,705", "*@754^", False),
        ("*@754^700,705", "*@754^760", True),
        ("*@754^700,705", "*@755^700,705", True),
        ("*@754^700,705", "*@754", True),
        ("7=insert=5@754^700 8=delete=6@755^700", "7=insert=5@754^700,760 8=delete=6@755^700,760", False),
        ("7=insert=5@754^700 8=delete=6@755^700", "7=insert=5@754^700", True),
    ],
)
def test_columns_that_are_altered_one_by_one_are_no_doubt_and_all_at_once_are(
    known: str, now: str, is_doubt: bool
) -> None:
    """I7: as ATTACH and DETACH do it. One that is as it was says that there was none, and what there is then is known
    for the next time."""
    before = replace(BASELINE, tables={1: replace(TABLES[1], membership=known)})
    found = replace(NOW, members={1: now})
    assert (before.maybe_interrupted(found).keys() | before.changed_memberships(found).keys() == {1}) == is_doubt
    assert before.memberships_to_remember(found) == ({} if is_doubt else found.members)


def test_operations_that_do_not_come_are_refused() -> None:
    """I7."""
    with pytest.raises(OperatorError, match="does not publish delete, truncate") as refusal:
        _dropped(replace(NOW, missing_operations=("delete", "truncate")))
    assert "SET (publish =" in refusal.value.remedy


def test_publication_that_was_renamed_is_told_with_the_name_that_it_has_now() -> None:
    """I7. Another that is there is not taken for it."""
    names = {16399: "another", 16400: "renamed"}
    with pytest.raises(StreamLost, match=r"publication walbridge, .*, was renamed to renamed: ") as lost:
        refuse_lost_publications(FOLLOWED, ["walbridge"], replace(NOW, oids={}, others=names))
    assert lost.value.remedy.startswith('ALTER PUBLICATION "renamed" RENAME TO "walbridge"; then ')


FOLLOWED = replace(STREAMING, options={"publication_names": '"walbridge"'} | BASELINE.options, tables=TABLES)


@pytest.mark.parametrize(
    ("names", "oids", "words"),
    [
        (["walbridge"], {}, "was dropped: changes since then did not come"),
        (["walbridge"], {"walbridge": 16500}, "was dropped and made again, or its name was given to another: "),
        (["walbridge", "other"], {"walbridge": 16500, "other": 16600}, "walbridge was dropped and made again, or its"),
    ],
)
def test_publication_under_which_changes_did_not_come_asks_for_a_copy_of_all_tables(
    names: list[str], oids: dict[str, int], words: str
) -> None:
    """I7. As a start and ``walbridge copy --all`` compare them."""
    with pytest.raises(StreamLost, match=words) as lost:
        refuse_lost_publications(FOLLOWED, names, replace(NOW, oids=oids))
    assert COPY_ALL in lost.value.remedy


EVERY = "insert,update,delete,truncate"


@pytest.mark.parametrize(
    ("before", "now", "concerned"),
    [
        ({5: "*@7"}, {5: f"16400={EVERY}=*@7"}, []),
        ({5: "17@7"}, {5: f"16400={EVERY}=17@7 16500={EVERY}=18@7"}, ["b"]),
        ({5: "17@7"}, {5: f"16400={EVERY}=17@8"}, ["a"]),
        ({5: "16400=insert=17@7"}, {5: f"16400=insert=17@7 16500={EVERY}=18@7"}, ["b"]),
        ({5: "as another"}, {5: "as another"}, []),
    ],
)
def test_table_of_one_publication_is_compared_with_what_several_tell_of_it(
    before: dict[int, str], now: dict[int, str], concerned: list[str]
) -> None:
    restated = _following(before, {16400}).restated_for(
        state := replace(NOW, oids={"a": 16400, "b": 16500}, members=now)
    )

    assert [*{**restated.changed_memberships(state), **restated.maybe_interrupted(state)}.values()] == (
        [concerned] if concerned else []
    )
    assert restated.has_same_publications(state)


@pytest.mark.parametrize(
    ("before", "now", "is_concerned"),
    [
        (f"16400={EVERY}=17@7", "17@7", False),
        (f"16400={EVERY}=17@7 16500={EVERY}=18@7", "17@7", True),
        ("16400=insert,update=17@7", "16400=insert,update=17@7", False),
        (f"16500={EVERY}=*@7", "17@7", True),
    ],
)
def test_table_of_several_publications_is_compared_with_what_one_tells_of_it(
    before: str, now: str, *, is_concerned: bool
) -> None:
    restated = _following({5: before}, {16400, 16500}).restated_for(
        state := replace(NOW, oids={"a": 16400}, members={5: now})
    )

    assert bool({**restated.changed_memberships(state), **restated.maybe_interrupted(state)}) == is_concerned


@pytest.mark.parametrize(
    ("before", "now", "differs"),
    [("n", "16400=n 16500=s", False), ("s", "16400=n 16500=s", True), ("16400=n 16600=s", "16400=n 16500=s", False)],
)
def test_generated_columns_differ_where_a_publication_that_is_followed_still_publishes_others(
    before: str, now: str, *, differs: bool
) -> None:
    """Of the tables of another one, their membership tells."""
    publications = frozenset({16400, 16600} if "=" in before else {16400})
    baseline = replace(BASELINE, publications=publications, generated_columns=before)
    state = replace(NOW, oids={"a": 16400, "b": 16500}, generated_columns=now)

    assert bool(baseline.restated_for(state).with_other_generated_columns(state)) == differs


def _following(memberships: dict[int, str], publications: set[int]) -> Baseline:
    tables = {each: TableProgress(each, CURRENT, membership=text) for each, text in memberships.items()}
    return replace(BASELINE, publications=frozenset(publications), tables=tables)


def test_publications_that_were_followed_all_the_time_pass_in_any_order() -> None:
    refuse_lost_publications(FOLLOWED, ["walbridge"], NOW)
    both = replace(BASELINE, publications=frozenset({16400, 16500}))
    progress = replace(FOLLOWED, options=FOLLOWED.options | both.options | {"publication_names": '"b","walbridge"'})
    refuse_lost_publications(progress, ["walbridge", "b"], replace(NOW, oids={"walbridge": 16400, "b": 16500}))
    refuse_lost_publications(FOLLOWED, ["other"], replace(NOW, oids={"other": 16500}))
    refuse_lost_publications(STREAMING, ["walbridge"], replace(NOW, oids={}))  # earlier code wrote nothing down


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ({"p.public.t": "c"}, "topic p.metadata is gone"),
        ({"p.metadata": "d"}, "topic p.metadata was deleted and made again"),
    ],
)
def test_topic_of_all_tables_that_is_not_the_one_that_was_written_is_refused(
    topics: dict[str, str], words: str
) -> None:
    """I7. What becomes of a table's own topic is that table's."""
    BASELINE.refuse_other_control_topics({"p.metadata": DescribedTopic("a+/b", 1)})
    with pytest.raises(OperatorError, match=words):
        BASELINE.refuse_other_control_topics({name: DescribedTopic(an_id, 1) for name, an_id in topics.items()})


def test_ids_of_topics_that_format_1_kept_together_go_to_their_tables() -> None:
    """I7: a topic that was made anew is noticed before and after."""
    earlier = replace(
        BASELINE,
        tables={each: replace(table, topic=None, topic_id=None) for each, table in TABLES.items()},
        control_topics={"p.metadata": "a+/b", "p.public.t": "c"},
    )
    later = earlier.with_table_topics({1: "p.public.t", 9: "p.public.other"})

    assert later == BASELINE
    assert later.topics == earlier.topics == {"p.metadata": "a+/b", "p.public.t": "c"}
    assert later.with_table_topics({1: "p.public.t"}) is later


def test_table_that_is_sent_under_another_name_is_told_whatever_was_written_down_of_it() -> None:
    """I8: on 13 and 14 earlier code followed a partition beside its published root, which is written to instead."""
    of_earlier_code = replace(BASELINE, tables={each: replace(TABLES[each], membership=known) for each, known in (
        (1, None), (2, UNDER_OTHER_NAME), (3, "*"))})  # fmt: skip
    now = replace(NOW, members={1: UNDER_OTHER_NAME, 2: UNDER_OTHER_NAME, 3: "*@754"})
    assert of_earlier_code.published_under_other_name(now) == {1, 2}
    assert of_earlier_code.changed_memberships(now) == {}
