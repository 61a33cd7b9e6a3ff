"""Every type, from values that Postgres renders to values in Delta: verify and SELECT are the oracles."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from tests.fix_pipeline import PipelineUnderTest
from tests.integration.every_type import create_statements, edge_rows, insert, random_rows

COPIED, STREAMED = 1_000, 1_000


def test_every_type_in_delta_is_what_select_says(pipeline: PipelineUnderTest) -> None:
    """I8: edge values by name and random rows, copied, inserted, then half of them updated."""
    database = pipeline.database
    edges = edge_rows()
    with database.connect() as connection:
        connection.execute(create_statements())
        next_id = insert(connection, [*edges, *random_rows(1, COPIED)])
    pipeline.producer.publish("every_type")
    pipeline.producer.start_streaming()
    pipeline.check_equal()

    with database.connect() as connection:
        insert(connection, [*edges, *random_rows(2, STREAMED)], next_id)
    database.execute("UPDATE every_type SET id = id WHERE id % 2 = 0")
    database.execute("UPDATE every_type SET id = -id WHERE id % 5 = 0")
    pipeline.check_equal()
    assert len(pipeline.contents("every_type")) == 2 * len(edges) + COPIED + STREAMED


def test_what_a_type_cannot_hold_is_kept_as_postgres_text_beside_a_null(pipeline: PipelineUnderTest) -> None:
    database = pipeline.database
    database.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric(5,2), d date, at timestamptz, a int[])")
    database.execute("INSERT INTO t VALUES (1, 'NaN', 'infinity', '20000-01-01 00:00+00', '{{1,2},{3,4}}')")
    pipeline.producer.publish("t")
    pipeline.producer.start_streaming()
    pipeline.check_equal()
    assert exceptional(pipeline) == {
        "n": "NaN",
        "d": "infinity",
        "at": "20000-01-01 00:00:00+00",
        "a": "{{1,2},{3,4}}",
    }

    database.execute("UPDATE t SET n = 1, d = '2024-02-29', at = '2024-02-29 12:00+00', a = '{1,NULL}'")
    pipeline.check_equal()
    assert not exceptional(pipeline)
    assert pipeline.contents("t")[0]["a"] == [1, None]


def exceptional(pipeline: PipelineUnderTest) -> dict[str, Any]:
    table = DeltaTable(str(pipeline.lake / "public" / "t"))
    rows = QueryBuilder().register("t", table).execute('SELECT "_walbridge" FROM t').read_all()
    (row,) = [each["_walbridge"] for each in pa.table(rows).to_pylist()]
    return dict(row["exceptional"] or {})
