"""The first copy, killed: the next start begins it again, and no reader is left with void rows."""

from __future__ import annotations

import pytest

from tests.faults.kill_points import COPY, COPY_DONE
from tests.faults.left_over import check_nothing_is_left
from tests.fix_producer import ProducerUnderTest

pytestmark = pytest.mark.fault
WITHOUT_SLOT = {"copy:before-creating", "copy:creating", "copy:slot-dropped"}
WITH_CUTS = {"copy:rows", "copy:rows:2", "copy:table:2", "copy:before-streaming"}
"""Where something of that copy was committed."""


def test_copy_killed_at_every_point_begins_again_and_voids_what_it_left(producer: ProducerUnderTest) -> None:
    """Each death leaves rows behind that the source has no more by the time of the next copy."""
    execute = producer.database.execute
    execute("CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (v text); CREATE TABLE c (id int PRIMARY KEY)")
    producer.publish("a", "b", "c")
    producer.settings["producer"] = {"batch_rows_max": 100}
    for generation, point in enumerate(COPY):
        execute(
            f"TRUNCATE a; INSERT INTO a SELECT i + {generation * 50}, 'g{generation}' FROM generate_series(1, 250) i;"
            f"TRUNCATE b; INSERT INTO b SELECT 'g{generation}' FROM generate_series(1, 250)"
        )
        producer.run_until_killed(point)
        slots = producer.database.value(
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s", (producer.slot,)
        )
        assert slots == (0 if point in WITHOUT_SLOT else 1)
    execute("DELETE FROM a WHERE id % 2 = 0; INSERT INTO b VALUES (NULL)")
    producer.run_until_killed(COPY_DONE)
    execute("DELETE FROM a WHERE id % 3 = 0; INSERT INTO b VALUES ('new')")
    running = producer.start_streaming()
    producer.check_equal()
    check_nothing_is_left(producer, running)
    with producer.topics() as topics:
        cuts = topics.cuts()
    assert len({cut.epoch for cut in cuts}) == len([point for point in COPY if point in WITH_CUTS]) + 1
    first = next(cut for cut in cuts if cut.complete)
    assert first.epoch == cuts[-1].epoch, "a copy that was not finished was published"
    assert first.end_lsn == first.epoch.consistent_point
    inside = [cut for cut in cuts[: cuts.index(first)] if cut.epoch == first.epoch]
    assert len(inside) > 2, "the copy was one cut, so nothing is said of those inside of it (I8)"
