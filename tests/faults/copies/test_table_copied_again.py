"""A table that is followed is copied again because somebody asks for it, under load and through kills (I1, I4, I8)."""

from __future__ import annotations

import pytest

from tests.faults.copies.test_table_copied import MADE, Habits, table
from tests.faults.followed import settings_of
from tests.faults.kill_points import BESIDE
from tests.fix_producer import ProducerUnderTest
from tests.integration.test_publication import FILTERED
from tests.integration.test_toast import BIG
from tests.wait import wait_until
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.control.table_request import COPY, TableRequest, to_copy
from walbridge.tables.copy import copy
from walbridge.tables.request import write

pytestmark = pytest.mark.fault


@pytest.fixture
def followed(producer: ProducerUnderTest) -> ProducerUnderTest:
    """A pipeline that follows ``t`` and ``u``, with small chunks."""
    producer.database.execute("CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) VALUES (0)")
    producer.database.execute(MADE.format(rows=3000))
    producer.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    producer.settings["producer"] = {"batch_rows_max": 150}
    return producer


def ask_for_copy(producer: ProducerUnderTest, name: str) -> None:
    relation_id = producer.database.value("SELECT %s::regclass::oid::int", (name,))
    write(settings_of(producer), [TableRequest(COPY, relation_id)])


def is_done(producer: ProducerUnderTest, name: str) -> bool:
    """The table is current, and nothing is asked for any more."""
    found = table(producer, name)
    with producer.topics() as topics:
        progress = topics.progress()
    return found is not None and found.state == CURRENT and progress is not None and not to_copy(progress)


def markers(producer: ProducerUnderTest, name: str) -> list[str]:
    """Barriers of the table, without those of shapes."""
    with producer.topics() as topics:
        kinds = [b.kind for cut in topics.cuts() for t in cut.tables for b in t.barriers if t.topic.endswith(name)]
    return [kind for kind in kinds if kind != "shape"]


def test_table_is_copied_again_while_it_is_written_and_stays_current(followed: ProducerUnderTest) -> None:
    """No change of it is lost, doubled or left out while it is copied."""
    running = followed.start_streaming()
    with Habits(followed, 3000) as habits:
        habits.wait_for(20)
        ask_for_copy(followed, "u")
        running.wait_for_log("copy of a table begins")
        running.wait_for_log("table is copied")
        habits.wait_for(20)
    followed.check_equal()
    copied = table(followed, "u")
    assert copied is not None
    assert (copied.state, copied.copy, copied.why) == ("current", None, None)
    assert markers(followed, ".u") == ["copy_begin", "copy_end"] * 2


@pytest.mark.soak
def test_copy_that_was_asked_for_goes_on_after_a_kill_at_every_point(followed: ProducerUnderTest) -> None:
    """It is asked for once, before the first start, and made once."""
    followed.start_streaming().stop()
    ask_for_copy(followed, "u")
    with Habits(followed, 3000) as habits:
        for point in BESIDE:
            habits.wait_for(5)
            followed.run_until_killed(point)
            with followed.topics() as topics:
                topics.check_held(followed.confirmed_lsn())
    followed.start_streaming()
    followed.check_equal()
    copied = table(followed, "u")
    assert copied is not None
    assert copied.state == "current"
    assert markers(followed, ".u") == ["copy_begin", "copy_end"] * 2


@pytest.mark.variant(of="test_table_that_is_altered_and_emptied_while_it_is_copied_begins_again")
def test_table_that_is_altered_when_its_copy_is_asked_for_is_copied_as_it_is_then(followed: ProducerUnderTest) -> None:
    execute = followed.database.execute
    running = followed.start_streaming()
    execute("ALTER TABLE u ADD w int DEFAULT 5; ALTER TABLE u ALTER n TYPE bigint")
    ask_for_copy(followed, "u")
    running.wait_for_log("request of an operator")
    # It may have been copied before that, since it was rewritten.
    wait_until(lambda: is_done(followed, "u"), "the copy")
    execute("INSERT INTO u VALUES (-1, 2, 'three', 4)")
    followed.check_equal()


@pytest.mark.variant(of="test_request_waits_for_a_producer_that_does_not_run")
def test_request_for_a_table_that_is_unknown_changes_nothing(followed: ProducerUnderTest) -> None:
    running = followed.start_streaming()
    write(settings_of(followed), [TableRequest(COPY, 7)])
    running.wait_for_log("request of an operator")
    ask_for_copy(followed, "u")
    running.wait_for_log("table is copied")
    followed.check_equal()
    assert markers(followed, ".t") == ["copy_begin", "copy_end"]


def test_table_that_was_left_for_a_value_is_followed_again_by_its_remedy(producer: ProducerUnderTest) -> None:
    """I6: what the log says is typed as it stands."""
    execute = producer.database.execute
    execute(FILTERED)
    producer.publish("f WHERE (id > 5)", "u")
    producer.settings["producer"] = {"on_unknown_value": "stale"}
    running = producer.start_streaming()
    execute(f"INSERT INTO f VALUES (1, {BIG % 1}), (8, 'before')")
    execute("UPDATE f SET id = 11 WHERE id = 1")
    running.wait_for_log("table is followed no more")
    (told,) = [line for line in running.log.splitlines() if "table is followed no more" in line]
    assert "REPLICA IDENTITY FULL" in told
    assert "then walbridge copy public.f" in told
    execute("ALTER TABLE public.f REPLICA IDENTITY FULL")
    assert copy(settings_of(producer), ["public.f"], wait=True, say=print) == 0
    execute("UPDATE f SET id = 12 WHERE id = 11; INSERT INTO f VALUES (13, 'after')")
    producer.check_equal(filters={"public.f": "id > 5"})
