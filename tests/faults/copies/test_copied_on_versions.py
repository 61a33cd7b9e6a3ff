"""A table that comes is copied beside the stream on each Postgres, under load, through deaths of producer and server
(I1, I4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle

import pytest

from tests.faults.copies.test_table_copied import MADE, Habits, run_until_killed_at_every_point, state_of
from tests.faults.kill_points import BESIDE
from tests.faults.left_over import check_nothing_is_left
from tests.fix_postgres import stop_at_once
from tests.fix_producer import ProducerUnderTest, Running
from tests.held import held_at, let_go, wait_until_held
from tests.in_soak import others_in_soak
from tests.postgres_versions import MAJORS
from walbridge.embedded.postgres import PostgresServer

pytestmark = pytest.mark.fault
IN_EACH_RUN = (12,)
"""The newest has the tests beside this one."""
TWO_PHASE_SINCE = 15
ENDS: tuple[Callable[[PostgresServer], None], ...] = (PostgresServer.kill, stop_at_once)
"""How a server ends without a word."""


@pytest.fixture(params=others_in_soak(MAJORS, IN_EACH_RUN))
def producer(producer_on: Callable[[int], ProducerUnderTest], request: pytest.FixtureRequest) -> ProducerUnderTest:
    """One on each version, for ``following``."""
    made = producer_on(request.param)
    made.settings["producer"] = {"batch_rows_max": 150}
    made.settings["postgres"] = {"two_phase": request.param >= TWO_PHASE_SINCE}
    return made


def start_through_deaths_of_the_server(
    producer: ProducerUnderTest, points: Sequence[str], ends: Sequence[Callable[[PostgresServer], None]]
) -> Running:
    """A producer that is held at each point while its server ends and starts again."""
    running, server = producer.start(environ=held_at(points)), producer.database.server
    for point, end in zip(points, cycle(ends), strict=False):
        wait_until_held(running, point)
        end(server)
        server.start()
        let_go(running)
    return running


def check_copied(following: ProducerUnderTest, running: Running) -> None:
    """The table and all others equal the source; it was copied once, and nothing is left of that."""
    following.check_equal()
    assert state_of(following, "u") == "current"
    with following.topics() as topics:
        kinds = Counter(b.kind for cut in topics.cuts() for t in cut.tables for b in t.barriers)
    assert (kinds["copy_begin"], kinds["copy_end"]) == (2, 2), "one of them is that of the first copy"
    check_nothing_is_left(following, running)


@pytest.mark.variant(of="test_copy_killed_at_every_point_goes_on_and_loses_nothing")
def test_table_that_comes_is_copied_under_load_and_through_deaths(following: ProducerUnderTest) -> None:
    following.start_streaming().stop()
    following.database.execute(MADE.format(rows=1500))
    with Habits(following, 1500) as habits:
        following.run_until_killed("chunk:entered:2")
        habits.wait_for(10)
        running = start_through_deaths_of_the_server(following, ("chunk:read", "chunk:rows"), ENDS)
        running.wait_for_log("table is copied")
        with following.database.connect() as prepared:
            prepared.execute("BEGIN")
            prepared.execute("INSERT INTO u VALUES (20001, 7, 'p')")
            prepared.execute("PREPARE TRANSACTION 'beside'")
            habits.wait_for(10)
            prepared.execute("COMMIT PREPARED 'beside'")
    check_copied(following, running)


@pytest.mark.soak
def test_copy_goes_on_after_a_death_of_the_producer_at_every_point(following: ProducerUnderTest) -> None:
    following.start_streaming().stop()
    following.database.execute(MADE.format(rows=1500))
    with Habits(following, 1500) as habits:
        run_until_killed_at_every_point(following, habits)
    check_copied(following, following.start_streaming())


@pytest.mark.soak
@pytest.mark.parametrize("end", ENDS)
def test_copy_goes_on_after_a_death_of_the_server_at_every_point(
    following: ProducerUnderTest, end: Callable[[PostgresServer], None]
) -> None:
    following.start_streaming().stop()
    following.database.execute(MADE.format(rows=3000))
    with Habits(following, 3000) as habits:
        running = start_through_deaths_of_the_server(following, BESIDE, (end,))
        running.wait_for_log("table is copied")
        habits.wait_for(10)
    check_copied(following, running)
