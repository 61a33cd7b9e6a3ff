"""The stream, killed around each durable step: nothing is lost, nothing comes twice."""

from __future__ import annotations

import random

import pytest

from tests.faults.kill_points import STREAM
from tests.faults.seed import fault_seed
from tests.fix_producer import ProducerUnderTest

pytestmark = pytest.mark.fault


def test_stream_killed_at_every_point_loses_and_repeats_nothing(producer: ProducerUnderTest) -> None:
    """I1 and I4; after each death the slot stands at or below the last cut."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id serial PRIMARY KEY, v text, n int DEFAULT 0); CREATE TABLE log (v text)")
    execute("INSERT INTO t (v) SELECT 'copied' FROM generate_series(1, 10)")
    producer.publish("t", "log")
    producer.settings["producer"] = {"batch_rows_max": 20}
    producer.start_streaming().stop()
    for point in STREAM:
        execute("UPDATE t SET n = n + 1 WHERE id <= 5; INSERT INTO log SELECT 'x' FROM generate_series(1, 4)")
        execute("INSERT INTO t (v) SELECT 'large' FROM generate_series(1, 70); DELETE FROM t WHERE id % 7 = 0")
        if point.startswith("metadata:"):
            column = point.partition(":")[2].replace("-", "_")
            execute(f"ALTER TABLE t ADD {column} int; INSERT INTO t (v, {column}) VALUES ('wide', 1)")
        execute("UPDATE t SET id = -id WHERE id % 11 = 0 AND id > 0")
        producer.run_until_killed(point)
        with producer.topics() as topics:
            topics.check_held(producer.confirmed_lsn())
    producer.start_streaming()
    producer.check_equal()


@pytest.mark.soak
def test_producer_killed_at_random_under_load_loses_and_repeats_nothing(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE t (id serial PRIMARY KEY, v int); CREATE TABLE log (v int)")
    producer.publish("t", "log")
    producer.settings["producer"] = {"batch_rows_max": 50, "batch_ms_max": 20}
    dice = random.Random(fault_seed())
    for _ in range(2):
        running = producer.start_streaming()
        with producer.database.connect() as connection:
            for i in range(dice.randrange(60, 200)):
                connection.execute("INSERT INTO t (v) SELECT %s FROM generate_series(1, %s)", (i, dice.randrange(1, 9)))
                with connection.transaction():
                    connection.execute("UPDATE t SET v = v + 1 WHERE id %% 9 = %s", (dice.randrange(9),))
                    connection.execute("INSERT INTO log VALUES (%s)", (i,))
        running.kill()
    producer.start_streaming()
    producer.check_equal()
