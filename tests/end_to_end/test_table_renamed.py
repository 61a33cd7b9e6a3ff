"""A table that is called otherwise keeps its folder, and is read under its new name (I8)."""

from __future__ import annotations

import pytest

from tests.faults.tables.test_table_renamed import wait_until_named
from tests.fix_pipeline import PipelineUnderTest
from tests.in_soak import in_soak
from walbridge.lake import tables_at


def read(pipeline: PipelineUnderTest, lsn: int | None = None) -> dict[str, list[int]]:
    """Ids by ``schema.table``, as readers get them: names and versions are not Spark's to find."""
    found = tables_at(str(pipeline.lake), lsn)
    return {name: sorted(table.reader().read_all()["id"].to_pylist()) for name, table in found.items()}


def folders(pipeline: PipelineUnderTest) -> dict[str, str]:
    return {entry.qualified_name: entry.path for entry in pipeline.published()[-1].tables}


@pytest.mark.variant(of="test_lake_equals_a_database_whose_tables_are_made_altered_renamed_and_dropped")
@pytest.mark.parametrize("also_unseen", [False, in_soak(True)], ids=["running", "and stopped"])
def test_renamed_tables_keep_their_folders_and_are_read_under_the_name_of_each_cut(
    pipeline: PipelineUnderTest, also_unseen: bool
) -> None:
    """Written and not written since, swapped in one transaction, and another table under the old name."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int); ALTER TABLE u REPLICA IDENTITY FULL")
    execute("INSERT INTO t SELECT i FROM generate_series(1, 5) i; INSERT INTO u VALUES (100); CREATE SCHEMA s")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start_streaming()
    pipeline.check_equal()
    before = pipeline.published()[-1].end_lsn

    execute("ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t; ALTER TABLE x RENAME TO u; UPDATE u SET v = 'w'")
    wait_until_named(producer, "public.t")
    pipeline.check_equal()
    assert read(pipeline) == {"public.t": [100], "public.u": [1, 2, 3, 4, 5]}
    assert folders(pipeline) == {"public.t": "public/u", "public.u": "public/t"}

    execute("ALTER TABLE t SET SCHEMA s; CREATE TABLE t (id bigint PRIMARY KEY, w int); INSERT INTO t VALUES (7)")
    running.wait_for_log("table is copied")
    wait_until_named(producer, "s.t")
    execute("DELETE FROM u WHERE id < 3; INSERT INTO t VALUES (8)")
    pipeline.check_equal()
    assert read(pipeline) == {"public.t": [7, 8], "public.u": [3, 4, 5], "s.t": [100]}
    assert folders(pipeline) == {"public.t": "public/t_2", "public.u": "public/t", "s.t": "public/u"}
    assert read(pipeline, before) == {"public.t": [1, 2, 3, 4, 5], "public.u": [100]}

    if not also_unseen:
        return
    running.stop()
    execute("ALTER TABLE u RENAME TO v; ALTER TABLE v ADD n int; INSERT INTO v VALUES (9); DROP TABLE s.t")
    producer.start_streaming().wait_for_log("left the publication")
    execute("ALTER TABLE t RENAME TO u")
    wait_until_named(producer, "public.u")
    pipeline.check_equal()
    states = {entry.qualified_name: (entry.path, entry.state) for entry in pipeline.published()[-1].tables}
    assert states == {
        "public.u": ("public/t_2", "current"),
        "public.v": ("public/t", "current"),
        "s.t": ("public/u", "stale"),
    }
