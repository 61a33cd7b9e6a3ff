"""A segment's rows of a table without a key to one commit, by delta-rs alone: equal rows are counted."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark_consumer.apply.segment_changes import LSN, Rows, changes, row_schema, segment, table_of
from tests.spark_consumer.events import column, relation
from tests.spark_consumer.world import MULTISET, MULTISET_VALUES, Row, Text, canonical, lake_rows, plain, texts
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape

BAG = relation([column("n", "int4")], name="bag", identity="f")


def netted(shape: TableShape, rows: Sequence[tuple[Row, int]]) -> pa.Table:
    schema = row_schema(shape)
    found = [
        {place_name(place): plain(row)[of.name] for place, of in enumerate(shape.columns)}
        | {
            "change": {"commit_lsn": LSN, "op": "u", "exceptional": sorted((texts(row) or {}).items()) or None},
            "net": net,
        }
        for row, net in rows
    ]
    return pa.Table.from_pylist(found, pa.schema([*schema, pa.field("net", pa.int32())]))


def counted(table: LakeTable) -> Counter[tuple[Any, ...]]:
    return Counter(map(canonical, lake_rows(table.query("SELECT * FROM target").read_all().to_pylist())))


SOME_ROWS: Sequence[Row] = [
    {"x": 0.0, "xs": [0.0], "raw": b"", "on": None},
    {"x": -0.0, "xs": [0.0], "raw": b"", "on": None},
    {"x": 0.0, "xs": [0.0], "raw": b"", "on": Text("infinity")},
    {"x": 0.0, "xs": [0.0], "raw": b"", "on": Text("-infinity")},
    {"x": float("nan"), "xs": None, "raw": None, "on": MULTISET_VALUES["on"][0]},
    {"x": None, "xs": [float("nan"), None], "raw": b"\0", "on": None},
]


@pytest.mark.parametrize("seed", range(6))
def test_each_row_that_goes_takes_exactly_one_of_its_equals(lake: Path, seed: int) -> None:
    """Null equals null, NaN equals NaN, 0.0 is not -0.0, a text is no null; in two slices."""
    chooser = random.Random(seed)
    shape = TableShape(MULTISET)
    held = [chooser.choice(SOME_ROWS) for _ in range(12)]
    before = Counter(map(canonical, held))
    net = [(row, chooser.randint(-before[canonical(row)], 2)) for row in SOME_ROWS]
    table = table_of(lake, shape, held)
    slices = [netted(shape, [each for each in some if each[1]]) for some in (net[:3], net[3:])]

    changes(table, Rows(net=slices), shape, segment()).apply_row_deltas()

    expected = before.copy()
    for row, count in net:
        expected[canonical(row)] += count
    assert counted(table) == +expected


@pytest.mark.parametrize("held", [0, 1])
def test_rows_that_go_more_often_than_they_are_there_stop_the_job(lake: Path, held: int) -> None:
    """I7."""
    shape = TableShape(BAG)
    table = table_of(lake, shape, [{"n": 1}] * held + [{"n": 2}] * 3)
    rows = Rows(net=[netted(shape, [({"n": 1}, -2), ({"n": 2}, -2)])])

    with pytest.raises(OperatorError, match=r"table public\.bag loses 1 different rows that the lake does not hold"):
        changes(table, rows, shape, segment()).apply_row_deltas()
    assert table.version == 1


def test_rows_that_are_gained_are_there_as_often_and_what_was_before_a_truncate_is_not(lake: Path) -> None:
    shape = TableShape(BAG)
    table = table_of(lake, shape, [{"n": 1}])
    gained = Rows(net=[netted(shape, [({"n": 2}, 3)])])

    changes(table, gained, shape, segment()).apply_row_deltas()
    assert sorted(table.query("SELECT n FROM target").read_all().column(0).to_pylist()) == [1, 2, 2, 2]
    changes(table, gained, shape, segment(empties=True)).apply_row_deltas()
    assert table.query("SELECT n FROM target").read_all().column(0).to_pylist() == [2, 2, 2]


def test_rows_that_go_from_an_emptied_table_stop_the_job(lake: Path) -> None:
    """I7."""
    shape = TableShape(BAG)
    table = table_of(lake, shape, [{"n": 1}])

    with pytest.raises(OperatorError, match="loses 1 different rows"):
        changes(table, Rows(net=[netted(shape, [({"n": 1}, -1)])]), shape, segment(empties=True)).apply_row_deltas()
