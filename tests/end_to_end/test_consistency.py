"""What is published is one state of the source: of many tables, of a transaction larger than a plan.

That no cut shows a transaction in halves while others go on is asked by the campaign of kills.
"""

from __future__ import annotations

import pytest

from tests.fix_pipeline import PipelineUnderTest
from walbridge.lake import tables_at


@pytest.mark.soak
def test_twenty_tables_are_published_together(pipeline: PipelineUnderTest) -> None:
    database = pipeline.database
    names = [f"t{i}" for i in range(20)]
    for name in names:
        database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, v int); INSERT INTO {name} SELECT i, 0 "
            "FROM generate_series(1, 100) i"
        )
    pipeline.producer.publish(*names)
    # Their copies overlap, over many cuts.
    pipeline.producer.settings = {"producer": {"copy_workers": 2, "batch_rows_max": 30}}
    pipeline.producer.start_streaming()
    pipeline.check_equal()
    with database.connect() as connection, connection.transaction():
        for name in names:
            connection.execute(f"UPDATE {name} SET v = 1 WHERE id <= 50")
    pipeline.check_equal()
    newest = pipeline.published()[-1]
    assert len(newest.tables) == 20


def test_a_transaction_larger_than_a_plan_is_published_whole(pipeline: PipelineUnderTest) -> None:
    """I8, I9: it crosses several Kafka transactions and several plans; no cut shows a part of it."""
    database = pipeline.database
    pipeline.plan_rows_max = 600
    pipeline.producer.settings = {"producer": {"batch_rows_max": 200}}
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (0, 'first')")
    pipeline.producer.publish("t")
    pipeline.producer.start_streaming()
    pipeline.check_equal()
    with database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 2400) i")
        connection.execute("UPDATE t SET v = 'u' WHERE id % 3 = 0")
        connection.execute("DELETE FROM t WHERE id % 5 = 0")
    pipeline.check_equal()
    final = len(pipeline.contents("t"))
    counts = [
        tables_at(str(pipeline.lake), cut.end_lsn)["public.t"].reader().read_all().num_rows
        for cut in pipeline.published()
    ]
    assert set(counts) == {1, final}
