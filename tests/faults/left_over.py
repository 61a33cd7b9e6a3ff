"""What copies and their deaths may leave behind, at the source and on the producer's machine, and must not.

A slot keeps WAL, a snapshot keeps dead rows, a lock keeps the next producer out, a folder fills a disk.
"""

from __future__ import annotations

from tests.fix_producer import ProducerUnderTest, Running
from tests.wait import wait_until

SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE database IS NULL OR database = current_database()"
SESSIONS = """
    SELECT pid, application_name, state, backend_xmin, xact_start, query FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'walbridge%'"""
HOLDING = f"{SESSIONS} AND (backend_xmin IS NOT NULL OR xact_start IS NOT NULL)"
"""A session that holds vacuum back, or will."""
LOCKS = """
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


def check_nothing_is_left(producer: ProducerUnderTest, running: Running) -> None:
    """The producer that runs has its slot, its lock and nothing else; once it is stopped, its slot alone is left."""
    database = producer.database
    _wait_for_none(producer, HOLDING, "in a transaction")
    assert database.value(LOCKS) == 1
    assert database.rows(SLOTS) == [(producer.slot,)]
    running.stop()
    _wait_for_none(producer, SESSIONS, "of a producer that was stopped")
    assert database.value(LOCKS) == 0
    assert database.rows(SLOTS) == [(producer.slot,)]
    assert [each.name for each in producer.spool_dir.iterdir()] == []


def _wait_for_none(producer: ProducerUnderTest, query: str, what: str) -> None:
    """A session may outlive its client for a moment, or look at the catalogue just now."""
    found: list[tuple[object, ...]] = []

    def is_none() -> bool:
        found[:] = producer.database.rows(query)
        return not found

    try:
        wait_until(is_none, f"no session {what}")
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from None
