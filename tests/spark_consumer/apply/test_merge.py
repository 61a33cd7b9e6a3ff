"""The SQL of merges, run by delta-rs on small tables: which row is meant, and what becomes of it."""

import datetime
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.spark_consumer.events import column, relation
from walbridge.spark_consumer.apply.merge import key_merge, keyless_merge, missing_sql, same_first_key, same_key
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.scratch_table import scratch_table
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.fold import first_key_name
from walbridge.spark_consumer.fold.keyless import same_row
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import STRUCT, TableShape

ITEMS = TableShape(relation([column("id", "int4", is_key=True), column("body"), column("n", "int4")]))
DATED = TableShape(relation([column("on", "date", is_key=True), column("n", "int4")]))
FLOATS = TableShape(relation([column("x", "float8", is_key=True), column("n", "int4")]))
BAG = TableShape(relation([column("n", "int4")], identity="f"))
DAY = datetime.date(2024, 2, 29)


def struct(lsn: int = 1, ordinal: int = 0, op: str = "u", key_text: str | None = None) -> dict[str, Any]:
    return {"commit_lsn": lsn, "ordinal": ordinal, "op": op, "key_text": key_text}


def source_schema(shape: TableShape) -> pa.Schema:
    fields = [LakeField(place_name(place), of.column_type.lake, {}) for place, of in enumerate(shape.columns)]
    own = arrow_schema([*fields, LakeField("change", STRUCT.type, {})])
    first_keys = [pa.field(first_key_name(place), own.field(place).type) for place in shape.key_places]
    more = [pa.field("unknown", pa.list_(pa.int32())), *first_keys, pa.field("first_key_text", pa.string())]
    return pa.schema([*own, *more, pa.field("gone", pa.bool_())])


def source(shape: TableShape, *rows: tuple[Sequence[Any], dict[str, Any]], **more: Any) -> pa.Table:
    """Folded rows: values by place, and our struct."""
    named = [{place_name(place): value for place, value in enumerate(values)} | {"change": w} for values, w in rows]
    return pa.Table.from_pylist([{"unknown": []} | row | more for row in named], source_schema(shape))


def table_of(lake: Path, shape: TableShape, *rows: tuple[Sequence[Any], dict[str, Any]]) -> LakeTable:
    table = LakeTable.create(f"{lake}/t", shape.fields, Commit("p"), {})
    named = [dict(zip(shape.lake_names, values, strict=True)) | {"_walbridge": w} for values, w in rows]
    table.append(pa.Table.from_pylist(named, arrow_schema(shape.fields)).to_reader(), Commit("p"))
    return table


def rows_of(table: LakeTable) -> list[list[Any]]:
    """The source's columns of every row."""
    found = table.query("SELECT * FROM target").read_all().to_pylist()
    return sorted(([value for name, value in row.items() if name != "_walbridge"] for row in found), key=repr)


def merged(table: LakeTable, shape: TableShape, rows: pa.Table, *, with_unknown: bool = False) -> list[list[Any]]:
    table.merge(key_merge(shape, with_unknown=with_unknown), rows.to_reader(), Commit("p"))
    return rows_of(table)


def test_only_a_newer_position_changes_a_row(lake: Path) -> None:
    """I5: every order of a row's position and a change's, for updates and deletes."""
    positions = [(1, 1), (1, 2), (2, 0), (2, 1)]
    cases = list(enumerate(product(positions, positions, "ud")))
    table = table_of(lake, ITEMS, *[((key, "lake", 0), struct(*stored)) for key, (stored, _, _) in cases])

    found = merged(table, ITEMS, source(ITEMS, *[((key, "new", 1), struct(*at, op)) for key, (_, at, op) in cases]))

    kept = [[key, "lake", 0] for key, (stored, at, _) in cases if at <= stored]
    updated = [[key, "new", 1] for key, (stored, at, op) in cases if at > stored and op == "u"]
    assert found == sorted(kept + updated, key=repr)


def test_delete_of_a_row_that_is_not_there_adds_nothing(lake: Path) -> None:
    """I5: a replay never resurrects a deleted row, nor leaves a trace of one."""
    table = table_of(lake, ITEMS, ((1, "x", 0), struct()))

    found = merged(table, ITEMS, source(ITEMS, ((2, None, None), struct(2, op="d")), ((3, "y", 1), struct(2))))

    assert found == [[1, "x", 0], [3, "y", 1]]


def test_unknown_column_keeps_the_lakes_value_and_a_known_one_does_not(lake: Path) -> None:
    """I6."""
    table = table_of(lake, ITEMS, ((1, "one", 0), struct()), ((2, "two", 0), struct()))
    left_out = source(ITEMS, ((1, None, 7), struct(2)), unknown=[1])
    known = source(ITEMS, ((2, None, 8), struct(2)))

    found = merged(table, ITEMS, pa.concat_tables([left_out, known]), with_unknown=True)

    assert found == [[1, "one", 7], [2, None, 8]]


def test_keys_without_a_value_of_their_type_are_told_apart_by_their_texts(lake: Path) -> None:
    """I5: infinity and -infinity are both null."""
    texts = ['{"on":"infinity"}', '{"on":"-infinity"}']
    table = table_of(lake, DATED, *[((None, n), struct(key_text=text)) for n, text in enumerate(texts)])
    changes = [((None, 7), struct(2, key_text=texts[1])), ((DAY, 8), struct(2))]

    assert merged(table, DATED, source(DATED, *changes)) == [[None, 0], [None, 7], [DAY, 8]]


def test_the_two_zeros_are_two_keys(lake: Path) -> None:
    """Postgres sends a change of one to the other as a change of the key."""
    table = table_of(lake, FLOATS, ((0.0, 1), struct()), ((float("nan"), 2), struct()))
    changes = [((-0.0, 8), struct(2)), ((float("nan"), 9), struct(2))]

    found = merged(table, FLOATS, source(FLOATS, *changes))

    assert list(map(repr, found)) == ["[-0.0, 8]", "[0.0, 1]", "[nan, 9]"]


def test_rows_that_the_lake_lacks_are_counted(lake: Path) -> None:
    """I7."""
    table = table_of(lake, ITEMS, ((1, "x", 0), struct()))
    rows = source(ITEMS, *[((key, None, 1), struct(2)) for key in (1, 2, 3)])

    with scratch_table(rows.schema, [rows]) as scratch:
        assert table.query(missing_sql(same_key(ITEMS)), scratch).read_all().column(0).to_pylist() == [2]


def test_the_first_row_of_a_chain_is_found_by_the_key_that_it_had(lake: Path) -> None:
    """I6: not by the key that the row has now, which may be another row's."""
    texts = ['{"on":"infinity"}', '{"on":"-infinity"}']
    stored = [((DAY, 1), struct()), *[((None, n), struct(key_text=text)) for n, text in enumerate(texts, 2)]]
    table = table_of(lake, DATED, *stored)
    name = first_key_name(0)
    moved = [
        source(DATED, ((DAY, 7), struct(2)), **{name: None, "first_key_text": texts[1]}),
        source(DATED, ((None, 8), struct(2, key_text=texts[0])), **{name: DAY}),
    ]
    rows = pa.concat_tables(moved)

    with scratch_table(rows.schema, [rows]) as scratch:
        joined = f"source LEFT JOIN target ON {same_first_key(DATED)}"
        sql = f"SELECT source.{place_name(1)}, target.n FROM {joined} ORDER BY 1"
        assert table.query(sql, scratch).read_all().to_pydict() == {place_name(1): [7, 8], "n": [3, 1]}


def test_rows_that_go_take_their_equals_and_others_are_added_beside_theirs(lake: Path) -> None:
    table = table_of(lake, BAG, *[((n,), struct()) for n in (1, 1, 2, 3)])
    gone = source(BAG, *[((n,), struct(2, op="d")) for n in (1, 9)], gone=True)
    added = source(BAG, *[((n,), struct(2, op="c")) for n in (2, 4, 4)], gone=False)

    merge = keyless_merge(BAG, same_row(BAG))
    table.merge(merge, pa.concat_tables([gone, added]).to_reader(), Commit("p"))

    assert rows_of(table) == [[2], [2], [3], [4], [4]]
