"""I7, I8: a table at whose rows the server meets a fault of its own stops no other, also in the first copy."""

from __future__ import annotations

import pytest

from tests.fix_producer import ProducerUnderTest
from walbridge.schemas.control.table_progress import COPYING, CURRENT, STALE

pytestmark = pytest.mark.fault


def test_table_that_cannot_be_read_in_the_first_copy_is_left_to_later_copies(producer: ProducerUnderTest) -> None:
    """Its type is damaged in the catalogue: reading its rows ends with XX000 each time."""
    execute = producer.database.execute
    execute(
        "CREATE TYPE pair AS (a int, b int); CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1);"
        "CREATE TABLE unreadable (id int PRIMARY KEY, p pair); INSERT INTO unreadable VALUES (1, (1, 2))"
    )
    producer.publish("t", "unreadable")
    execute("DELETE FROM pg_attribute WHERE attrelid = 'pair'::regclass AND attname = 'b'")

    running = producer.start_streaming()
    execute("INSERT INTO t VALUES (2)")

    with producer.topics() as topics:
        producer.caught_up(topics)
        progress = topics.progress()
    assert progress is not None
    states = {table.topic.rpartition(".")[2]: table.state for table in progress.tables.values() if table.topic}
    assert states["t"] == CURRENT
    # The later copy may have begun by this cut, and then waits with growing pauses.
    assert states.get("unreadable", STALE) in (STALE, COPYING)
    assert "each time that table public.unreadable is read to be copied, the server meets a fault" in running.log
