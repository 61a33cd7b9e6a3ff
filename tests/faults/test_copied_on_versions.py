"""A table that comes is copied beside the stream on each Postgres, under load and through a kill (I1, I4)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.test_table_copied import MADE, Habits, state_of
from tests.fix_postgres import new_database
from tests.fix_producer import ProducerUnderTest
from tests.postgres_versions import MAJORS
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer

pytestmark = pytest.mark.fault
IN_EACH_RUN = (12, 15)
"""The newest has the tests beside this one."""
TWO_PHASE_SINCE = 15


@pytest.fixture(
    params=[pytest.param(major, marks=[] if major in IN_EACH_RUN else [pytest.mark.soak]) for major in MAJORS]
)
def following(
    postgres_version: Callable[[int], PostgresServer],
    kafka: KafkaBroker,
    pipeline_name: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[ProducerUnderTest]:
    """A pipeline of a database on each version that follows all tables; ``t`` is there from the beginning."""
    major: int = request.param
    with new_database(postgres_version(major)) as database, contextlib.ExitStack() as stack:
        database.execute("CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) VALUES (0)")
        database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
        made = ProducerUnderTest(pipeline_name, database, kafka, tmp_path)
        stack.callback(made.kill_all)
        made.settings["producer"] = {"batch_rows_max": 200}
        made.settings["postgres"] = {"two_phase": major >= TWO_PHASE_SINCE}
        yield made


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
