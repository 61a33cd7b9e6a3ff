"""Which topic a table gets that was made again under its name: offsets in cuts mean one record for ever (I7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from tests.producer.copied_session import COPIED, LATE, LATER, found
from tests.producer.kept import Kept
from walbridge.producer.kafka.described_topic import DescribedTopic
from walbridge.producer.postgres.copy_beside.copy_protocol import TableFound
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.session.copies.start import CopyStart, Refused
from walbridge.schemas.control.table_progress import DROPPED, GIVEN_UP, TableProgress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn

TOPIC = "p.public.late"
LEFT = TableProgress(LATE, DROPPED, TOPIC, "one", "of its own", Lsn(150))


def again(relation_id: int = LATER, *, has_key: bool = True) -> TableFound:
    """The table of that name, made again."""
    made = found(key_names=("id",) if has_key else None)
    return replace(made, table=replace(made.table, relation_id=relation_id))


class Begun:
    """A session in which a table has been copied into the topic of its name, and was dropped."""

    def __init__(self, left: TableProgress | None = LEFT) -> None:
        self.kept = Kept(progress=COPIED)
        self.start = CopyStart(self.kept.tables, self.kept.tracker, self.kept.watch)
        assert self.topic_of(found(LATE)) == TOPIC
        if left is not None:
            self.kept.tracker.remember_tables({LATE: left})

    def topic_of(self, table: TableFound) -> str:
        return self.start.writer_of(table).relation.topic


def test_table_made_again_goes_on_in_the_topic_that_the_one_before_it_left() -> None:
    assert Begun().topic_of(again()) == TOPIC


@pytest.mark.parametrize("there", [None, DescribedTopic("another", 1)], ids=["deleted", "made anew"])
def test_topic_that_is_not_the_one_that_was_left_is_not_made_or_taken_again(there: DescribedTopic | None) -> None:
    begun = Begun()
    begun.kept.kept_watch.there[TOPIC] = there
    assert begun.topic_of(again()) == f"{TOPIC}_2"


@pytest.mark.parametrize(
    "left",
    [
        replace(LEFT, topic_id=GIVEN_UP),
        replace(LEFT, topic_id=None),
        replace(LEFT, topic=f"{TOPIC}_5"),
        None,
    ],
    ids=["given up", "of earlier code", "moved on", "forgotten"],
)
def test_topic_of_which_progress_does_not_say_that_it_was_left_as_it_is_is_not_taken_again(
    left: TableProgress | None,
) -> None:
    assert Begun(left).topic_of(again()) == f"{TOPIC}_2"


def test_other_topic_is_told_once_however_often_the_copy_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Begun()
    begun.kept.kept_watch.there[TOPIC] = None
    reasons = iter(["no right", "no right", None])

    def refuse_copy(table: PublishedTable) -> None:
        if (what := next(reasons)) is not None:
            raise OperatorError(what, remedy="grant it")

    monkeypatch.setattr(begun.kept.watch.now, "refuse_copy", refuse_copy)
    with capture_logs() as told:
        for _ in range(2):
            with pytest.raises(Refused):
                begun.topic_of(again())
        assert begun.topic_of(again()) == f"{TOPIC}_2"

    assert [(each["event"], each["topic"]) for each in told if "topic" in each] == [
        ("a table gets another topic", f"{TOPIC}_2")
    ]


def test_other_topic_is_taken_again_by_the_next_table_of_the_name() -> None:
    begun = Begun()
    begun.kept.kept_watch.there[TOPIC] = None
    assert begun.topic_of(again()) == f"{TOPIC}_2"
    begun.kept.tracker.remember_tables({LATER: replace(LEFT, relation_id=LATER, topic=f"{TOPIC}_2")})
    third = again(LATER + 10)
    assert begun.topic_of(third) == f"{TOPIC}_2"


def test_table_made_again_without_a_key_gets_a_topic_of_one_partition() -> None:
    """I3: over several partitions its rows have no order."""
    begun = Begun()
    begun.kept.kept_watch.there[TOPIC] = DescribedTopic("one", 4)
    assert begun.topic_of(again()) == TOPIC

    begun = Begun()
    begun.kept.kept_watch.there[TOPIC] = DescribedTopic("one", 4)
    assert begun.topic_of(again(has_key=False)) == f"{TOPIC}_2"


def test_table_that_lost_its_key_gets_a_topic_of_one_partition_and_stays_there_with_another_key() -> None:
    """I3: it is copied again, and needs nobody's help."""
    begun = Begun(None)
    (known,) = begun.kept.tables.versions.newest([LATE])
    begun.kept.cache.remember(replace(known, partition_count=4, schema_id="spread"))
    writer = begun.start.writer_of(found(LATE, key_names=None))
    assert (writer.relation.topic, writer.relation.partition_count) == (f"{TOPIC}_2", 1)
    assert begun.topic_of(found(LATE)) == f"{TOPIC}_2"


def test_table_of_another_cluster_keeps_the_topic_that_progress_tells_while_it_is_there() -> None:
    """After ``walbridge copy --all`` no id of a topic is known."""
    own = TableProgress(LATER, "stale", TOPIC, name="public.late")
    for there, topic in ((DescribedTopic("one", 1), TOPIC), (None, f"{TOPIC}_2")):
        begun = Begun(None)
        begun.kept.cache.begin_at(10)
        begun.kept.tracker.remember_tables({LATER: own})
        begun.kept.kept_watch.there[TOPIC] = there
        assert begun.topic_of(again()) == topic


@pytest.mark.parametrize("key", ["note", "id"])
def test_table_of_another_cluster_with_another_key_gets_another_topic_whatever_its_id_is(key: str) -> None:
    """I3: rows under the keys of the table before would stay beside its own."""
    for relation_id in (LATE, LATER):
        begun = Begun(None)
        begun.kept.cache.begin_at(10)
        own = TableProgress(relation_id, "stale", TOPIC, name="public.late")
        begun.kept.tracker.remember_tables({relation_id: own})
        begun.kept.kept_watch.there[TOPIC] = DescribedTopic("one", 1)
        there = again(relation_id)
        columns = tuple(
            replace(each, in_primary_key=each.name == key, in_replica_identity=each.name == key)
            for each in there.facts.columns
        )
        table = replace(there, facts=replace(there.facts, columns=columns), key_names=(key,))
        assert begun.topic_of(table) == (TOPIC if key == "id" else f"{TOPIC}_2")
