"""What another program may have set on a table that delta-rs writes, and what not: delta-rs itself is asked."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from tests.spark_consumer.delta.set_by_others import UNWRITABLE, WRITABLE, constrain, set_features
from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.delta.by_spark.commit import append_by_spark
from walbridge.spark_consumer.delta.columns import LakeField
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.table import LakeTable, Merge
from walbridge.spark_consumer.delta.table_features import _WRITABLE

FIELDS = [LakeField("id", "long", {}), LakeField("n", "long", {})]
UPDATE = Merge("source.id = target.id", update_when="true", updates={"n": "source.n"})
SAID = Commit("p")


def rows(*numbers: int) -> pa.RecordBatchReader:
    return pa.table({"id": [*numbers], "n": [*numbers]}).to_reader()


@pytest.fixture
def folder(lake: Path) -> Path:
    folder = lake / "t"
    LakeTable.create(str(folder), FIELDS, SAID, {}).append(rows(1, 2), SAID)
    return folder


def opened(folder: Path) -> LakeTable:
    table = LakeTable.open(str(folder), {})
    assert table is not None
    return table


@pytest.mark.parametrize("feature", WRITABLE)
def test_table_with_a_feature_that_delta_rs_writes_takes_every_kind_of_commit(folder: Path, feature: str) -> None:
    set_features(folder, WRITABLE[feature])

    table, before = opened(folder), opened(folder).version
    table.append(rows(3), SAID)
    table.merge(UPDATE, rows(1), SAID)
    table.restore(before, SAID)
    table.add_columns([LakeField("z", "long", {})], SAID)
    table.describe_column(LakeField("n", "long", {"pg.type": "int8"}), SAID)
    table.overwrite(rows(7), SAID)

    assert opened(folder).version == before + 6


def test_every_feature_that_is_let_pass_is_tried() -> None:
    assert WRITABLE.keys() == _WRITABLE


@pytest.mark.parametrize("feature", UNWRITABLE)
def test_table_with_a_feature_that_delta_rs_does_not_write_is_refused_at_once(folder: Path, feature: str) -> None:
    """A version of delta-rs that has learnt it fails here."""
    set_features(folder, UNWRITABLE[feature])

    with pytest.raises(TableError, match=f"another program set {feature} on it"):
        opened(folder)
    with pytest.raises(DeltaError):
        write_deltalake(folder, rows(3), mode="overwrite", schema_mode="overwrite")


def test_feature_that_is_set_while_a_table_is_written_is_no_other_program_that_commits(folder: Path) -> None:
    """Another attempt would find it again."""
    set_features(folder, UNWRITABLE["ofTomorrow"])
    table = LakeTable(str(folder), DeltaTable(folder), {})

    with pytest.raises(TableError, match=r'another program set Unknown\("ofTomorrow"\) on it'):
        table.append(rows(3), SAID)


@pytest.mark.parametrize("condition", ["n > 1000", "typeof(n) = 'bigint'", "gone > 0"])
def test_row_that_does_not_meet_a_constraint_is_told_without_its_values(folder: Path, condition: str) -> None:
    """I10: delta-rs quotes it."""
    constrain(folder, condition)
    table = opened(folder)

    for write in (lambda: table.append(rows(77), SAID), lambda: table.merge(UPDATE, rows(1), SAID)):
        with pytest.raises(TableError, match="another program set CHECK strict on it") as refused:
            write()
        assert refused.value.__suppress_context__


def test_row_that_spark_does_not_write_for_a_constraint_is_told_alike(folder: Path, spark: SparkSession) -> None:
    """I10: Spark quotes it as well."""
    constrain(folder, "n > 1000")
    row = spark.range(77, 78).selectExpr("id", "id AS n")

    with pytest.raises(TableError, match="another program set CHECK strict on it") as refused:
        append_by_spark(opened(folder), row, SAID)
    assert refused.value.__suppress_context__


def test_error_without_a_constraint_stays_as_it_is(folder: Path) -> None:
    with pytest.raises(DeltaError):
        opened(folder).merge(Merge("source.gone = target.id", update_when="true", updates={"n": "1"}), rows(1), SAID)
