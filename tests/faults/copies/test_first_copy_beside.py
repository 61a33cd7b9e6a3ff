"""``first_copy = "beside"``: a pipeline begins with its stream; a table is current as its copy ends (I1, I4, I8)."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from tests.faults.copies.test_copy_all import progress_of
from tests.faults.copies.test_table_copied import MADE, Habits
from tests.faults.copies.test_table_without_copy import LONE, WITHOUT_ORDER
from tests.faults.copies.test_table_without_copy import MADE as MADE_LONE
from tests.faults.followed import settings_of, states_by_name, wait_until_current
from tests.faults.kill_points import AGAIN, AGAIN_DONE, BESIDE, FIRST
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak, in_variants, others_in_soak
from tests.postgres_versions import MAJORS
from tests.wait import wait_until
from walbridge.init import initialise
from walbridge.schemas.control.table_progress import CURRENT, FIRST_COPY_WAITS, QUARANTINED, STALE, TableProgress
from walbridge.tables.copy import copy
from walbridge.tables.read_tables import read_tables
from walbridge.tables.table_status import state_text, table_statuses

pytestmark = pytest.mark.fault
IN_EACH_RUN = (18,)
CHUNK_ROWS = 150
READ_ROWS = "SELECT coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relid = %s::regclass"
"""Of a key's order."""
READERS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'walbridge copy'"


@pytest.fixture
def beside(producer: ProducerUnderTest) -> ProducerUnderTest:
    """It has not begun, and copies in small chunks that it reads itself."""
    producer.settings["producer"] = {"first_copy": "beside", "batch_rows_max": CHUNK_ROWS, "copy_workers": 0}
    return producer


def made(producer: ProducerUnderTest) -> None:
    """``t`` and ``u``, which are written to, and ``still``, which is not."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) VALUES (0)")
    execute(MADE.format(rows=1500))
    execute("CREATE TABLE still (id int PRIMARY KEY, v text)")
    execute("INSERT INTO still SELECT i, repeat('s', 20) FROM generate_series(1, 3000) i; ANALYZE still")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")


def of_table(producer: ProducerUnderTest, name: str) -> TableProgress:
    return next(table for table in progress_of(producer).tables.values() if table.name == f"public.{name}")


@pytest.fixture(params=others_in_soak(MAJORS, IN_EACH_RUN))
def on_each(producer_on: Callable[[int], ProducerUnderTest], request: pytest.FixtureRequest) -> ProducerUnderTest:
    """One on each version."""
    producer = producer_on(request.param)
    producer.settings["producer"] = {"first_copy": "beside", "batch_rows_max": CHUNK_ROWS}
    return producer


@pytest.mark.soak
def test_first_start_killed_at_every_point_under_writes_goes_on_where_it_was(on_each: ProducerUnderTest) -> None:
    """One epoch, one beginning and one end for each table: no death voids what Kafka holds."""
    made(on_each)
    with Habits(on_each, 1500) as habits:
        for point in (*FIRST, *AGAIN, AGAIN_DONE, *BESIDE):
            on_each.run_until_killed(point)
            habits.wait_for(3)
        running = on_each.start_streaming()
        wait_until_current(on_each)
        habits.wait_for(10)
    on_each.check_equal()
    running.stop()
    with on_each.topics() as topics:
        cuts = topics.cuts()
        operations = Counter(event.op for cut in cuts for event in topics.events(cut))
    kinds = Counter(barrier.kind for cut in cuts for table in cut.tables for barrier in table.barriers)
    assert len({cut.epoch for cut in cuts}) == 1
    assert {cut.complete for cut in cuts} == {True}
    assert (cuts[0].cut_id, cuts[0].tables, cuts[0].end_lsn) == (1, (), cuts[0].epoch.consistent_point)
    assert (kinds["copy_begin"], kinds["copy_end"], kinds["dropped"]) == (3, 3, 0)
    assert operations["t"] == 0


def test_first_copy_that_is_killed_reads_no_more_than_a_chunk_or_two_again(beside: ProducerUnderTest) -> None:
    """What was copied is copied, and told meanwhile, with its share; the others wait for their turn, and flow after."""
    made(beside)
    beside.settings["producer"] |= {"copy_bytes_per_s": 6_000}  # for ten seconds and more: a look may take some
    with Habits(beside, 1500) as habits:
        running = beside.start_streaming()

        def is_partly_copied() -> bool:
            known = of_table(beside, "still").copy
            return known is not None and 4 * CHUNK_ROWS <= known.rows < 3000

        wait_until(is_partly_copied, "a good part of a table to be copied", 120)
        running.process.send_signal(signal.SIGSTOP)  # it would have copied all of it before a slow look ended
        seen = read_tables(settings_of(beside), needs_postgres=True)
        running.kill()
        told = {found.name: state_text(found) for found in table_statuses(seen, None)}
        before = of_table(beside, "still").copy
        assert before is not None
        assert re.fullmatch(r"copying \d\d %", told["public.still"])
        # A table that could not be read for a moment is tried again a second later, behind what it has.
        told_of_any = rf"current|copying \d+ %|stale: {re.escape(FIRST_COPY_WAITS)}"
        assert [text for text in told.values() if not re.fullmatch(told_of_any, text)] == []

        beside.settings["producer"] |= {"copy_bytes_per_s": 0}
        running = beside.start_streaming()
        assert copy(settings_of(beside), ["t", "u", "still"], wait=True, say=print) == 0
        wait_until_current(beside)
        habits.wait_for(20)
    beside.check_equal()
    running.stop()
    with beside.topics() as topics:
        events = [event for cut in topics.cuts() for event in topics.events(cut)]
    rows = [event.after or {} for event in events if event.relation.table.name == "still" and event.op == "r"]
    copied = Counter(row["id"] for row in rows)
    assert len(copied) == sum(copied.values()) == 3000
    wait_until(lambda: beside.database.value(READERS) == 0, "the readers of the copies to be gone")
    read = "what Postgres read of the table"
    wait_until(lambda: beside.database.value(READ_ROWS, ("still",)) >= 3000, read, 60)
    again = beside.database.value(READ_ROWS, ("still",)) - 3000
    assert again <= 3 * CHUNK_ROWS < before.rows, "the one that entered was in doubt, and the next was being read"


KINDS = """
    CREATE TABLE none (id int PRIMARY KEY);
    CREATE TABLE bag (n int, v text); ALTER TABLE bag REPLICA IDENTITY FULL;
    INSERT INTO bag SELECT i % 7, 'b' FROM generate_series(1, 700) i;
    CREATE TABLE log (n int); INSERT INTO log SELECT generate_series(1, 300);
    CREATE TABLE root (id int, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
    CREATE TABLE root_1 PARTITION OF root FOR VALUES FROM (0) TO (5);
    CREATE TABLE root_2 PARTITION OF root FOR VALUES FROM (5) TO (10);
    INSERT INTO root SELECT i, i % 10 FROM generate_series(1, 700) i;
    CREATE PUBLICATION walbridge FOR TABLE none, bag, log, root WITH (publish_via_partition_root = true)
"""


@pytest.mark.variant(of="test_first_copy_that_is_killed_reads_no_more_than_a_chunk_or_two_again")
def test_tables_of_every_kind_come_with_their_first_copy(beside: ProducerUnderTest) -> None:
    """Empty, without a key, that nothing but inserts may change, of partitions; the slot is that of ``init`` before."""
    beside.database.execute(KINDS)
    beside.write_settings()
    initialise(settings_of(beside), None, lambda line: None)
    running = beside.start_streaming()
    beside.database.execute(
        "INSERT INTO root VALUES (701, 1); DELETE FROM bag WHERE n = 3; INSERT INTO log VALUES (-1)"
    )
    wait_until_current(beside)
    beside.database.execute("UPDATE root SET day = 9 WHERE id < 9; UPDATE bag SET v = 'c' WHERE n = 1")
    beside.check_equal()
    running.stop()
    assert len(progress_of(beside).tables) == 4
    assert "every table is stale" not in running.log


@pytest.mark.parametrize("first_copy", [in_soak("snapshot"), "beside"])
def test_what_would_fail_later_is_refused_before_there_is_a_slot(producer: ProducerUnderTest, first_copy: str) -> None:
    producer.settings["producer"] = {"first_copy": first_copy}
    execute, slots = producer.database.execute, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    assert "publication walbridge holds no tables" in producer.refusal()
    execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE t2 (id int PRIMARY KEY)")
    producer.settings["topics"] = {"names": {"public.t": "same", "public.t2": "same"}}
    assert "same" in producer.refusal()
    assert producer.database.value(slots, (producer.slot,)) == 0
    del producer.settings["topics"]
    producer.start_streaming()
    wait_until_current(producer)


@pytest.mark.variant(of="test_what_would_fail_later_is_refused_before_there_is_a_slot")
@pytest.mark.parametrize(
    ("policy", "state"), [("copy", STALE), in_soak("quarantine", QUARANTINED), in_soak("stop", None)]
)
def test_table_whose_copy_cannot_begin_is_left_as_settings_say(
    beside: ProducerUnderTest, policy: str, state: str | None
) -> None:
    """I8: its key has no order. The others are copied, and so is it once that is mended."""
    beside.settings["producer"] |= {"on_table_error": policy}
    execute = beside.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    execute(LONE)
    execute(f"{MADE_LONE.format('odd')}; INSERT INTO odd VALUES (1); CREATE PUBLICATION walbridge FOR ALL TABLES")
    if state is None:
        assert WITHOUT_ORDER.format("odd") in beside.refusal()
    else:
        running = beside.start_streaming()
        wait_until(lambda: of_table(beside, "odd").why == WITHOUT_ORDER.format("odd"), "the reason", 60)
        wait_until(lambda: of_table(beside, "t").state == CURRENT, "the other table to be copied", 60)
        execute("INSERT INTO odd VALUES (2); INSERT INTO t VALUES (2)")
        beside.check_equal(never_copied=frozenset({"odd"}))
        assert of_table(beside, "odd").state == state
        running.stop()

    execute("DROP INDEX odd_id_idx; ALTER TABLE odd REPLICA IDENTITY FULL")
    running = beside.start_streaming()
    assert copy(settings_of(beside), ["odd"], wait=True, say=print) == 0
    beside.check_equal()
    running.stop()


@pytest.mark.parametrize(
    ("first_copy", "policy", "state"),
    [
        in_variants("snapshot", "copy", QUARANTINED),
        ("beside", "quarantine", QUARANTINED),
        in_soak("beside", "stop", None),
        in_soak("snapshot", "quarantine", QUARANTINED),
        in_soak("snapshot", "stop", None),
        in_soak("beside", "copy", QUARANTINED),
    ],
)
def test_table_with_a_row_that_is_too_large_is_left_out_of_either_first_copy(
    producer: ProducerUnderTest, first_copy: str, policy: str, state: str | None
) -> None:
    """I7, I8."""
    producer.settings["producer"] = {"first_copy": first_copy, "row_bytes_max": 100_000, "on_table_error": policy}
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    execute("CREATE TABLE u (id int PRIMARY KEY, v text); INSERT INTO u VALUES (1, 'v'), (2, repeat('x', 1000000))")
    producer.publish("t", "u")
    if state is None:
        assert "[producer] row_bytes_max is 100,000" in producer.refusal()
        return
    running = producer.start_streaming()
    ended = {"public.t": CURRENT, "public.u": state}
    wait_until(lambda: states_by_name(settings_of(producer)) == ended, "the tables' states", 60)
    running.stop()


@pytest.mark.variant(of="test_first_copy_that_is_killed_reads_no_more_than_a_chunk_or_two_again")
def test_first_copy_in_one_snapshot_that_was_killed_may_go_on_beside_the_stream(producer: ProducerUnderTest) -> None:
    """I8: in an epoch of its own, whose copies void what was left."""
    made(producer)
    producer.settings["producer"] = {"batch_rows_max": CHUNK_ROWS}
    producer.run_until_killed("copy:table:2")
    producer.database.execute("DELETE FROM still WHERE id % 2 = 0; DELETE FROM u WHERE id % 3 = 0")
    producer.settings["producer"] |= {"first_copy": "beside"}
    running = producer.start_streaming()
    wait_until_current(producer)
    producer.database.execute("INSERT INTO still VALUES (2, 'new')")
    producer.check_equal()
    running.stop()
    assert {table.state for table in progress_of(producer).tables.values()} == {CURRENT}
    assert STALE not in running.log.split("table is copied")[-1]
