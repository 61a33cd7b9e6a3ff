"""A commit that waits for a synchronous standby is in the stream, and in no snapshot, while a table is copied (I8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fix_postgres import new_database
from tests.fix_producer import ProducerUnderTest
from tests.invisible_commits import invisible, wait_for_standby
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.control.table_progress import COPYING

pytestmark = pytest.mark.fault

ROWS = 1_500
MADE = f"""
    SET synchronous_commit = local;
    CREATE TABLE u AS SELECT i id, 0 n, repeat('v', 500) v FROM generate_series(1, {ROWS}) i;
    ALTER TABLE u ADD PRIMARY KEY (id)
"""


@pytest.fixture
def copying(
    own_server: PostgresServer, kafka: KafkaBroker, pipeline_name: str, tmp_path: Path
) -> Iterator[ProducerUnderTest]:
    """Follows all tables, and copies those that come in many chunks; the server is nobody else's."""
    with new_database(own_server) as database:
        database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION walbridge FOR ALL TABLES")
        made = ProducerUnderTest(pipeline_name, database, kafka, tmp_path)
        made.settings["producer"] = {"copy_bytes_per_s": 100_000}
        try:
            yield made
        finally:
            made.kill_all()
            wait_for_standby(database, "")


def test_chunk_that_lacks_a_commit_which_was_received_is_read_again_once_that_is_visible(
    copying: ProducerUnderTest,
) -> None:
    """The commit moves and changes rows behind and before the chunk; else one of its changes would be lost."""
    running = copying.start_streaming()
    wait_for_standby(copying.database, "nobody")
    copying.database.execute(MADE)

    def has_copied_some() -> bool:
        with copying.topics() as topics:
            progress = topics.progress()
        return progress is not None and any(
            each.state == COPYING and each.copy is not None and each.copy.rows > 0 for each in progress.tables.values()
        )

    wait_until(has_copied_some, "the first chunk")
    with invisible(copying.database, f"UPDATE u SET n = 1 WHERE id IN (1, {ROWS}); UPDATE u SET id = -1 WHERE id = 7"):
        running.wait_for_log("a commit that was received is not visible yet")
        assert "table is copied" not in running.log

    running.wait_for_log("table is copied")
    copying.check_equal()
