"""Postgres' own regression suite runs twice over a database that is followed, and the lake equals it (I7, I8).

The suite is not kept here: ``POSTGRES_REGRESS`` names a folder with its ``sql`` and ``data``, such as
``src/test/regress`` of Postgres' source. What needs the suite's own C library fails in it, which costs nothing. The
second time most tables are there already and followed, so what is done to them is told by the stream.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests import fix_pipeline
from tests.faults.copies.test_table_copied import progress_of
from tests.fix_pipeline import PipelineUnderTest
from tests.wait import wait_until
from walbridge.embedded.postgres import PostgresServer

pytestmark = pytest.mark.soak
FIRST = ["test_setup", "copy", "create_misc", "create_index", "create_table", "create_view", "create_aggregate"]
"""Others build on their tables."""
LEFT_OUT = {"infinite_recurse", "stats", "publication", "subscription", "event_trigger", "tablespace"}
"""They end the server, take minutes, or alter what follows all tables."""
FILE_S, KILL_EVERY_S, SETTLED_S, AT_REST_S = 200, 7, 1_000, 1_500
# Updates and deletes of a table without a key are refused otherwise, as in any database that is published.
IDENTITY_FULL = """
    CREATE FUNCTION identity_full() RETURNS event_trigger LANGUAGE plpgsql AS $$
    DECLARE made record;
    BEGIN
      FOR made IN SELECT c.oid FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid
               WHERE d.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' LOOP
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', made.oid::regclass);
      END LOOP;
    EXCEPTION WHEN others THEN NULL;
    END $$;
    CREATE EVENT TRIGGER identity_full ON ddl_command_end
      WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO') EXECUTE FUNCTION identity_full()"""
TABLES = """
    SELECT c.oid::int, c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE relkind IN ('r', 'p') AND NOT relispartition AND relpersistence = 'p'
      AND n.nspname NOT IN ('pg_catalog', 'information_schema')"""


def test_regression_suite_is_followed_through_kills(
    pipeline: PipelineUnderTest, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fix_pipeline, "AT_REST_S", AT_REST_S)
    suite, producer = _suite(), pipeline.producer
    producer.database.execute(IDENTITY_FULL)
    producer.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES WITH (publish_via_partition_root = true)")
    producer.database.execute("CREATE TABLE before_all (id int PRIMARY KEY); INSERT INTO before_all VALUES (1)")
    running, kills = producer.start_streaming(), 0
    for _ in range(2):
        with _running(suite, [str(postgres.bin("psql")), "-X", "-q", producer.database.dsn], tmp_path) as ended:
            while not ended.wait(KILL_EVERY_S):
                assert running.process.poll() is None, running.log[-3000:]
                running.kill()
                running, kills = producer.start(), kills + 1
        wait_until(lambda: _are_current(pipeline), "all tables to be current", SETTLED_S)
        assert running.process.poll() is None, running.log[-3000:]

    results = pipeline.compared()

    print(f"{len(results)} tables, {kills} kills")
    assert not [result for result in results if not result.equal or result.in_flux]


def _suite() -> Path:
    folder = os.environ.get("POSTGRES_REGRESS")
    if not folder:
        pytest.skip("POSTGRES_REGRESS names no folder of Postgres' regression suite")
    return Path(folder)


@contextmanager
def _running(suite: Path, psql: list[str], folder: Path) -> Iterator[threading.Event]:
    """Gives an event that is set when all files have run; the block's end waits for that."""
    ended = threading.Event()
    rest = sorted({path.stem for path in (suite / "sql").glob("*.sql")} - {*FIRST} - LEFT_OUT)
    places = {
        "PG_ABS_SRCDIR": str(suite),
        "PG_ABS_BUILDDIR": str(folder),
        "PG_LIBDIR": "/nowhere",
        "PG_DLSUFFIX": ".so",
    }
    environ = os.environ | places | {"PGOPTIONS": "-c statement_timeout=60s"}

    def run() -> None:
        try:
            with (folder / "suite.log").open("ab") as log:
                for name in [*FIRST, *rest]:
                    with (suite / "sql" / f"{name}.sql").open("rb") as source, suppress(subprocess.TimeoutExpired):
                        subprocess.run(psql, stdin=source, stdout=log, stderr=log, env=environ, timeout=FILE_S)
        finally:
            ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ended
    finally:
        thread.join()


def _are_current(pipeline: PipelineUnderTest) -> bool:
    there = dict(pipeline.database.rows(TABLES))
    with pipeline.producer.topics() as topics:
        pipeline.producer.caught_up(topics, SETTLED_S)
        tables = progress_of(topics).tables
    return all(each in tables and tables[each].state == "current" for each in there)
