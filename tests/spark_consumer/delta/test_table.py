"""One Delta table: commits that are put-if-absent and say what made them."""

import json
from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.spark_consumer.events import column, relation
from walbridge.schemas.errors import OperatorError, TableError
from walbridge.spark_consumer.delta import table as table_module
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.scratch_table import scratch_table
from walbridge.spark_consumer.delta.table import LakeTable, Merge
from walbridge.spark_consumer.delta.table_faults import ConcurrentCommit, VersionGone
from walbridge.spark_consumer.fold.shape import TableShape

SHAPE = TableShape(relation([column("Id", "int4", is_key=True), column('q"uo.te')]))


def own(segment: int = 0, step: str = "data") -> Commit:
    return Commit("plan", segment, step, app_id="app", txn_version=segment + 7)


def rows(fields: list[LakeField], *ids: int) -> pa.RecordBatchReader:
    schema = arrow_schema(fields)
    table = pa.Table.from_pylist([{fields[0].name: each} for each in ids], schema)
    return table.to_reader()


@pytest.fixture
def table(lake: Path) -> LakeTable:
    return LakeTable.create(f"{lake}/t", SHAPE.fields, own(step="create"), {})


def ids(table: LakeTable) -> list[Any]:
    found: list[Any] = table.query('SELECT "Id" FROM target ORDER BY 1').read_all().column(0).to_pylist()
    return found


def test_table_that_is_not_there_is_none(lake: Path) -> None:
    assert LakeTable.open(f"{lake}/t", {}) is None


def test_fields_come_back_with_their_metadata(table: LakeTable) -> None:
    found = table.fields

    assert [field.name for field in found] == ["Id", 'q"uo.te', "_walbridge"]
    assert found[1].metadata == {"pg.name": 'q"uo.te', "pg.type": "text", "pg.typmod": "-1", "pg.attnum": "2"}


def test_overwrite_keeps_the_metadata(table: LakeTable) -> None:
    table.overwrite(rows(SHAPE.fields, 1), own())

    assert table.fields == SHAPE.fields


def test_stale_handle_cannot_commit(table: LakeTable) -> None:
    """Put-if-absent: a second job is fenced."""
    stale = LakeTable.open(table.uri, {})
    assert stale is not None
    table.append(rows(SHAPE.fields, 1), own())

    with pytest.raises(ConcurrentCommit):
        stale.append(rows(SHAPE.fields, 2), own())
    with pytest.raises(ConcurrentCommit):
        stale.overwrite(rows(SHAPE.fields, 2), own())
    with pytest.raises(ConcurrentCommit):
        stale.merge(Merge('source."Id" = target."Id"', insert_when="true"), rows(SHAPE.fields, 2), own())
    assert ids(table) == [1]


def test_commits_say_what_made_them(table: LakeTable) -> None:
    table.append(rows(SHAPE.fields, 1), own(3))

    assert [(each.plan, each.segment, each.step) for each in table.commits(9)] == [
        ("plan", 0, "create"),
        ("plan", 3, "data"),
    ]


def test_data_commit_carries_the_transaction(table: LakeTable) -> None:
    assert table.transaction_version("app") is None
    table.append(rows(SHAPE.fields, 1), own(3))

    assert table.transaction_version("app") == 10


def test_restore_brings_back_rows_and_columns(table: LakeTable) -> None:
    table.append(rows(SHAPE.fields, 1), own())
    other = TableShape(relation([column("Id", "int8", is_key=True)]))
    table.overwrite(rows(other.fields, 2, 3), Commit(None, step=None))

    table.restore(1, own(step="restore"))

    assert (ids(table), table.fields) == ([1], SHAPE.fields)


def test_restored_handle_commits_what_fits_the_restored_columns(table: LakeTable) -> None:
    table.append(rows(SHAPE.fields, 1), own())
    other = TableShape(relation([column("Id", "int8", is_key=True)]))
    table.overwrite(rows(other.fields, 2), Commit(None, step=None))
    table.restore(1, own(step="restore"))

    table.append(rows(SHAPE.fields, 3), own(1))

    assert (ids(table), table.version) == ([1, 3], 4)


def test_transaction_of_an_older_version_is_the_one_that_stood_there(table: LakeTable) -> None:
    """I5: a restore leaves the newer one in the log."""
    for segment in (0, 1):
        table.append(rows(SHAPE.fields, segment), own(segment))
    table.restore(1, own(step="restore"))

    assert [table.transaction_version_at(version, "app") for version in (0, 1, 2, 3)] == [None, 7, 8, 8]
    with pytest.raises(VersionGone):
        table.transaction_version_at(9, "app")


def test_commits_are_told_oldest_first_and_no_more_than_asked_for(table: LakeTable) -> None:
    for segment in (0, 1):
        table.append(rows(SHAPE.fields, segment), own(segment))
    table.append(rows(SHAPE.fields, 9), Commit(None, step=None))

    assert table.commits(0) == []
    assert [(each.plan, each.segment, each.changes_data) for each in table.commits(2)] == [
        ("plan", 1, True),
        (None, 0, True),
    ]


def test_commit_that_says_nothing_is_a_strangers(table: LakeTable, lake: Path) -> None:
    other = LakeTable.open(table.uri, {})
    assert other is not None
    other.append(rows(SHAPE.fields, 1), own())
    newest = max((lake / "t" / "_delta_log").glob("*.json"))
    lines = newest.read_text().splitlines(keepends=True)
    newest.write_text("".join(line for line in lines if "commitInfo" not in line))

    with pytest.raises(ConcurrentCommit):
        table.advance_over(own())
    assert [each.plan for each in table.commits(1)] == [None]


BY_OTHERS: dict[str, Mapping[str, Any]] = {
    "plan that is no text": {"walbridge_plan": 7},
    "segment that is no number": {"walbridge_plan": "plan", "walbridge_segment": "first"},
    "counts without metrics": {"walbridge_plan": "plan", "walbridge_held": 1, "walbridge_lacked": 1},
    "count that is no number": {"walbridge_plan": "plan", "walbridge_held": "one", "walbridge_lacked": 1},
    "one count of two": {"walbridge_plan": "plan", "walbridge_held": 1},
    "metrics that are none": {"walbridge_held": 1, "walbridge_lacked": 1, "operationMetrics": "many"},
    "step that is no text": {"walbridge_plan": "plan", "walbridge_step": 1},
    "metadata of Spark's": {"userMetadata": json.dumps({"walbridge_plan": "p", "walbridge_transaction": "x"})},
    "engine that is no text": {"engineInfo": 7},
    "metadata that is no text": {"userMetadata": 7},
}


@pytest.mark.parametrize("case", BY_OTHERS)
def test_commit_of_another_program_that_has_keys_of_ours_with_other_values_is_a_strangers(
    table: LakeTable, lake: Path, case: str
) -> None:
    other = LakeTable.open(table.uri, {})
    assert other is not None
    other.append(rows(SHAPE.fields, 1), own())
    newest = max((lake / "t" / "_delta_log").glob("*.json"))
    lines = [line for line in newest.read_text().splitlines() if "commitInfo" not in line]
    says = {"commitInfo": {"timestamp": 1, "operation": "WRITE", **BY_OTHERS[case]}}
    newest.write_text("\n".join([json.dumps(says), *lines]) + "\n")

    with pytest.raises(ConcurrentCommit):
        table.advance_over(own())
    assert [each.plan for each in table.commits(1)] == [None]


def test_version_that_is_gone_cannot_be_restored(table: LakeTable, lake: Path) -> None:
    table.append(rows(SHAPE.fields, 1), own())
    table.overwrite(rows(SHAPE.fields, 2), own())
    kept = {Path(path).name for path in DeltaTable(table.uri).file_uris()}
    for file in (lake / "t").glob("*.parquet"):
        if file.name not in kept:
            file.unlink()

    with pytest.raises(VersionGone):
        table.restore(1, own(step="restore"))


@pytest.mark.parametrize("type_name", ["float", "double"])
def test_not_a_number_is_found_among_numbers(lake: Path, type_name: str) -> None:
    """I6: what a file's statistics say leaves NaN out, and a join must not ask them."""
    fields = [LakeField("k", type_name, {}), LakeField("n", "integer", {})]
    schema = arrow_schema(fields)
    table = LakeTable.create(f"{lake}/t", fields, own(step="create"), {})
    table.append(pa.Table.from_pylist([{"k": k, "n": 1} for k in (0.0, 1.5, nan)], schema).to_reader(), own())

    with scratch_table(schema, [pa.Table.from_pylist([{"k": nan, "n": 2}], schema)]) as source:
        found = table.query("SELECT target.n FROM source LEFT JOIN target ON source.k = target.k", source)
        assert found.read_all().column(0).to_pylist() == [1]


def test_optimize_changes_no_data(table: LakeTable) -> None:
    table.append(rows(SHAPE.fields, 1), own())
    table.append(rows(SHAPE.fields, 2), own(1))
    DeltaTable(table.uri).optimize.compact()
    after = LakeTable.open(table.uri, {})
    assert after is not None

    assert [each.changes_data for each in after.commits(1)] == [False]
    assert ids(after) == [1, 2]


def test_spark_reads_what_was_written(table: LakeTable, spark: SparkSession) -> None:
    table.append(rows(SHAPE.fields, 1, 2), own())

    found = spark.read.format("delta").load(table.uri)

    assert sorted(row["Id"] for row in found.collect()) == [1, 2]
    assert found.columns == ["Id", 'q"uo.te', "_walbridge"]


@pytest.mark.parametrize("said", ["No space left on device (os error 28)", "Generic S3 error: Error performing GET "])
def test_storage_that_fails_for_a_moment_is_not_told_as_a_version_that_is_gone(
    lake: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """I8: its remedy would be to copy everything again."""
    table = LakeTable.create(f"{lake}/t", [LakeField("n", "long", {})], Commit("p"), {})

    def fail(*_: object, **__: object) -> None:
        raise OSError(said)

    monkeypatch.setattr(DeltaTable, "restore", fail)
    with pytest.raises(OperatorError, match="nothing is lost"):
        table.restore(0, Commit("p"))
    monkeypatch.setattr(table_module, "DeltaTable", fail)
    with pytest.raises(OperatorError, match="nothing is lost"):
        table.transaction_version_at(0, "a")


def test_feature_that_this_job_cannot_write_is_not_told_as_another_programs_commit(table: LakeTable) -> None:
    """An operator's ALTER TABLE sets it, and nothing commits to the table from then on."""
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["icebergCompatV1"]}
    newest = Path(table.uri.removeprefix("file://")) / "_delta_log" / f"{table.version + 1:020}.json"
    newest.write_text(json.dumps({"protocol": protocol}))

    with pytest.raises(TableError, match="icebergCompatV1"):
        LakeTable.open(table.uri, {})
