"""A segment's rows to one commit, by delta-rs alone: rows are given as the fold would give them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract_writer import Event
from tests.spark_consumer.apply.segment_changes import ITEMS, LSN, Rows, changes, row_schema, segment, table_of
from tests.spark_consumer.events import Log, applied, changed, column, copied, head_rows, relation, table_plan, values
from tests.spark_consumer.world import Row, Text, lake_rows
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.fold.fold import first_key_name
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape

INSERTS = relation([column("n", "int4")], name="log")


def folded(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of ITEMS as a fold gives them; ``first``: the key that the row's chain began with."""
    shape = TableShape(ITEMS)
    schema = row_schema(shape)
    more = {
        "unknown": pa.list_(pa.int32()),
        "moved": pa.bool_(),
        first_key_name(0): pa.int32(),
        "first_key_text": pa.string(),
        "is_new": pa.bool_(),
    }
    found = [
        {place_name(place): row.get(of.name) for place, of in enumerate(shape.columns)}
        | {"change": {"commit_lsn": LSN, "ordinal": 0, "op": row.get("op", "u"), "exceptional": row.get("texts")}}
        | {"unknown": row.get("unknown", []), "moved": row.get("moved", False), first_key_name(0): row.get("first")}
        | {"is_new": row.get("is_new", False)}
        for row in rows
    ]
    return pa.Table.from_pylist(found, pa.schema([*schema, *[pa.field(name, of) for name, of in more.items()]]))


BODY, TAGS = 1, 2


def test_row_whose_key_changed_takes_unknown_values_and_their_texts_from_the_row_it_was(lake: Path) -> None:
    """I6: along its chain, not from the row that has its key in the lake."""
    shape = TableShape(ITEMS)
    rows: list[Row] = [
        {"id": 1, "body": "one", "tags": Text("{{1}}"), "n": 0},
        {"id": 2, "body": "two", "tags": None, "n": 0},
    ]
    table = table_of(lake, shape, rows)
    gone = {"id": 1, "op": "d", "first": 1}
    by_key = [{"id": 2, "n": 7, "unknown": [BODY, TAGS], "moved": True, "first": 2}, gone]
    by_chain = [{"id": 2, "n": 7, "unknown": [BODY, TAGS], "first": 1}, gone]

    changes(table, Rows([folded(by_key)], [folded(by_chain)]), shape, segment()).merge()

    found = lake_rows(table.query("SELECT * FROM target").read_all().to_pylist())
    assert list(found) == [{"id": 2, "body": "one", "tags": Text("{{1}}"), "n": 7}]


def test_texts_of_known_columns_are_not_taken_from_the_row_it_was(lake: Path) -> None:
    """I6: a known null is null."""
    shape = TableShape(ITEMS)
    table = table_of(lake, shape, [{"id": 1, "body": "one", "tags": Text("{{1}}"), "n": 0}])
    row = {"id": 2, "n": 7, "unknown": [BODY], "moved": True, "first": 1}

    changes(table, Rows([folded([row])], [folded([row])]), shape, segment()).merge()

    found = {each["id"]: each for each in lake_rows(table.query("SELECT * FROM target").read_all().to_pylist())}
    assert found[2] == {"id": 2, "body": "one", "tags": None, "n": 7}


def test_text_of_a_column_that_an_update_left_out_is_kept_with_its_value(lake: Path) -> None:
    """I6: the texts of a row are one map, which the update brings anew."""
    shape = TableShape(ITEMS)
    table = table_of(lake, shape, [{"id": 1, "body": "one", "tags": Text("{{1}}"), "n": 0}])
    row = {"id": 1, "n": 7, "unknown": [TAGS], "first": 1}

    changes(table, Rows([folded([row])], [folded([row])]), shape, segment()).merge()

    (found,) = lake_rows(table.query("SELECT * FROM target").read_all().to_pylist())
    assert found == {"id": 1, "body": None, "tags": Text("{{1}}"), "n": 7}


@pytest.mark.parametrize("empties", [False, True])
def test_moved_row_that_the_lake_does_not_hold_stops_the_job(lake: Path, empties: bool) -> None:
    """I7: nor is it taken from rows that a truncate removed."""
    shape = TableShape(ITEMS)
    table = table_of(lake, shape, [{"id": 1, "body": "one", "tags": None, "n": 0}] if empties else [])
    row = {"id": 2, "n": 7, "unknown": [BODY], "moved": True, "first": 1}

    with pytest.raises(OperatorError, match=r"1 updates of table public\.t leave out columns"):
        changes(table, Rows([folded([row])], [folded([row])]), shape, segment(empties=empties)).merge()


def test_update_of_unchanged_toast_keeps_the_stored_value(lake: Path) -> None:
    """I6."""
    head = copied(None, lake, ITEMS, {"id": 1, "body": "long", "n": 1})

    head = changed(None, lake, head, Event(ITEMS, "u", LSN, 0, after={"id": 1, "n": 2}, unchanged=["body"]))

    assert values(head_rows(lake, head)) == [{"id": 1, "body": "long", "tags": None, "n": 2}]


def test_rows_are_updated_and_deleted_by_a_key_that_is_a_text(lake: Path) -> None:
    """I5: a text may be left out of an update, but never of a key: it would be null, and no row be found."""
    named = relation([column("name", "text", is_key=True), column("body"), column("n", "int4")])
    rows = [{"name": name, "body": "long", "n": 0} for name in ("ada", "bob", "eve")]
    head = copied(None, lake, named, *rows)

    gone = Event(named, "d", LSN, 0, before={"name": "ada"}, before_image="key")
    update = Event(named, "u", LSN, 1, after={"name": "bob", "n": 1}, unchanged=["body"])
    head = changed(None, lake, head, gone, update)

    assert values(head_rows(lake, head)) == [rows[1] | {"n": 1}, rows[2]]


def test_unknown_value_of_a_row_that_is_missing_stops_the_job(lake: Path) -> None:
    """I7."""
    head = copied(None, lake, ITEMS, {"id": 1})

    with pytest.raises(OperatorError, match=r"1 updates of table public\.t leave out columns"):
        changed(None, lake, head, Event(ITEMS, "u", LSN, 0, after={"id": 2}, unchanged=["body"]))


@pytest.mark.parametrize("op", ["u", "d"])
def test_change_that_names_no_row_stops_the_job(lake: Path, op: str) -> None:
    """I7: appended, an update would be a second row."""
    head = copied(None, lake, INSERTS, {"n": 1})
    event = Event(INSERTS, op, LSN, 0, before={"n": 1}, after={"n": 2} if op == "u" else None)

    with pytest.raises(OperatorError, match="holds changes other than c and r"):
        changed(None, lake, head, event)


def test_change_among_copied_rows_stops_the_job(lake: Path) -> None:
    """I8: copied rows are appended as they are, and an update among them would be a second row."""
    log = Log()
    log.add(Event(ITEMS, "r", 0x1000, -1, after={"id": 1}))
    log.add(Event(ITEMS, "u", 0x1000, 0, after={"id": 1}))

    with pytest.raises(OperatorError, match=r"holds changes other than r .*inside the copy"):
        applied(None, lake, log, table_plan(ITEMS, None), [ITEMS])


@pytest.mark.parametrize("has_key", [True, False])
def test_values_go_to_their_columns_whatever_the_order_of_the_lakes(lake: Path, has_key: bool) -> None:
    """Merged or appended; both columns are texts, and none would tell that it has the other's."""
    key = column("id", "int4", is_key=has_key, attnum=1)
    one, other = (
        [key, column(a, attnum=n), column(b, attnum=m)] for a, n, b, m in (("a", 2, "b", 3), ("b", 3, "a", 2))
    )
    before, after = relation(one), relation(other, revision=1)
    head = copied(None, lake, before, {"id": 1, "a": "a1", "b": "b1"})

    insert = Event(after, "c", LSN, 0, after={"id": 2, "a": "a2", "b": "b2"})
    head = changed(None, lake, head, insert, known=[before])

    assert values(head_rows(lake, head)) == [{"id": n, "a": f"a{n}", "b": f"b{n}"} for n in (1, 2)]
