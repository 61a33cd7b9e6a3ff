"""DuckDB and Polars take the tables of a lake as they are."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.spark_consumer.delta.marked_rows import mark
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.lake import LakeTable, tables_at


@pytest.fixture
def table(lake: Path) -> LakeTable:
    """Rows 0, 2, 4 and 5 of 6: two are marked as deleted, as Spark does it in a large table."""
    handmade = HandmadeLake(lake)
    handmade.write("public.t", {"id": pa.int64(), "note": pa.string()}, [{"id": n, "note": f"n{n}"} for n in range(6)])
    mark(lake / "public" / "t", [1, 3])
    handmade.publish(100)
    return tables_at(str(lake))["public.t"]


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def test_duckdb_joins_a_table_with_itself(connection: duckdb.DuckDBPyConnection, table: LakeTable) -> None:
    """Each scan gets a stream of its own: of one that ends after the first, the second would be empty."""
    connection.register("t", table)

    joined = connection.execute("SELECT a.id, b.note FROM t a JOIN t b ON a.id = b.id WHERE a.id > 1 ORDER BY 1")

    assert joined.fetchall() == [(2, "n2"), (4, "n4"), (5, "n5")]


def test_polars_makes_a_frame_of_it(table: LakeTable) -> None:
    frame = polars.DataFrame(table)

    assert frame.sort("id")["note"].to_list() == ["n0", "n2", "n4", "n5"]
    assert polars.DataFrame(table.select(["id"])).shape == (4, 1)


def test_duckdb_reads_a_table_batch_by_batch(connection: duckdb.DuckDBPyConnection, lake: Path) -> None:
    """I9: what has not been asked for is not held."""
    handmade = HandmadeLake(lake)
    handmade.write("public.t", {"id": pa.int64()}, [{"id": 1}])
    rows = pa.table({"id": pa.array(range(50_000), pa.int64())})
    write_deltalake(str(lake / "public" / "t"), rows, mode="append", schema_mode="merge")
    handmade.publish(100)
    table = tables_at(str(lake))["public.t"]

    assert max(batch.num_rows for batch in table.reader()) <= 8192
    assert connection.register("t", table).execute("SELECT count(*), max(id) FROM t").fetchall() == [(50_001, 49_999)]
