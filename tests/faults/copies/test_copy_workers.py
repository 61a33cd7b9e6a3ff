"""The first copy with worker processes: equal whatever is killed, and nothing of a worker outlives its producer."""

from __future__ import annotations

import psutil
import pytest

from tests.faults.kill_points import CHUNK_WORKER, COPY_WORKER
from tests.fix_producer import KILLED, ProducerUnderTest
from tests.in_soak import in_soak
from tests.wait import wait_until

pytestmark = pytest.mark.fault
BACKENDS = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'walbridge copy worker' "
    "AND datname = current_database()"
)


@pytest.fixture
def sources(producer: ProducerUnderTest) -> ProducerUnderTest:
    """Tables of every kind; pages that are nearly empty make pieces of few rows."""
    execute = producer.database.execute
    execute("CREATE TABLE large (id int PRIMARY KEY, day date, v text) WITH (fillfactor = 10)")
    execute("INSERT INTO large SELECT i, '2020-01-01', repeat('x', 700) FROM generate_series(1, 5000) i")
    execute("UPDATE large SET day = 'infinity' WHERE id % 100 = 0; DELETE FROM large WHERE id % 9 = 0")
    execute("CREATE TABLE keyless (v text); INSERT INTO keyless SELECT 'same' FROM generate_series(1, 500)")
    execute("CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    execute("CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (100)")
    execute("CREATE TABLE high PARTITION OF root FOR VALUES FROM (100) TO (1000)")
    execute(
        "INSERT INTO root SELECT i, E'a\\\\tb' FROM generate_series(1, 300) i; CREATE TABLE empty (id int PRIMARY KEY)"
    )
    execute(
        "CREATE PUBLICATION walbridge FOR TABLE large, keyless, root, empty WITH (publish_via_partition_root = true)"
    )
    producer.settings["producer"] = {"copy_workers": 2, "batch_rows_max": 400}
    return producer


def workers_of(pid: int) -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process(pid).children()
    return found


@pytest.mark.parametrize("point", [in_soak(None), COPY_WORKER[0], *map(in_soak, COPY_WORKER[1:])])
def test_tables_are_equal_also_where_every_worker_dies(sources: ProducerUnderTest, point: str | None) -> None:
    """I8: what a worker had read is read again, and nothing of it is there twice."""
    running = sources.start_streaming(point)
    sources.check_equal()

    assert "tables are read by worker processes" in running.log
    assert ("a worker process of the copy died" in running.log) == (point is not None)
    # A backend may outlive its worker for a moment.
    wait_until(lambda: sources.database.value(BACKENDS) == 0, "no connection of a worker")
    assert not workers_of(running.process.pid)


@pytest.mark.variant(of="test_tables_are_equal_also_where_every_worker_dies")
def test_workers_end_with_a_producer_that_is_killed(sources: ProducerUnderTest) -> None:
    """They hold no lock and no snapshot after it; the next start copies anew."""
    sources.run_until_killed("copy:rows:2")
    wait_until(lambda: sources.database.value(BACKENDS) == 0, "no connection of a worker")
    sources.database.execute("DELETE FROM large WHERE id % 2 = 0; INSERT INTO keyless VALUES ('new')")
    sources.start_streaming()
    sources.check_equal()


def add_table(producer: ProducerUnderTest) -> None:
    """With rows that change while they are copied."""
    execute = producer.database.execute
    execute("CREATE TABLE late (LIKE large INCLUDING ALL); INSERT INTO late SELECT * FROM large")
    execute("ALTER PUBLICATION walbridge ADD TABLE late")
    for turn in range(5):
        execute(f"UPDATE late SET v = 'turn {turn}' WHERE id % 7 = {turn}; DELETE FROM late WHERE id % 40 = {turn}")
        execute(
            f"UPDATE late SET id = -id WHERE id % 50 = {turn}; INSERT INTO late VALUES ({turn + 9000}, NULL, 'new')"
        )


@pytest.mark.variant(of="test_tables_are_equal_also_where_every_worker_dies")
@pytest.mark.parametrize("point", [in_soak(None), CHUNK_WORKER])
def test_table_that_comes_is_equal_also_where_every_worker_dies(sources: ProducerUnderTest, point: str | None) -> None:
    """I8: what a worker had read is nowhere; the producer reads it in the same snapshot."""
    running = sources.start_streaming(point)
    add_table(sources)
    wait_until(lambda: "table is copied" in running.log, "the copy", 90)
    workers = len(workers_of(running.process.pid))  # which end when they have had nothing to do for a while
    sources.check_equal()

    assert ("a worker process of the copy died" in running.log) == (point is not None)
    assert workers == 2 or point is not None
    running.stop()
    wait_until(lambda: sources.database.value(BACKENDS) == 0, "the end of its connection")


@pytest.mark.soak
def test_workers_of_a_copy_beside_the_stream_end_with_a_producer_that_is_killed(sources: ProducerUnderTest) -> None:
    """The next start goes on behind the last chunk that is committed."""
    running = sources.start_streaming("chunk:rows:3")
    add_table(sources)
    assert running.exit_code() == KILLED
    wait_until(lambda: sources.database.value(BACKENDS) == 0, "no connection of a worker")
    running = sources.start_streaming()
    wait_until(lambda: "table is copied" in running.log, "the copy", 90)
    sources.check_equal()
