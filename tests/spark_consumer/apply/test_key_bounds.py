"""What a merge says of its keys leaves files out, and never one that holds a key: by delta-rs itself."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.apply.test_merge import rows_of, source, struct
from tests.spark_consumer.events import column, relation
from walbridge.spark_consumer.apply import key_bounds
from walbridge.spark_consumer.apply.key_bounds import RANGES_MAX, TEXT_BYTES_MAX, KeyBounds
from walbridge.spark_consumer.apply.merge import key_merge
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.dialect import SPARK
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape

WIDE = 40
"""Columns before the key: Delta has statistics of the first 32."""
DAY = datetime.date(2024, 2, 29)
LAST_TEXTS = ["\U0010ffff" * 10, "\U0010ffff" * 60, "x" * 63 + "\U0010ffff" * 3]
ENDS: dict[str, list[Any]] = {
    "int2": [-(2**15), -1, 0, 1, 2**15 - 1],
    "int4": [-(2**31), -1, 0, 1, 2**31 - 1],
    # Among them such as are one number to a double.
    "int8": [-(2**63), -(2**63) + 1, -(2**53) - 1, -(2**53), 0, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1],
    "date": [datetime.date(*of) for of in [(1, 1, 1), (1582, 10, 4), (1582, 10, 15), (1969, 12, 31), (9999, 12, 31)]],
    # Statistics hold a part of a long text, or a text after all that begin so, where there is one.
    "text": ["", "a", "it's", "a" * 100, "a" * 100 + "b", "é" * 70, "\uffff" * 70, "\ue000", "\U00010000", *LAST_TEXTS],
}


def shape_of(type_name: str) -> TableShape:
    return TableShape(relation([column("The key", type_name, is_key=True), column("n", "int4")]))


def files_of(lake: Path, shape: TableShape, *files: Sequence[Any]) -> LakeTable:
    """One file of rows with these keys each."""
    table = LakeTable.create(f"{lake}/t", shape.fields, Commit("p"), {})
    for keys in files:
        rows = [{shape.lake_names[0]: key, "n": 0, "_walbridge": struct()} for key in keys]
        table.append(pa.Table.from_pylist(rows, arrow_schema(shape.fields)).to_reader(), Commit("p"))
    return table


def updated(table: LakeTable, shape: TableShape, *keys: Any) -> dict[str, int]:
    """What delta-rs says of a merge of these keys."""
    rows = source(shape, *[((key, 1), struct(2)) for key in keys])
    merge = key_merge(shape, with_unknown=False, bounds=KeyBounds.of(rows.to_batches(), shape))
    table.merge(merge, rows.to_reader(), Commit("p"))
    metrics: dict[str, int] = DeltaTable(table.uri).history(1)[0]["operationMetrics"]
    return metrics


def skipped(metrics: dict[str, int]) -> int:
    return metrics["num_target_files_skipped_during_scan"]


@pytest.mark.parametrize("is_checkpoint", [False, True])
@pytest.mark.parametrize("type_name", ENDS)
def test_row_is_found_whatever_its_file_says_of_it(lake: Path, type_name: str, is_checkpoint: bool) -> None:
    """I5: one file a row, so its statistics leave no room; also as a checkpoint tells them."""
    shape, keys = shape_of(type_name), ENDS[type_name]
    table = files_of(lake, shape, *[[key] for key in keys])
    if is_checkpoint:
        DeltaTable(table.uri).create_checkpoint()
    for key in keys:
        fresh = LakeTable.open(table.uri, {})
        assert fresh is not None
        # Two long texts with one beginning may share their bounds.
        assert skipped(updated(fresh, shape, key)) >= len(keys) - 2

    fresh = LakeTable.open(table.uri, {})
    assert fresh is not None
    assert rows_of(fresh) == sorted(([key, 1] for key in keys), key=repr)


def test_rows_far_from_each_other_leave_out_what_lies_between(lake: Path) -> None:
    shape = shape_of("int8")
    table = files_of(lake, shape, *[range(start, start + 10) for start in range(0, 100, 10)])

    assert skipped(updated(table, shape, 3, 97)) == 8
    assert [row[1] for row in rows_of(table)].count(1) == 2
    assert len(rows_of(table)) == 100


def test_null_in_a_key_says_nothing(lake: Path) -> None:
    """It stands for infinity, which is in another file."""
    shape = shape_of("date")
    table = files_of(lake, shape, [DAY], [None])

    assert skipped(updated(table, shape, DAY, None)) == 0
    assert rows_of(table) == [[None, 1], [DAY, 1]]


def test_file_without_statistics_of_the_key_is_read(lake: Path) -> None:
    """Delta has those of the first 32 columns."""
    columns = [column(f"c{number}", "int4") for number in range(WIDE)]
    shape = TableShape(relation([*columns, column("The key", "int4", is_key=True)]))
    table = LakeTable.create(f"{lake}/t", shape.fields, Commit("p"), {})
    nothing = dict.fromkeys((of.name for of in columns), None)
    for key in (1, 2):
        row = nothing | {shape.lake_names[-1]: key, "_walbridge": struct()}
        table.append(pa.Table.from_pylist([row], arrow_schema(shape.fields)).to_reader(), Commit("p"))
    rows = source(shape, ((*[7] * WIDE, 1), struct(2)))

    bounds = KeyBounds.of(rows.to_batches(), shape)
    assert bounds.columns
    table.merge(key_merge(shape, with_unknown=False, bounds=bounds), rows.to_reader(), Commit("p"))

    assert sorted((row[-1], row[0]) for row in rows_of(table)) == [(1, 7), (2, None)]


@pytest.mark.parametrize("type_name", ["float8", "timestamptz", "numeric", "bytea"])
def test_nothing_is_said_of_types_whose_statistics_are_not_exact(type_name: str) -> None:
    shape = shape_of(type_name)
    batch = pa.record_batch([pa.nulls(1)], [place_name(0)])

    assert KeyBounds.of([batch], shape).condition() == ""


def test_longer_texts_are_not_told() -> None:
    shape = shape_of("text")

    def columns(key: str) -> Any:
        return KeyBounds.of(source(shape, ((key, 1), struct())).to_batches(), shape).columns

    assert columns("x" * TEXT_BYTES_MAX)
    assert columns("é" * TEXT_BYTES_MAX) == {}


@given(st.lists(st.lists(st.integers(0, 99), max_size=40), max_size=4), st.integers(1, 50))
def test_spark_is_told_each_key_or_none_where_they_are_many(batches: list[list[int]], values_max: int) -> None:
    shape = shape_of("int8")
    schema = arrow_schema([LakeField(place_name(0), "long", {})])
    keys = {key for batch in batches for key in batch}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_bounds, "VALUES_MAX", values_max)
        found = KeyBounds.of([pa.record_batch([pa.array(of, pa.int64())], schema) for of in batches], shape)

    listed = found.condition(SPARK).partition(" IN ")[2]
    assert listed == (f"({', '.join(map(str, sorted(keys)))})" if 0 < len(keys) <= values_max else "")
    assert " IN " not in found.condition()


def test_list_of_long_texts_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_bounds, "LIST_CHARACTERS_MAX", 30)
    shape = shape_of("text")

    def told(*keys: str) -> str:
        return KeyBounds.of(source(shape, *(((key, 1), struct()) for key in keys)).to_batches(), shape).condition(SPARK)

    assert told("it's", "b").endswith(" IN ('b', 'it\\'s')")
    assert " IN " not in told("x" * 20, "y" * 20)


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40), max_size=4))
def test_every_key_of_every_batch_is_within(batches: list[list[int]]) -> None:
    shape = shape_of("int8")
    schema = arrow_schema([LakeField(place_name(0), "long", {})])

    found = KeyBounds.of([pa.record_batch([pa.array(keys, pa.int64())], schema) for keys in batches], shape).condition()

    ranges = [term.split(" BETWEEN ")[1].split(" AND ") for term in found.strip("()").split(" OR ")] if found else []
    assert len(ranges) <= RANGES_MAX
    assert all(any(int(low) <= key <= int(high) for low, high in ranges) for keys in batches for key in keys)


@pytest.mark.parametrize("type_name", ENDS)
def test_files_that_may_hold_a_key_are_told_from_others(lake: Path, type_name: str) -> None:
    """By the statistics of a table's own files, one file a row."""
    shape, keys = shape_of(type_name), ENDS[type_name]
    files = files_of(lake, shape, *[[key] for key in keys]).file_statistics()

    for key in keys:
        bounds = KeyBounds.of(source(shape, ((key, 1), struct())).to_batches(), shape)
        assert 1 <= bounds.files_within(files).num_rows <= 3
