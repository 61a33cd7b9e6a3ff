"""A segment's rows to one commit, by delta-rs alone: rows are given as the fold would give them."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, applied, changed, column, copied, head_rows, relation, table_plan, values
from tests.spark_consumer.world import MULTISET, MULTISET_VALUES, Row, Text, canonical, lake_rows, plain, texts
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.apply.changes import Changes
from walbridge.spark_consumer.delta.table import Commit, LakeField, LakeTable, arrow_schema
from walbridge.spark_consumer.fold.fold import root_name
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import STRUCT, TableShape
from walbridge.spark_consumer.plan.plan import Segment

LSN = 0x1100
COMMIT = Commit("p")
ITEMS = relation([column("id", "int4", is_key=True), column("body"), column("tags", "_int4"), column("n", "int4")])
BAG = relation([column("n", "int4")], name="bag", identity="f")
INSERTS = relation([column("n", "int4")], name="log")


def segment(*, empties: bool = False, copies: bool = False) -> Segment:
    return Segment(0, "", None, None, empties, copies)


@dataclass(frozen=True)
class Rows:
    """What ``SegmentRows`` says, without records: slices of rows, ready made."""

    by_key: Sequence[pa.Table] = ()
    by_chain: Sequence[pa.Table] = ()
    net: Sequence[pa.Table] = field(default=())

    def folded_by_key(self, _schema: pa.Schema) -> Iterator[pa.Table]:
        return iter(self.by_key)

    def folded_by_chain(self, _schema: pa.Schema) -> Iterator[pa.Table]:
        return iter(self.by_chain)

    def row_deltas(self, _schema: pa.Schema) -> Iterator[pa.Table]:
        return iter(self.net)


def changes(table: LakeTable, rows: Rows, shape: TableShape, part: Segment) -> Changes:
    return Changes(table, rows, shape, part, COMMIT)  # type: ignore[arg-type]


def row_schema(shape: TableShape) -> pa.Schema:
    fields = [LakeField(place_name(place), of.column_type.lake, {}) for place, of in enumerate(shape.columns)]
    return arrow_schema([*fields, LakeField("change", STRUCT.type, {})])


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


def table_of(lake: Path, shape: TableShape, rows: Sequence[Row]) -> LakeTable:
    table = LakeTable.create(f"{lake}/t", shape.fields, COMMIT, {})
    found = [
        dict(zip(shape.lake_names, plain(row).values(), strict=True))
        | {"_walbridge": {"commit_lsn": n, "ordinal": 0, "op": "c", "exceptional": texts(row)}}
        for n, row in enumerate(rows)
    ]
    table.append(pa.Table.from_pylist(found, arrow_schema(shape.fields)).to_reader(), COMMIT)
    return table


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

    changes(table, Rows(net=slices), shape, segment()).net()

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
        changes(table, rows, shape, segment()).net()
    assert table.version == 1


def test_rows_that_are_gained_are_there_as_often_and_what_was_before_a_truncate_is_not(lake: Path) -> None:
    shape = TableShape(BAG)
    table = table_of(lake, shape, [{"n": 1}])
    gained = Rows(net=[netted(shape, [({"n": 2}, 3)])])

    changes(table, gained, shape, segment()).net()
    assert sorted(table.query("SELECT n FROM target").read_all().column(0).to_pylist()) == [1, 2, 2, 2]
    changes(table, gained, shape, segment(empties=True)).net()
    assert table.query("SELECT n FROM target").read_all().column(0).to_pylist() == [2, 2, 2]


def test_rows_that_go_from_an_emptied_table_stop_the_job(lake: Path) -> None:
    """I7."""
    shape = TableShape(BAG)
    table = table_of(lake, shape, [{"n": 1}])

    with pytest.raises(OperatorError, match="loses 1 different rows"):
        changes(table, Rows(net=[netted(shape, [({"n": 1}, -1)])]), shape, segment(empties=True)).net()


def folded(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of ITEMS as a fold gives them; ``root``: the key that the row's chain began with."""
    shape = TableShape(ITEMS)
    schema = row_schema(shape)
    more = {
        "unknown": pa.list_(pa.int32()),
        "moved": pa.bool_(),
        root_name(0): pa.int32(),
        "root_key_text": pa.string(),
    }
    found = [
        {place_name(place): row.get(of.name) for place, of in enumerate(shape.columns)}
        | {"change": {"commit_lsn": LSN, "ordinal": 0, "op": row.get("op", "u"), "exceptional": row.get("texts")}}
        | {"unknown": row.get("unknown", []), "moved": row.get("moved", False), root_name(0): row.get("root")}
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
    gone = {"id": 1, "op": "d", "root": 1}
    by_key = [{"id": 2, "n": 7, "unknown": [BODY, TAGS], "moved": True, "root": 2}, gone]
    by_chain = [{"id": 2, "n": 7, "unknown": [BODY, TAGS], "root": 1}, gone]

    changes(table, Rows([folded(by_key)], [folded(by_chain)]), shape, segment()).merge()

    found = lake_rows(table.query("SELECT * FROM target").read_all().to_pylist())
    assert list(found) == [{"id": 2, "body": "one", "tags": Text("{{1}}"), "n": 7}]


def test_texts_of_known_columns_are_not_taken_from_the_row_it_was(lake: Path) -> None:
    """I6: a known null is null."""
    shape = TableShape(ITEMS)
    table = table_of(lake, shape, [{"id": 1, "body": "one", "tags": Text("{{1}}"), "n": 0}])
    row = {"id": 2, "n": 7, "unknown": [BODY], "moved": True, "root": 1}

    changes(table, Rows([folded([row])], [folded([row])]), shape, segment()).merge()

    found = {each["id"]: each for each in lake_rows(table.query("SELECT * FROM target").read_all().to_pylist())}
    assert found[2] == {"id": 2, "body": "one", "tags": None, "n": 7}


def test_text_of_a_column_that_an_update_left_out_is_kept_with_its_value(lake: Path) -> None:
    """I6: the texts of a row are one map, which the update brings anew."""
    shape = TableShape(ITEMS)
    table = table_of(lake, shape, [{"id": 1, "body": "one", "tags": Text("{{1}}"), "n": 0}])
    row = {"id": 1, "n": 7, "unknown": [TAGS], "root": 1}

    changes(table, Rows([folded([row])], [folded([row])]), shape, segment()).merge()

    (found,) = lake_rows(table.query("SELECT * FROM target").read_all().to_pylist())
    assert found == {"id": 1, "body": None, "tags": Text("{{1}}"), "n": 7}


@pytest.mark.parametrize("empties", [False, True])
def test_moved_row_that_the_lake_does_not_hold_stops_the_job(lake: Path, empties: bool) -> None:
    """I7: nor is it taken from rows that a truncate removed."""
    shape = TableShape(ITEMS)
    table = table_of(lake, shape, [{"id": 1, "body": "one", "tags": None, "n": 0}] if empties else [])
    row = {"id": 2, "n": 7, "unknown": [BODY], "moved": True, "root": 1}

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


def truncated(lake: Path, *events: Event) -> list[dict[str, Any]]:
    """Rows after a truncate and these events, of a table that held one."""
    head = copied(None, lake, ITEMS, {"id": 1, "body": "old"})
    log = Log()
    log.add(Event(ITEMS, "t", LSN, 0))
    for event in events:
        log.add(event)
    part = table_plan(ITEMS, head, [Segment(0, ITEMS.schema_id, Position(Lsn(LSN), 0), None, empties=True)])
    return values(head_rows(lake, applied(None, lake, log, part, [ITEMS], to_cut=2)))


def test_a_truncate_leaves_nothing_and_deletes_after_it_leave_no_trace(lake: Path) -> None:
    new = Event(ITEMS, "c", LSN, 1, after={"id": 2})
    gone = [
        Event(ITEMS, "c", LSN, 2, after={"id": 3}),
        Event(ITEMS, "d", LSN, 3, before={"id": 3}, before_image="key"),
    ]

    assert truncated(lake / "alone") == []
    assert [row["id"] for row in truncated(lake / "more", new, *gone)] == [2]


def test_a_truncate_without_records_empties_the_table(lake: Path) -> None:
    """Its segment is in the plan, and so it needs no record of its own."""
    head = copied(None, lake, ITEMS, {"id": 1})
    part = table_plan(ITEMS, head, [Segment(0, ITEMS.schema_id, Position(Lsn(LSN), 0), None, empties=True)])

    assert head_rows(lake, applied(None, lake, Log(), part, [ITEMS], to_cut=2)) == []


def test_unknown_value_of_a_row_that_a_truncate_removed_stops_the_job(lake: Path) -> None:
    """I6, I7: an older value is not its value."""
    with pytest.raises(OperatorError, match="leave out columns"):
        truncated(lake, Event(ITEMS, "u", LSN, 1, after={"id": 1}, unchanged=["body"]))


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

    with pytest.raises(OperatorError, match="holds changes other than r"):
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
