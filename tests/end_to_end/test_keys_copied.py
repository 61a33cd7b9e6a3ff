"""``walbridge copy TABLE --keys FILE``, from the command to the lake (I8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.copies.test_table_copied import MADE, Habits
from tests.faults.followed import settings_of
from tests.faults.kill_points import KEYS
from tests.fix_pipeline import PipelineUnderTest
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.tables.copy import copy
from walbridge.tables.keys import copy_keys
from walbridge.tables.read_tables import read_tables


def is_done(settings: Settings, name: str) -> bool:
    (table,) = (each for each in read_tables(settings, needs_postgres=True).tables if each.name == name)
    assert table.progress is not None
    return (table.progress.state, table.progress.copy) == ("current", None)


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.soak
def test_rows_of_listed_keys_are_read_again_while_the_table_is_written(
    pipeline: PipelineUnderTest, tmp_path: Path
) -> None:
    """Each published cut equals the source, no copy begins, and a kill at each step of the chunk changes nothing."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) VALUES (0)")
    execute(MADE.format(rows=1000))
    producer.publish("t", "u")
    producer.settings["producer"] = {"batch_rows_max": 100}
    running = producer.start_streaming()
    pipeline.check_equal()
    running.stop()
    file = written(tmp_path / "keys", *map(str, range(900, 1100)))
    with Habits(producer, 1000) as habits:
        for point in KEYS:
            assert copy_keys(pipeline.settings, "u", file, wait=False, say=print) == 0
            habits.wait_for(5)
            producer.run_until_killed(point)
        assert copy_keys(pipeline.settings, "u", file, wait=False, say=print) == 0
        running = producer.start_streaming()
        running.wait_for_log("rows of listed keys are copied")
        assert copy_keys(pipeline.settings, "u", file, wait=True, say=print) == 0
        habits.wait_for(20)
    wait_until(lambda: is_done(pipeline.settings, "public.u"), "the rows")
    pipeline.check_equal()
    entries = [entry for row in pipeline.published() for entry in row.tables]
    assert {(entry.state, entry.copy_from) for entry in entries} == {("current", None)}
    assert running.log.count("copy of a table begins") == 0


def test_lake_that_differs_from_the_source_is_mended_by_the_keys_that_differ(
    pipeline: PipelineUnderTest, tmp_path: Path
) -> None:
    """Rows that nobody tells of, of several key columns: one is changed, one is missing, one is left over. A kill on
    the way changes nothing."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (a int, b text, v int, PRIMARY KEY (b, a))")
    execute("INSERT INTO t SELECT i, 'b, \"' || i, i FROM generate_series(1, 20) i")
    producer.publish("t")
    producer.settings["postgres"] = {"origin": "none"}
    running = producer.start_streaming()
    pipeline.check_equal()
    untold(
        pipeline.database,
        "UPDATE t SET v = 0 WHERE a = 1",
        "DELETE FROM t WHERE a = 2",
        "INSERT INTO t VALUES (21, 'b, \"21', 21)",
    )
    execute("INSERT INTO t VALUES (22, 'told', 22)")
    differing = [result for result in pipeline.compared() if not result.equal]
    assert [result.table for result in differing] == ["public.t"]

    file = written(tmp_path / "keys.csv", *(f'"b, ""{each}",{each}' for each in (1, 2, 3, 21, 99)))
    running.stop()
    assert copy_keys(pipeline.settings, "t", file, wait=False, say=print) == 0
    producer.run_until_killed("chunk:rows")
    producer.start_streaming()
    assert copy_keys(pipeline.settings, "t", file, wait=True, say=print) == 0
    pipeline.check_equal()
    assert {entry.state for row in pipeline.published() for entry in row.tables} == {"current"}
    execute("UPDATE t SET v = 1 WHERE a IN (1, 21, 22)")
    pipeline.check_equal()


def untold(database: Database, *statements: str) -> None:
    """Write as a subscriber does: a pipeline with the origin none hears nothing of it."""
    with database.connect() as connection:
        connection.execute("SELECT pg_replication_origin_create('elsewhere')")
        connection.execute("SELECT pg_replication_origin_session_setup('elsewhere')")
        for statement in statements:
            connection.execute(statement.encode())
        connection.execute("SELECT pg_replication_origin_session_reset()")
        connection.execute("SELECT pg_replication_origin_drop('elsewhere')")


def test_file_that_holds_other_than_keys_is_refused_and_its_remedy_followed(
    producer: ProducerUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7: what is refused asks for nothing."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)")
    producer.database.execute("CREATE TABLE k (n int); ALTER TABLE k REPLICA IDENTITY FULL")
    producer.publish("t", "k")
    producer.start_streaming()
    settings = settings_of(producer)

    def told(name: str, *lines: str) -> str:
        with pytest.raises(OperatorError) as refused:
            copy_keys(settings, name, written(tmp_path / "keys", *lines), wait=False, say=print)
        return refused.value.remedy

    def asked(*lines: str) -> int:
        return copy_keys(settings, "t", written(tmp_path / "keys", *lines), wait=True, say=print)

    told_form = "write keys as COPY prints them WITH (FORMAT csv), without a header, one on each line"
    assert told("t", "id", "1").startswith(told_form)
    assert told("t") == "write one key on each line"
    assert is_done(settings, "public.t")
    with producer.database.connect() as connection, connection.cursor().copy("COPY t TO STDOUT (FORMAT csv)") as out:
        printed = b"".join(out).decode().splitlines()
    assert asked(*printed) == 0
    with monkeypatch.context() as patch:
        patch.setattr("walbridge.tables.keys.KEYS_BYTES_MAX", 25)
        assert told("t", *printed).startswith("split the file, and ask for the next part with --wait before it; or ")
        assert [asked(*printed[:2]), asked(*printed[2:])] == [0, 0]
    remedy = told("k", "1")
    assert remedy == "walbridge copy public.k"
    assert copy(settings, remedy.split()[2:], wait=True, say=print) == 0
