"""A second pipeline under a name that is taken: it is refused, and the first does not notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_variants

pytestmark = pytest.mark.fault
MakeSecond = Callable[[str, Database], ProducerUnderTest]


@pytest.fixture
def second(producer: ProducerUnderTest, tmp_path: Path) -> Iterator[MakeSecond]:
    """Makes a producer of another name or database beside the first, on the same broker."""
    made: list[ProducerUnderTest] = []

    def make(name: str, database: Database) -> ProducerUnderTest:
        folder = tmp_path / "second"
        folder.mkdir()
        made.append(ProducerUnderTest(name, database, producer.kafka, folder))
        return made[-1]

    yield make
    for each in made:
        each.kill_all()


def slots(database: Database) -> set[str]:
    return {row[0] for row in database.rows("SELECT slot_name FROM pg_replication_slots")}


@pytest.mark.parametrize("where", ["the same database", in_variants("another database")])
def test_another_slot_under_the_same_pipeline_name_is_refused(
    producer: ProducerUnderTest, second: MakeSecond, make_database: Callable[[], Database], where: str
) -> None:
    """I7: its cuts would run on between those of the first."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    producer.start_streaming()
    rival = second(producer.name, producer.database if where == "the same database" else make_database())
    rival.settings["postgres"] = {"slot": f"{producer.slot}_2"}
    if where == "another database":
        rival.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
        rival.publish("t")
    before = slots(producer.database)

    words = rival.refusal()

    assert f"the name {producer.name} is taken: {producer.name}.progress is of slot {producer.slot}" in words
    assert f"in database {producer.database.name}" in words
    assert "remedy: give this pipeline another name" in words
    assert slots(producer.database) == before
    producer.database.execute("INSERT INTO t VALUES (1)")
    producer.check_equal()
    rival.name, rival.settings["postgres"]["slot"] = f"{producer.name}_own", f"{producer.slot}_2"
    rival.start_streaming()
    rival.check_equal()


def test_topic_that_kafka_takes_for_another_pipelines_is_refused_with_its_way_out(
    producer: ProducerUnderTest, second: MakeSecond
) -> None:
    """``a.b_c.t`` and ``a_b.c.t`` are equal once every ``.`` is a ``_``."""
    execute = producer.database.execute
    execute("CREATE SCHEMA x_y; CREATE SCHEMA y; CREATE TABLE x_y.t (id int PRIMARY KEY)")
    execute("CREATE TABLE y.t (id int PRIMARY KEY)")
    producer.publish("x_y.t")
    producer.start_streaming()
    rival = second(f"{producer.name}_x", producer.database)
    rival.settings["postgres"] = {"publication": "second"}
    rival.publish("y.t", name="second")

    words = rival.refusal()

    assert f"topic {rival.name}.y.t could not be created" in words
    assert f"{producer.name}.x_y.t" in words
    assert 'remedy: Kafka takes "." and "_" in topic names for equal' in words
    assert "[topics.names]" in words
    execute("INSERT INTO x_y.t VALUES (1)")
    producer.check_equal()
    rival.settings["topics"] = {"names": {"y.t": f"{rival.name}.second"}}
    rival.start_streaming()
    execute("INSERT INTO y.t VALUES (1)")
    rival.check_equal()


@pytest.mark.variant(of="test_second_producer_that_has_waited_ends_and_names_the_first_which_goes_on")
def test_second_start_that_a_guard_refuses_leaves_the_first_producer_running(
    producer: ProducerUnderTest, second: MakeSecond
) -> None:
    """A file that was only tried out must not stop a pipeline: the guards are asked before the first is fenced."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    running = producer.start_streaming()
    trial = second(producer.name, producer.database)
    trial.settings["postgres"] = {"two_phase": True}

    words = trial.refusal()

    assert f"slot {producer.slot} was made without two_phase" in words
    producer.database.execute("INSERT INTO t VALUES (1)")
    producer.check_equal()
    assert running.process.poll() is None
    assert "another producer runs" not in running.log
