"""Topics as they are, beside those that were written to: which tables need another one (I3, I7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from tests.producer.guards.test_source_watch import END, Watched
from tests.producer.kept import ITEMS, ORDERS
from walbridge.producer.errors.topics import TopicLost
from walbridge.producer.guards import look_pace, topic_watch
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.control.table_progress import GIVEN_UP
from walbridge.schemas.errors import KafkaAway, OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Producer, Topics

TOPIC = "p.public.orders"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look asks for the topics."""
    monkeypatch.setattr(topic_watch, "INTERVAL_S", 0.0)


def followed(settings: Settings | None = None) -> Watched:
    """A session over two tables, whose topics are known by their ids."""
    watched = Watched(settings or Settings(name="p"))
    watched.open()
    return watched


def delete(watched: Watched) -> None:
    watched.admin.deleted.add(TOPIC)


def remake(watched: Watched) -> None:
    watched.admin.ids[TOPIC] = "another"


def grow(watched: Watched) -> None:
    watched.admin.counts[TOPIC] = 2


LOSSES = {delete: "is gone", remake: "made again", grow: "has 2 partitions, its rows were spread over 1"}


def doubted(watched: Watched) -> dict[int, str]:
    return {
        each: reason.what for each, reason in watched.watched.doubts.take(END).items() if isinstance(reason, TopicLost)
    }


@pytest.mark.parametrize(("lose", "words"), LOSSES.items())
def test_session_begins_where_one_table_has_lost_its_topic_and_that_table_is_in_doubt(
    lose: Callable[[Watched], None], words: str
) -> None:
    """I8: all others flow."""
    watched = followed()
    lose(watched)
    watched.open()

    ((relation_id, why),) = doubted(watched).items()
    assert (relation_id, words in why) == (ORDERS, True)


@pytest.mark.parametrize(("lose", "words"), LOSSES.items())
def test_topic_that_is_lost_under_a_session_is_noticed_by_a_look_that_does_not_wait(
    lose: Callable[[Watched], None], words: str
) -> None:
    watched = followed()
    watched.watched.topics.receive_answers()
    lose(watched)
    watched.admin.answers = False
    watched.look()
    watched.watched.topics.receive_answers()
    assert doubted(watched) == {}

    watched.admin.answers = True
    watched.watched.topics._asked = None
    watched.look()
    watched.watched.topics.receive_answers()
    assert [words in why for why in doubted(watched).values()] == [True]


def test_topic_that_is_lost_is_noticed_also_where_the_stream_is_never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nobody looks but before cuts."""
    monkeypatch.setattr(look_pace, "_SHARE", 0)
    watched = followed()
    delete(watched)
    with watched.seen():
        for _ in range(2):
            watched.watched.look_before_cut()

    assert list(doubted(watched)) == [ORDERS]


def test_topic_that_ends_before_the_newest_cuts_do_puts_its_table_alone_in_doubt() -> None:
    """I4: its broker lost records that it had acknowledged."""
    watched = followed()
    watched.admin.ends[TOPIC, 0] = 9
    watched.watched.topics.published_ends = lambda: {(TOPIC, 0): 10, ("p.public.items", 0): 10}
    watched.open()

    ((relation_id, why),) = doubted(watched).items()
    assert (relation_id, "a broker lost what it had acknowledged" in why) == (ORDERS, True)


def test_ends_of_cuts_are_not_read_where_a_topic_of_all_tables_is_gone() -> None:
    """It may be the topic of cuts, and then would be waited for without end."""
    watched = followed()
    watched.admin.deleted.add("p.cuts")

    def read() -> dict[PartitionId, int]:
        raise KafkaAway("not read")

    watched.watched.topics.published_ends = read
    with pytest.raises(OperatorError, match=r"p\.cuts"):
        watched.open()


def test_broker_is_not_asked_for_topics_with_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be a look before each cut."""
    monkeypatch.setattr(topic_watch, "INTERVAL_S", 10.0)
    watched = followed()
    watched.watched.topics.receive_answers()
    watched.look()
    assert watched.watched.topics._asked is None, "the start has asked"

    monkeypatch.setattr(topic_watch, "INTERVAL_S", 0.0)
    watched.look()
    assert watched.watched.topics._asked is not None


def test_topic_of_all_tables_that_is_lost_under_a_session_is_refused() -> None:
    watched = followed()
    watched.watched.topics.receive_answers()
    watched.admin.ids["p.metadata"] = "another"
    watched.look()

    with pytest.raises(OperatorError, match=r"p\.metadata was deleted and made again"):
        watched.watched.topics.receive_answers()


def test_broker_that_does_not_answer_says_nothing_of_topics() -> None:
    watched = followed()
    watched.look()
    asked = watched.watched.topics._asked
    assert asked is not None

    def away() -> None:
        raise KafkaAway("away")

    asked.found = away  # type: ignore[method-assign, assignment]
    watched.watched.topics.receive_answers()
    assert doubted(watched) == {}
    assert watched.watched.topics._asked is None


def test_lost_topic_stops_all_where_settings_say_so() -> None:
    watched = followed(Settings(name="p", producer=Producer(on_table_error="stop")))
    delete(watched)

    with pytest.raises(TopicLost, match="is gone"):
        watched.open()


def test_rows_that_a_topic_made_anew_took_are_not_committed() -> None:
    """I7: told before the first commit to it."""
    watched = followed()
    watched.watched.topics.refuse_others({TOPIC, "p.messages"})
    for lose in (remake, delete):
        lose(watched)
        with pytest.raises(KafkaAway, match="was deleted while it was written to"):
            watched.watched.topics.refuse_others({TOPIC})
    watched.watched.topics.refuse_others({"p.public.items"})


def test_rows_that_are_not_taken_are_given_up_once_their_topic_is_known_to_be_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client would ask again as long as a transaction may take; a broker that is away is waited for."""
    monkeypatch.setattr(topic_watch, "SUSPECT_S", 0.0)
    watched = followed()
    topics = watched.watched.topics
    watched.admin.answers = False
    delete(watched)
    for _ in range(3):
        topics.suspect({TOPIC})
    assert topics._suspected is not None
    topics._suspected = None
    watched.admin.answers = True
    topics.suspect({TOPIC})
    with pytest.raises(KafkaAway, match="was deleted while it was written to"):
        topics.suspect({TOPIC})
    topics.suspect({"p.public.items"})
    topics.suspect({"p.public.items"})


def with_partitions(watched: Watched, count: int) -> Watched:
    """A later session, with other settings."""
    settings = Settings(name="p", topics=Topics(partitions=count))
    watched.watched = type(watched.watched)(
        settings,
        watched.watched._connection,
        cast(TopicAdmin, watched.admin),
        watched.tables,
        watched.tracker,
    )
    return watched


def test_other_number_of_partitions_in_the_settings_puts_every_table_with_a_key_in_doubt_once() -> None:
    """I3: until a cut has told, each start finds it again."""
    watched = with_partitions(followed(), 3)
    for _ in range(2):
        watched.open()
    assert {*doubted(watched)} == {ORDERS, ITEMS}
    watched.open()
    assert doubted(watched) == {}


def test_topics_that_had_other_partitions_before_settings_were_remembered_are_as_they_are() -> None:
    """They were made by hand, or by earlier code."""
    watched = with_partitions(Watched(), 3)
    watched.open()

    assert doubted(watched) == {}


def test_table_that_waits_for_its_copy_is_copied_into_a_topic_of_as_many_partitions_as_settings_say() -> None:
    watched = with_partitions(followed(), 3)
    known = watched.tracker.progress.tables
    watched.tracker.remember_tables({ORDERS: replace(known[ORDERS], state="stale")})
    watched.open()

    stale = watched.tracker.progress.tables[ORDERS]
    assert (stale.topic, stale.topic_id) == (TOPIC, GIVEN_UP)
    assert {*doubted(watched)} == {ITEMS}


@pytest.mark.parametrize("lose", LOSSES)
def test_copy_of_a_table_whose_topic_was_lost_goes_into_another_one(lose: Callable[[Watched], None]) -> None:
    watched = followed()
    (record,) = watched.tables.versions.newest([ORDERS])
    assert watched.watched.topics.why_lost(record) is None
    lose(watched)
    assert isinstance(watched.watched.topics.why_lost(record), TopicLost)


def test_copy_of_a_table_whose_topic_was_given_up_goes_into_another_one_and_stays_there() -> None:
    """Also where the next start finds the records of a copy that did not begin."""
    watched = followed()
    (record,) = watched.tables.versions.newest([ORDERS])
    known = watched.tracker.progress.tables[ORDERS]
    watched.tracker.remember_tables({ORDERS: replace(known, state="stale", topic_id=GIVEN_UP)})

    assert isinstance(watched.watched.topics.why_lost(record), TopicLost)
    assert watched.watched.topics.why_lost(replace(record, topic=f"{TOPIC}_2")) is None


def test_other_topic_has_a_name_that_no_topic_of_the_broker_has() -> None:
    """I7: what is in such a topic is somebody else's, or of an earlier life of the table."""
    watched = followed()
    watched.admin.counts |= {TOPIC: 1, f"{TOPIC}_2": 1}

    assert watched.watched.topics.free_topic(TOPIC, [f"{TOPIC}_3"]) == f"{TOPIC}_4"


def test_other_cleanup_in_the_settings_puts_its_table_in_doubt_and_no_other() -> None:
    watched = followed()
    watched.tables.topics._settings = Settings(name="p", topics=Topics(cleanup={"public.orders": "compact"}))
    watched.open()

    assert {each: "made for cleanup delete" in why for each, why in doubted(watched).items()} == {ORDERS: True}


def test_other_format_in_the_settings_puts_every_table_in_doubt_until_it_has_another_topic() -> None:
    watched = followed()
    settings = Settings(name="p", topics=Topics(format="confluent", registry_url="http://127.0.0.1:1"))
    watched.tables.registry._settings = settings
    watched.open()

    assert {each: "is in format single-object" in why for each, why in doubted(watched).items()} == {
        ORDERS: True,
        ITEMS: True,
    }
