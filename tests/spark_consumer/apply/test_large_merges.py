"""Merges whose rows are more than one slice, or too large for a heap."""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.in_soak import in_variants
from tests.spark_consumer.apply.segment_changes import row_schema
from tests.spark_consumer.apply.test_appliers import ITEMS, LSN, engines, event, three
from tests.spark_consumer.events import changed, copied
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply import appliers as appliers_module
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.apply.arrow_spool import spooled
from walbridge.spark_consumer.apply.key_bounds import KeyBounds
from walbridge.spark_consumer.apply.merge import key_merge
from walbridge.spark_consumer.delta.commit import Commit, Matches
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.segment_rows import SegmentRows
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.plan.ended_copies import ASIDE


@pytest.mark.parametrize(
    ("setting", "bytes_a_change", "is_sparks"),
    [in_variants("spark", 2**40, True), ("auto", 1, True), ("auto", 2**40, False)],
)
def test_a_merge_of_many_rows_is_sparks_too_where_the_table_is_large_enough_for_them(
    lake: Path,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    bytes_a_change: int,
    is_sparks: bool,
) -> None:
    """What it writes follows the changes; it takes more of CPU for each of them than delta-rs."""
    monkeypatch.setattr(appliers_module, "REWRITTEN_BYTES_MIN", 1)
    monkeypatch.setattr(appliers_module, "BYTES_A_CHANGE", bytes_a_change)
    head = copied(None, lake, ITEMS, *[{"id": key, "body": "b", "n": 0} for key in range(40)])
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    shape = TableShape(ITEMS)
    schema = pa.schema([*row_schema(shape), pa.field("unknown", pa.list_(pa.int32())), pa.field("is_new", pa.bool_())])
    slices = [pa.Table.from_pylist([folded(key)], schema) for key in (1, 2)]
    with spooled(schema, slices) as many:
        assert not many.is_in_memory
        merge = partial(key_merge, shape, with_unknown=False)
        found = Appliers(setting, spark, aside=tmp_path).merge(
            table, many, KeyBounds({}), lambda dialect: merge(dialect=dialect), Commit("p")
        )

    assert (found, table.writes_vectors) == (Matches(2, 0), is_sparks)
    assert not [*tmp_path.glob("merge-*")]


def folded(key: int) -> dict[str, Any]:
    names = [place_name(place) for place in range(3)]
    change = {"commit_lsn": LSN, "ordinal": 0, "op": "u"}
    return dict(zip(names, (key, "x", 7), strict=True)) | {"change": change, "unknown": [], "is_new": False}


def test_large_values_stay_with_the_driver(lake: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: no heap has room for a row of many megabytes, read and written again."""
    monkeypatch.setattr(SegmentRows, "has_no_large_values", False)
    head = changed(None, lake, three(lake), event("u", 0, id=1, body="x", n=7), appliers=Appliers("spark", spark))

    assert engines(lake, head) == ["local"]


def test_what_a_killed_merge_leaves_is_where_the_next_job_deletes_all(lake: Path, spark: SparkSession) -> None:
    settings = Settings(name="p", lake={"path": str(lake)})  # type: ignore[arg-type]

    assert Appliers.of(settings, spark).aside == lake / ASIDE
