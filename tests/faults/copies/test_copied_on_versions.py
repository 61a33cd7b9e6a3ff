"""A table that comes is copied beside the stream on each Postgres, under load and through a kill (I1, I4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.copies.test_table_copied import MADE, Habits, state_of
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import others_in_soak
from tests.postgres_versions import MAJORS

pytestmark = pytest.mark.fault
IN_EACH_RUN = (12,)
"""The newest has the tests beside this one."""
TWO_PHASE_SINCE = 15


@pytest.fixture(params=others_in_soak(MAJORS, IN_EACH_RUN))
def producer(producer_on: Callable[[int], ProducerUnderTest], request: pytest.FixtureRequest) -> ProducerUnderTest:
    """One on each version, for ``following``."""
    made = producer_on(request.param)
    made.settings["producer"] = {"batch_rows_max": 200}
    made.settings["postgres"] = {"two_phase": request.param >= TWO_PHASE_SINCE}
    return made


def test_table_that_comes_is_copied_under_load_and_through_a_kill(following: ProducerUnderTest) -> None:
    following.start_streaming().stop()
    following.database.execute(MADE.format(rows=1500))
    with Habits(following, 1500) as habits:
        following.run_until_killed("chunk:entered:2")
        habits.wait_for(10)
        running = following.start_streaming()
        running.wait_for_log("table is copied")
        with following.database.connect() as prepared:
            prepared.execute("BEGIN")
            prepared.execute("INSERT INTO u VALUES (20001, 7, 'p')")
            prepared.execute("PREPARE TRANSACTION 'beside'")
            habits.wait_for(10)
            prepared.execute("COMMIT PREPARED 'beside'")
    following.check_equal()
    assert state_of(following, "u") == "current"
