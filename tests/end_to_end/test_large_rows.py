"""Rows as large as ``producer.row_bytes_max`` allows by default, through every client's limits."""

from __future__ import annotations

import pytest

from tests.fix_pipeline import PipelineUnderTest
from tests.in_soak import in_soak

VALUE_BYTES = 15 * 2**20
LARGE = f"(SELECT string_agg(md5(n::text), '') FROM generate_series(1, {VALUE_BYTES // 32}) n)"
"""Text of which no compression makes less than half."""


@pytest.mark.parametrize("inserted", [False, in_soak(True)], ids=["copied", "copied and inserted"])
def test_rows_of_15_mb_reach_the_lake_also_where_an_update_holds_them_twice(
    pipeline: PipelineUnderTest, inserted: bool
) -> None:
    """I7, I9: copied, inserted, and as the old and the new row of one event (identity FULL)."""
    database = pipeline.database
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text, n int); ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute(f"INSERT INTO t VALUES (1, {LARGE}, 0), (2, 'small', 0)")
    pipeline.producer.publish("t")
    pipeline.producer.start_streaming()
    pipeline.check_equal()

    if inserted:
        database.execute(f"INSERT INTO t VALUES (3, {LARGE}, 0)")
    database.execute("UPDATE t SET n = 1 WHERE id > 1; UPDATE t SET id = id + 10 WHERE id = 1")
    pipeline.check_equal()
    more = {3: VALUE_BYTES} if inserted else {}
    assert {row["id"]: len(row["v"]) for row in pipeline.contents("t")} == {11: VALUE_BYTES, 2: 5} | more
