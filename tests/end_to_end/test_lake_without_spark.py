"""From Postgres to a reader without Spark: the same rows under the same names, also where Spark marks deleted rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.fix_pipeline import PipelineUnderTest
from walbridge.__main__ import main
from walbridge.lake import published, tables_at
from walbridge.schemas.position import format_lsn
from walbridge.spark_consumer.delta.table_features import has_vectors
from walbridge.spark_consumer.read import tables_at as tables_with_spark

COLUMNS = ["id", "Größe (cm)", "paid", "at"]


def test_reader_without_spark_gets_the_rows_of_the_source_at_each_published_lsn(
    pipeline: PipelineUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """I8."""
    pipeline.applier = "spark"
    producer, execute = pipeline.producer, pipeline.database.execute
    execute('CREATE TABLE "Orders" (id int PRIMARY KEY, "Größe (cm)" text, paid numeric(12, 2), at timestamptz)')
    execute("CREATE TABLE customers (id int PRIMARY KEY)")
    execute(
        """INSERT INTO "Orders" SELECT n, 'g' || n, n * 1.25, '2026-07-01T12:00Z'::timestamptz + n * interval '1 s'"""
        " FROM generate_series(1, 200) n"
    )
    producer.publish('"Orders"', "customers")
    producer.start_streaming()
    pipeline.catch_up()
    before = published(str(pipeline.lake))[-1]
    execute(
        """BEGIN; DELETE FROM "Orders" WHERE id % 10 = 0; UPDATE "Orders" SET at = 'infinity' WHERE id = 7;"""
        "INSERT INTO customers VALUES (1); COMMIT"
    )
    pipeline.catch_up()

    tables = tables_at(str(pipeline.lake))

    orders = tables["public.Orders"]
    assert has_vectors(DeltaTable(str(pipeline.lake / orders.path), version=orders.version))
    rows = sorted(orders.select(COLUMNS).reader().read_all().to_pylist(), key=lambda row: row["id"])
    source = pipeline.database.rows('SELECT id, "Größe (cm)", paid, nullif(at, \'infinity\') FROM "Orders" ORDER BY id')
    assert [tuple(row.values()) for row in rows] == [tuple(row) for row in source]
    assert [len(rows), tables["public.customers"].reader().read_all().num_rows] == [180, 1]
    assert rows[0]["at"] == datetime(2026, 7, 1, 12, 0, 1, tzinfo=UTC)
    with_spark = tables_with_spark(pipeline.spark, str(pipeline.lake))["public.Orders"]
    assert sorted(row["id"] for row in with_spark.collect()) == [row["id"] for row in rows]

    (tmp_path / "walbridge.toml").write_text(f'name = "{producer.name}"\n[lake]\npath = "{pipeline.lake}"\n')
    monkeypatch.chdir(tmp_path)
    query = """SELECT count(*) AS n, max(_walbridge.exceptional['at']) AS at FROM "Orders" """
    capsys.readouterr()  # the job's own lines
    counted = []
    for at in ([], ["--at", tables.lsn], ["--at", format_lsn(before.end_lsn)]):
        assert main(["sql", "--json", query, *at]) == 0
        counted.append(json.loads(capsys.readouterr().out))
    assert counted == [{"n": 180, "at": "infinity"}, {"n": 180, "at": "infinity"}, {"n": 200, "at": None}]
    told = json.loads((pipeline.lake / "_newest_cut.json").read_text())
    assert (told["end_lsn"], {each["table"]: each["version"] for each in told["tables"]}["Orders"]) == (
        tables.lsn,
        orders.version,
    )
