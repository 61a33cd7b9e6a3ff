"""Settings that name other publications: what may lack something is copied again, all else goes on (I4, I7, I8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.followed import copy_all_again, settings_of
from tests.fix_producer import ProducerUnderTest, Running
from tests.in_soak import in_soak
from tests.wait import wait_until
from walbridge.producer.kafka.control_topics import read_progress
from walbridge.schemas.control.table_progress import DROPPED
from walbridge.schemas.errors import COPY_ALL

pytestmark = pytest.mark.fault


def start_with(producer: ProducerUnderTest, *names: str) -> Running:
    producer.settings["postgres"] = {"publications": list(names)}
    return producer.start_streaming()


def copied_tables(running: Running) -> list[str]:
    """Those whose copies have ended."""
    lines = [line for line in running.log.splitlines() if "table is copied" in line]
    return sorted(line.split("table=public.")[1].split()[0] for line in lines)


def dropped_tables(producer: ProducerUnderTest) -> list[str]:
    progress = read_progress(settings_of(producer))
    assert progress is not None
    dropped = [relation_id for relation_id, table in progress.tables.items() if table.state == DROPPED]
    return [name for (name,) in producer.database.rows("SELECT relname FROM pg_class WHERE oid = ANY (%s)", (dropped,))]


@pytest.mark.parametrize("major", [in_soak(13), in_soak(17), 18])
def test_tables_of_publications_that_are_named_in_addition_or_no_more_come_and_go_and_the_others_go_on(
    producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    """Also of what was written while nobody followed."""
    producer = producer_on(major)
    execute = producer.database.execute
    tables = ("only_a", "shared", "only_b")
    execute("; ".join(f"CREATE TABLE {each} (id int PRIMARY KEY); INSERT INTO {each} VALUES (1)" for each in tables))
    producer.publish("only_a", "shared", name="a")
    start_with(producer, "a").stop()

    producer.publish("shared", "only_b", name="b")
    execute("; ".join(f"INSERT INTO {each} VALUES (2)" for each in tables))
    running = start_with(producer, "a", "b")
    wait_until(lambda: copied_tables(running) == ["only_b", "shared"], "the copies")
    execute("; ".join(f"INSERT INTO {each} VALUES (3)" for each in tables))
    producer.check_equal()
    assert copied_tables(running) == ["only_b", "shared"]
    running.stop()

    execute("INSERT INTO only_a VALUES (4); INSERT INTO only_b VALUES (4); DELETE FROM shared WHERE id = 1")
    running = start_with(producer, "b")
    wait_until(lambda: copied_tables(running) == ["shared"], "the copy")
    execute("INSERT INTO shared VALUES (5); INSERT INTO only_b VALUES (5)")
    with producer.topics() as topics:
        producer.caught_up(topics)
        replayed = topics.replay()
    assert sorted(row["id"] for row in replayed.rows("public", "shared")) == [2, 3, 5]
    assert sorted(row["id"] for row in replayed.rows("public", "only_b")) == [1, 2, 3, 4, 5]
    assert dropped_tables(producer) == ["only_a"]


def follow_a_and_b(producer: ProducerUnderTest) -> None:
    """A table in each of two publications; ten rows are a batch, so that more in one transaction are split."""
    producer.database.execute("CREATE TABLE only_a (id int PRIMARY KEY); CREATE TABLE big (id int PRIMARY KEY)")
    producer.publish("only_a", name="a")
    producer.publish("big", name="b")
    producer.settings["producer"] = {"batch_rows_max": 10}
    start_with(producer, "a", "b").stop()


@pytest.mark.variant(
    of="test_tables_of_publications_that_are_named_in_addition_or_no_more_come_and_go_and_the_others_go_on"
)
def test_table_of_a_publication_that_is_named_no_more_is_left_before_anything_comes_without_it(
    producer: ProducerUnderTest,
) -> None:
    """I8: also where the producer is killed inside of the first transaction that it reads."""
    follow_a_and_b(producer)
    execute = producer.database.execute
    execute("INSERT INTO only_a VALUES (1)")
    execute("INSERT INTO big SELECT generate_series(1, 100)")

    producer.settings["postgres"] = {"publications": ["b"]}
    producer.run_until_killed("produce:split")

    assert dropped_tables(producer) == ["only_a"]
    start_with(producer, "b")
    with producer.topics() as topics:
        producer.caught_up(topics)
        assert len(topics.replay().rows("public", "big")) == 100


@pytest.mark.variant(of="test_other_publication_is_followed_once_no_transaction_is_half_published")
@pytest.mark.parametrize("major", [17, in_soak(18)])
def test_publications_that_are_named_while_a_transaction_is_half_published_are_followed_behind_it(
    producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    """Also where they are some of those that were followed, and without another start."""
    producer = producer_on(major)
    follow_a_and_b(producer)
    execute = producer.database.execute
    execute("INSERT INTO big SELECT generate_series(1, 100)")
    producer.run_until_killed("produce:split:3")

    running = start_with(producer, "b")

    running.wait_for_log("other publications are followed from now on")
    wait_until(lambda: dropped_tables(producer) == ["only_a"], "the table that left")
    execute("INSERT INTO big VALUES (101)")
    with producer.topics() as topics:
        producer.caught_up(topics)
        assert len(topics.replay().rows("public", "big")) == 101


ADDED_WHOLE = 'ALTER PUBLICATION "b" DROP TABLE "public"."t"; ALTER PUBLICATION "b" ADD TABLE "public"."t";'


@pytest.mark.parametrize(
    ("major", "of_b", "options", "remedy"),
    [
        (17, "t (id)", "", ADDED_WHOLE),
        in_soak(18, "t (id)", "", ADDED_WHOLE),
        (
            18,
            "t",
            "WITH (publish_generated_columns = stored)",
            'ALTER PUBLICATION "b" SET (publish_generated_columns = none);',
        ),
    ],
)
def test_publication_that_has_other_columns_of_a_table_is_not_asked_for_and_the_remedy_helps(
    producer_on: Callable[[int], ProducerUnderTest], major: int, of_b: str, options: str, remedy: str
) -> None:
    """I7: Postgres would end the stream of all tables at the table's first change, also at one of before the remedy."""
    producer = producer_on(major)
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (id + 1) STORED)")
    execute("CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u", name="z")
    start_with(producer, "z").stop()
    producer.publish(of_b, options=options, name="b")
    execute("INSERT INTO t VALUES (1)")

    producer.settings["postgres"] = {"publications": ["b", "z"]}
    said = producer.refusal()
    assert "publish different columns of table public.t" in said
    assert remedy in said
    running = start_with(producer, "z")
    with producer.topics() as topics:
        producer.caught_up(topics)
    running.stop()
    assert copied_tables(running) == []

    execute("INSERT INTO t VALUES (2)")
    execute(remedy)
    running = start_with(producer, "b", "z")
    wait_until(lambda: copied_tables(running) == ["t"], "the copy")
    execute("INSERT INTO t VALUES (3); INSERT INTO u VALUES (1)")
    with producer.topics() as topics:
        producer.caught_up(topics)
        assert sorted(row["id"] for row in topics.replay().rows("public", "t")) == [1, 2, 3]


@pytest.mark.variant(
    of="test_tables_of_publications_that_are_named_in_addition_or_no_more_come_and_go_and_the_others_go_on"
)
@pytest.mark.parametrize("major", [17, in_soak(18)])
def test_publication_that_is_named_no_more_and_was_dropped_needs_not_be_made_again(
    producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    """I7: until 17 only a new epoch has all, and what is said of it names nothing that settings do not."""
    producer = producer_on(major)
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    producer.publish("t", name="a")
    start_with(producer, "a").stop()
    producer.publish("t", name="b")
    execute("DROP PUBLICATION a; INSERT INTO t VALUES (2)")
    producer.settings["postgres"] = {"publications": ["b"]}

    lost = "publication a, which this pipeline follows, was dropped: changes since then did not come"
    if major < 18:
        said = producer.refusal()
        assert lost in said
        assert COPY_ALL in said
        assert "CREATE PUBLICATION" not in said
    else:
        producer.write_settings()

    assert copy_all_again(producer) == (lost if major < 18 else None)
