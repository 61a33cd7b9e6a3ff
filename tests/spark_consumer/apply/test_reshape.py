"""Tables that get another shape between two changes."""

import contextlib
import datetime
import decimal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.events import Log, applied, column, copied, head_rows, relation, table_plan, values
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.table_schema import Column
from walbridge.spark_consumer.apply import appliers
from walbridge.spark_consumer.apply.appliers import BY_SPARK, Appliers
from walbridge.spark_consumer.apply.reshape import reshape
from walbridge.spark_consumer.delta.columns import arrow_schema
from walbridge.spark_consumer.delta.commit import SHAPE, Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.plan.plan import Segment, TableHead

LSN = 0x1100
ID = column("id", "int4", is_key=True, attnum=1)


def reshaped(
    spark: SparkSession, lake: Path, old: Sequence[Column], new: Sequence[Column], row: dict[str, Any], *later: Event
) -> tuple[RelationRecord, TableHead, TableHead]:
    """A table with one row of the old shape, then an insert in the new one."""
    before, after = relation(old), relation(new, revision=1)
    base = copied(spark, lake, before, row)
    log = Log()
    key = {name: value for name, value in {"id": 2, "on": None}.items() if name in [c.name for c in new]}
    log.add(Event(after, "c", LSN, 0, after=key))
    position = Position(Lsn(LSN), 0)
    segments = [Segment(0, before.schema_id, None, position), Segment(1, after.schema_id, position, None)]
    part = table_plan(after, base, segments)
    head = applied(spark, lake, log, part, [before, after], to_cut=2)
    assert applied(spark, lake, log, part, [before, after], to_cut=2) == head
    return after, base, head


def test_added_column_is_null_in_old_rows(spark: SparkSession, lake: Path) -> None:
    _, _, head = reshaped(spark, lake, [ID], [ID, column("a", "timestamptz")], {"id": 1})

    assert values(head_rows(lake, head)) == [{"id": 1, "a": None}, {"id": 2, "a": None}]


def filled(name: str, type_name: str, text: str, *, is_key: bool = False, typmod: int = -1, attnum: int = 2) -> Column:
    """A column that came with a value for older rows."""
    made = column(name, type_name, is_key=is_key, typmod=typmod, attnum=attnum)
    return replace(made, missing_value=text)


def test_added_column_has_its_value_in_older_rows_alone(spark: SparkSession, lake: Path) -> None:
    """I8, I5: applied again, the row that has null since then keeps it."""
    _, _, head = reshaped(spark, lake, [ID], [ID, filled("a b", "int4", "7")], {"id": 1})

    assert values(head_rows(lake, head)) == [{"id": 1, "a_u0020b": 7}, {"id": 2, "a_u0020b": None}]


def test_crash_behind_a_filled_column_fills_nothing_twice(spark: SparkSession, lake: Path, crash_at: Any) -> None:
    """I5: the column and its values are one commit."""
    new = filled("a", "int4", "7")
    crash_at["apply:table-reshaped"] = 2
    with pytest.raises(Crash):
        reshaped(spark, lake, [ID], [ID, new], {"id": 1})
    before, after = relation([ID]), relation([ID, new], revision=1)
    log = Log()
    log.add(Event(after, "c", LSN, 0, after={"id": 2, "a": 8}))
    position = Position(Lsn(LSN), 0)
    segments = [Segment(0, before.schema_id, None, position), Segment(1, after.schema_id, position, None)]
    base = TableHead(16400, before.topic, "public/t", 1, before.schema_id, "current")

    head = applied(spark, lake, log, table_plan(after, base, segments), [before, after], to_cut=2)

    assert values(head_rows(lake, head)) == [{"id": 1, "a": 7}, {"id": 2, "a": 8}]


OLDER: tuple[tuple[str, str, int, Any], ...] = (
    ("bool", "t", -1, True),
    ("int8", "-9007199254740993", -1, -9007199254740993),
    ("float4", "0.1", -1, pa.scalar(0.1, pa.float32()).as_py()),
    ("float8", "0.1", -1, 0.1),
    ("numeric", "-1.50", (10 << 16 | 2) + 4, decimal.Decimal("-1.50")),
    ("numeric", "NaN", -1, "NaN"),
    ("text", "", -1, ""),
    ("bytea", "\\x00ff", -1, b"\0\xff"),
    ("date", "2024-02-29", -1, datetime.date(2024, 2, 29)),
    ("timestamp", "2024-02-29 01:02:03.5", -1, datetime.datetime(2024, 2, 29, 1, 2, 3, 500_000)),
    ("timestamptz", "1969-12-31 23:59:59+00", -1, datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)),
    ("_int4", "{1,NULL}", -1, [1, None]),
    ("hstore", '"a"=>"1", "b"=>NULL', -1, [("a", "1"), ("b", None)]),
    ("vector", "[0.5,-1]", -1, [0.5, -1.0]),
    ("box", "(1,1),(0,0)", -1, "(1,1),(0,0)"),
)


@pytest.mark.parametrize(("type_name", "text", "typmod", "expected"), OLDER)
def test_value_of_older_rows_is_that_of_its_text(
    tmp_path: Path, type_name: str, text: str, typmod: int, expected: Any
) -> None:
    before = TableShape(relation([ID]))
    after = TableShape(relation([ID, filled("a", type_name, text, typmod=typmod)], revision=1))
    table = table_of(tmp_path, before, [{"id": 1}, {"id": 2}])

    reshape(table, after, before, Commit("p", step=SHAPE))

    kept = table.query("SELECT * FROM target").read_all()
    assert kept.column("a").to_pylist() == [expected] * 2
    assert [w["exceptional"] for w in kept.column("_walbridge").to_pylist()] == [None] * 2
    at_rest = table.version
    reshape(table, after, before, Commit("p", step=SHAPE))
    assert table.version == at_rest


def test_value_of_older_rows_that_the_column_cannot_hold_is_kept_as_text(tmp_path: Path) -> None:
    """Beside the texts that the rows have, and in the order in which a change brings them."""
    held = column("on", "date", attnum=2)
    before = TableShape(relation([ID, held]))
    after = TableShape(relation([ID, held, filled("a", "date", "-infinity", attnum=3)], revision=1))
    texts = [{"on": "infinity"}, None]
    rows = [{"id": n, "_walbridge": {"op": "c", "exceptional": text}} for n, text in enumerate(texts)]
    table = table_of(tmp_path, before, rows)

    reshape(table, after, before, Commit("p", step=SHAPE))

    kept = table.query('SELECT a, "_walbridge" AS w FROM target ORDER BY id').read_all().to_pylist()
    assert [(row["a"], row["w"]["exceptional"]) for row in kept] == [
        (None, [("a", "-infinity"), ("on", "infinity")]),
        (None, [("a", "-infinity")]),
    ]


@pytest.mark.variant(of="test_column_dropped_renamed_and_widened_keeps_old_values")
def test_executors_reshape_a_table_as_the_driver_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of every kind that come with a value, go, get other names and wider types; and texts of them all."""
    monkeypatch.setattr(appliers, "REWRITTEN_BYTES_MIN", 0)
    came = [filled(f"n{at}", name, text, typmod=of, attnum=10 + at) for at, (name, text, of, _) in enumerate(OLDER)]
    at = column("at", "timestamp", attnum=6)
    dates = [column("on", "date", attnum=2), column("gone", "date", attnum=3)]
    before = TableShape(relation([ID, *dates, column("f", "float4", attnum=4), at]))
    since, null = column("since", "date", attnum=2), column("null", "int4", attnum=5)
    kept = [ID, at, since, column("F`f", "float8", attnum=4), null, *came]
    after = TableShape(relation([*kept, filled("on", "date", "infinity", attnum=40)], revision=1))
    texts = [{"on": "infinity", "gone": "-infinity"}, {"gone": "infinity"}, {"on": "-infinity"}, None]
    rows = [{"id": n, "f": 0.5, "_walbridge": {"op": "c", "exceptional": of}} for n, of in enumerate(texts)]
    found = []
    for name, by in (("driver", Appliers()), ("executors", Appliers(BY_SPARK, spark))):
        table = table_of(tmp_path / name, before, rows)
        was = table.version
        reshape(table, after, before, Commit("p", step=SHAPE), by)
        *_, made = table.commits(table.version - was)
        assert (made.step, made.overwrites) == (SHAPE, True)
        assert is_by_spark(table) is (name == "executors")
        assert table.fields == after.fields
        reshape(table, after, before, Commit("p", step=SHAPE), by)
        assert table.version == made.version
        found.append(table.query("SELECT * FROM target ORDER BY id").read_all().to_pylist())
    driver, executors = found
    assert driver == executors
    assert [row["_walbridge"]["exceptional"] for row in driver] == [
        [("on", "infinity"), ("since", "infinity")],
        [("on", "infinity")],
        [("on", "infinity"), ("since", "-infinity")],
        [("on", "infinity")],
    ]


def test_first_timestamp_without_a_zone_comes_to_a_table_that_executors_rewrite(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta wants a feature for it, which Spark does not add."""
    monkeypatch.setattr(appliers, "REWRITTEN_BYTES_MIN", 0)
    before = TableShape(relation([ID]))
    after = TableShape(relation([ID, filled("a", "_timestamp", '{"2024-02-29 01:02:03"}')], revision=1))
    table = table_of(tmp_path, before, [{"id": 1}])

    reshape(table, after, before, Commit("p", step=SHAPE), Appliers(BY_SPARK, spark))

    kept = table.query("SELECT a FROM target").read_all().column("a").to_pylist()
    assert kept == [[datetime.datetime(2024, 2, 29, 1, 2, 3)]]


@pytest.fixture(params=[False, True])
def by(request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Appliers:
    """delta-rs alone, and executors, which take tables of any size."""
    monkeypatch.setattr(appliers, "REWRITTEN_BYTES_MIN", 0)
    return Appliers(BY_SPARK, spark) if request.param else Appliers()


LIMITED = [
    column("n", "numeric", typmod=(12 << 16 | 4) + 4, attnum=2),
    column("small", "numeric", typmod=(5 << 16 | 5) + 4, attnum=3),
]
FREE = [column("m`n", "numeric", attnum=2), column("small", "numeric", attnum=3)]
NUMBERS: list[dict[str, Any]] = [
    {"n": decimal.Decimal("1.5"), "small": decimal.Decimal("0.00001")},
    {"n": decimal.Decimal(0), "small": decimal.Decimal("-0.1")},
    {
        "n": decimal.Decimal("-99999999.9999"),
        "_walbridge": {"op": "c", "exceptional": {"small": "NaN", "on": "infinity"}},
    },
    {"_walbridge": {"op": "c", "exceptional": {"n": "-Infinity"}}},
    {},
]
TEXTS = [("1.5000", "0.00001"), ("0.0000", "-0.10000"), ("-99999999.9999", "NaN"), ("-Infinity", None), (None, None)]


def test_numeric_that_loses_its_limit_is_the_text_that_postgres_prints(tmp_path: Path, by: Appliers) -> None:
    """I8: with the zeros of its scale, as rows that are written later have it; NaN is a value like any then."""
    on = column("on", "date", attnum=4)
    before, after = (TableShape(relation([ID, *of, on], revision=at)) for at, of in enumerate((LIMITED, FREE)))
    table = table_of(tmp_path, before, [{"id": n} | of for n, of in enumerate(NUMBERS)])

    reshape(table, after, before, Commit("p", step=SHAPE), by)

    assert is_by_spark(table) is (by.spark is not None)
    kept = table.query("SELECT * FROM target ORDER BY id").read_all().to_pylist()
    assert [(row["m`n"], row["small"]) for row in kept] == TEXTS
    assert [row["_walbridge"]["exceptional"] for row in kept] == [None, None, [("on", "infinity")], None, None]
    at_rest = table.version
    reshape(table, after, before, Commit("p", step=SHAPE), by)
    assert table.version == at_rest


def test_integers_of_arrays_become_wider_and_labels_texts(tmp_path: Path, by: Appliers) -> None:
    """I8: an array of several dimensions is a text beside its column, which Postgres prints as before."""
    shapes = [("_int4", "mood", "_mood", "_int2"), ("_int8", "text", "_varchar", "_int4")]
    before, after = (
        TableShape(relation([ID, *(column(f"c{at}", of, attnum=2 + at) for at, of in enumerate(types))], revision=n))
        for n, types in enumerate(shapes)
    )
    row = {"c0": [1, None], "c1": "ok", "c2": ["ok", None, "a, b"], "c3": []}
    beside = {"op": "c", "exceptional": {"c0": "{{1},{-2}}", "c2": "{{ok}}"}}
    table = table_of(tmp_path, before, [{"id": 1} | row, {"id": 2, "c3": [-3], "_walbridge": beside}])

    reshape(table, after, before, Commit("p", step=SHAPE), by)

    assert is_by_spark(table) is (by.spark is not None)
    assert table.fields == after.fields
    kept = table.query("SELECT * FROM target ORDER BY id").read_all().to_pylist()
    assert [{name: each[name] for name in row} for each in kept] == [row, dict.fromkeys(row) | {"c3": [-3]}]
    assert [each["_walbridge"]["exceptional"] for each in kept] == [None, [("c0", "{{1},{-2}}"), ("c2", "{{ok}}")]]


def test_labels_that_become_texts_must_be_copied_where_nobody_knows_that_they_are_labels(tmp_path: Path) -> None:
    before, after = (
        TableShape(relation([ID, column("c", of, attnum=2)], revision=n)) for n, of in enumerate(("mood", "text"))
    )
    table = table_of(tmp_path, before, [{"id": 1, "c": "ok"}])

    with pytest.raises(OperatorError, match=r"column c of table public\.t was mood and is text now"):
        reshape(table, after, None, Commit("p", step=SHAPE))


def test_small_numeric_of_which_spark_may_make_an_exponent_is_left_to_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appliers, "REWRITTEN_BYTES_MIN", 0)
    fine, free = column("n", "numeric", typmod=(12 << 16 | 9) + 4, attnum=2), column("n", "numeric", attnum=2)
    before, after = (TableShape(relation([ID, of], revision=at)) for at, of in enumerate((fine, free)))
    table = table_of(tmp_path, before, [{"id": 1, "n": decimal.Decimal("1E-9")}])

    reshape(table, after, before, Commit("p", step=SHAPE), Appliers(BY_SPARK, spark))

    assert table.query("SELECT n FROM target").read_all().column(0).to_pylist() == ["0.000000001"]


def test_key_that_becomes_a_text_may_hold_no_exceptional_values(tmp_path: Path) -> None:
    """I5: the key text of its old rows would find no change of them."""
    keys = [column("n", "numeric", typmod=typmod, is_key=True, attnum=1) for typmod in ((12 << 16 | 4) + 4, -1)]
    before, after = (TableShape(relation([of], revision=at)) for at, of in enumerate(keys))
    for text in (None, "NaN"):
        struct = {"op": "c", "exceptional": {"n": text}, "key_text": f'{{"n":"{text}"}}'} if text else {"op": "c"}
        table = table_of(tmp_path / str(text), before, [{"n": None if text else 1, "_walbridge": struct}])
        with pytest.raises(OperatorError, match="the key of table") if text else contextlib.nullcontext():
            reshape(table, after, before, Commit("p", step=SHAPE))


@pytest.mark.parametrize(("old", "new"), [("timestamp", "timestamptz"), ("timestamptz", "timestamp")])
def test_moments_get_and_lose_a_zone_as_under_utc(tmp_path: Path, old: str, new: str) -> None:
    """Postgres rewrites nothing then; under any other zone it does, which the producer sees."""
    before, after = (
        TableShape(relation([ID, column("at", of, attnum=2)], revision=n)) for n, of in enumerate((old, new))
    )
    moments = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999), None]
    zones = [datetime.UTC if of == "timestamptz" else None for of in (old, new)]
    was, now = ([each and each.replace(tzinfo=zone) for each in moments] for zone in zones)
    rows: list[dict[str, Any]] = [{"id": n, "at": each} for n, each in enumerate(was)]
    rows[2]["_walbridge"] = {"op": "c", "exceptional": {"at": "-infinity"}}
    table = table_of(tmp_path, before, rows)

    reshape(table, after, before, Commit("p", step=SHAPE))

    kept = table.query('SELECT "at", "_walbridge" AS w FROM target ORDER BY id').read_all().to_pylist()
    assert [row["at"] for row in kept] == now
    assert [row["w"]["exceptional"] for row in kept] == [None, None, [("at", "-infinity")]]


def test_moment_beyond_the_year_9999_keeps_its_column_from_getting_a_zone(tmp_path: Path) -> None:
    """I8: its text has a zone then, too."""
    before, after = (
        TableShape(relation([ID, column("at", of, attnum=2)], revision=n))
        for n, of in enumerate(("timestamp", "timestamptz"))
    )
    row = {"id": 1, "_walbridge": {"op": "c", "exceptional": {"at": "10000-01-01 00:00:00"}}}
    table = table_of(tmp_path, before, [row])

    with pytest.raises(OperatorError, match=r"columns at of table public\.t got or lost their time zone"):
        reshape(table, after, before, Commit("p", step=SHAPE))


def test_columns_of_nested_types_stay_as_they_are_in_a_rewrite(tmp_path: Path) -> None:
    stay = [column("tags", "_text", attnum=2), column("map", "hstore", attnum=3), column("v", "vector", attnum=4)]
    before, after = (
        TableShape(relation([ID, *stay, column(name, "int4", attnum=5)], revision=n)) for n, name in enumerate("ab")
    )
    row = {"id": 1, "tags": ["a", None], "map": [("k", None)], "v": [0.5], "a": 7}
    table = table_of(tmp_path, before, [row])

    reshape(table, after, before, Commit("p", step=SHAPE))

    (kept,) = table.query("SELECT * FROM target").read_all().to_pylist()
    assert {name: kept[name] for name in ("id", "tags", "map", "v", "b")} == {
        "b" if name == "a" else name: value for name, value in row.items()
    }


def test_value_of_older_rows_in_a_new_key_that_it_cannot_hold_must_be_copied(tmp_path: Path) -> None:
    """I5: a change of such a row would be a second one."""
    before = TableShape(relation([ID]))
    after = TableShape(relation([ID, filled("on", "date", "infinity", is_key=True)], revision=1))
    table = table_of(tmp_path, before, [{"id": 1}])

    with pytest.raises(OperatorError, match="the key of table"):
        reshape(table, after, before, Commit("p", step=SHAPE))


def is_by_spark(table: LakeTable) -> bool:
    """Whether the newest commit is Spark's."""
    (newest,) = DeltaTable(table.uri).history(1)
    return "Spark" in newest["engineInfo"]


def table_of(folder: Path, shape: TableShape, rows: Sequence[dict[str, Any]]) -> LakeTable:
    table = LakeTable.create(f"{folder}/t", shape.fields, Commit("p"), {})
    found = [{"_walbridge": {"op": "c"}} | row for row in rows]
    table.append(pa.Table.from_pylist(found, arrow_schema(table.fields)).to_reader(), Commit("p"))
    return table


def test_column_dropped_renamed_and_widened_keeps_old_values(spark: SparkSession, lake: Path) -> None:
    old = [
        ID,
        column("gone", attnum=2),
        column("a", "int4", attnum=3),
        column("f", "float4", attnum=4),
        column("d", "date", attnum=5),
        column("m", "numeric", typmod=(5 << 16 | 1) + 4, attnum=6),
    ]
    new = [
        ID,
        column("A b", "int8", attnum=3),
        column("f", "float8", attnum=4),
        column("d", "date", attnum=5),
        column("m", "numeric", typmod=(9 << 16 | 3) + 4, attnum=6),
        column("gone", attnum=7),
    ]
    day = datetime.date(2024, 2, 29)

    _, _, head = reshaped(spark, lake, old, new, {"id": 1, "gone": "x", "a": 7, "f": 0.5, "d": day})

    expected = {"id": 1, "A_u0020b": 7, "f": 0.5, "d": day, "m": None, "gone": None}
    assert values(head_rows(lake, head))[0] == expected
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    assert table.fields[1].metadata["pg.type"] == "int8"


def test_crash_after_a_shape_step_repeats_nothing(spark: SparkSession, lake: Path, crash_at: Any) -> None:
    """I5: the table does not go back to the shape of a segment that had no rows."""
    narrow, wide = column("a", "int4", attnum=2), column("a", "int8", attnum=2)
    crash_at["apply:table-reshaped"] = 2
    with pytest.raises(Crash):
        reshaped(spark, lake, [ID, narrow], [ID, wide], {"id": 1, "a": 1})
    before, after = relation([ID, narrow]), relation([ID, wide], revision=1)
    log = Log()
    log.add(Event(after, "c", LSN, 0, after={"id": 2, "a": 2**40}))
    position = Position(Lsn(LSN), 0)
    segments = [Segment(0, before.schema_id, None, position), Segment(1, after.schema_id, position, None)]
    base = TableHead(16400, before.topic, "public/t", 1, before.schema_id, "current")

    head = applied(spark, lake, log, table_plan(after, base, segments), [before, after], to_cut=2)

    assert values(head_rows(lake, head)) == [{"id": 1, "a": 1}, {"id": 2, "a": 2**40}]


def test_change_of_type_stops_with_the_copy_as_remedy(spark: SparkSession, lake: Path) -> None:
    with pytest.raises(OperatorError, match="walbridge copy TABLE"):
        reshaped(spark, lake, [ID, column("a", "int4")], [ID, column("a", "text")], {"id": 1})


def test_key_of_plain_values_may_change(spark: SparkSession, lake: Path) -> None:
    wider = column("a", "int4", is_key=True, attnum=2)

    _, _, head = reshaped(spark, lake, [ID, column("a", "int4", attnum=2)], [ID, wider], {"id": 1, "a": 3})

    assert [row["id"] for row in values(head_rows(lake, head))] == [1, 2]


def test_key_that_holds_exceptional_values_must_be_copied(spark: SparkSession, lake: Path) -> None:
    plain, key = column("on", "date", attnum=2), column("on", "date", is_key=True, attnum=2)
    before, after = relation([ID, plain]), relation([ID, key], revision=1)
    log = Log()
    log.add(Event(before, "r", 0x1000, -1, after={"id": 1}, exceptional={"on": "infinity"}))
    base = applied(spark, lake, log, table_plan(before, None), [before])
    part = table_plan(after, base, [Segment(0, after.schema_id, None, None)])

    with pytest.raises(OperatorError, match=r"the key of table public\.t changed"):
        applied(spark, lake, Log(), part, [before, after], to_cut=2)


def test_column_that_becomes_a_domain_and_none_again_keeps_its_values_without_a_rewrite(tmp_path: Path) -> None:
    """Its values are those of the type under it; the base that is noted goes when the domain does."""
    plain, domain, other = (
        TableShape(relation([ID, column("a", name, attnum=2)])) for name in ("int4", "whole", "text")
    )
    plan = Commit(plan="p", step=SHAPE)
    table = LakeTable.create(str(tmp_path / "t"), plain.fields, plan, {})

    noted = []
    for shape in (domain, domain, plain, plain):
        reshape(table, shape, None, plan)
        noted.append((table.version, table.fields[1].metadata.get("pg.type"), table.fields[1].metadata.get("pg.base")))
    assert noted == [(1, "whole", "int4"), (1, "whole", "int4"), (2, "int4", ""), (2, "int4", "")]
    with pytest.raises(OperatorError):
        reshape(table, other, None, plan)


def test_texts_of_columns_follow_a_rename_and_end_with_their_column(tmp_path: Path) -> None:
    """I8: else a renamed infinity is null, and a new column of a dropped one's name is not null but infinity."""
    before = TableShape(relation([ID, column("on", "date", attnum=2), column("gone", "date", attnum=3)]))
    after = TableShape(relation([ID, column("since", "date", attnum=2), column("gone", "date", attnum=4)], revision=1))
    rows = [({"on": "infinity", "gone": "-infinity"}, 1), ({"gone": "infinity"}, 2), (None, 3)]
    table = LakeTable.create(f"{tmp_path}/t", before.fields, Commit("p"), {})
    schema = arrow_schema(table.fields)
    found = [{"id": n, "_walbridge": {"ordinal": n, "op": "c", "exceptional": texts}} for texts, n in rows]
    table.append(pa.Table.from_pylist(found, schema).to_reader(), Commit("p"))

    reshape(table, after, before, Commit("p", step=SHAPE))

    kept = table.query('SELECT "_walbridge" AS w FROM target ORDER BY id').read_all().column(0).to_pylist()
    assert [(w["exceptional"], w["ordinal"]) for w in kept] == [([("since", "infinity")], 1), (None, 2), (None, 3)]


KEYLESS = [column("id", "int4", attnum=1), column("on", "date", attnum=2)]
KEYED = [column("id", "int4", attnum=1), column("on", "date", is_key=True, attnum=2)]
KEYS: Mapping[str, tuple[Sequence[Column], Sequence[Column], dict[str, Any]]] = {
    "gained": (KEYLESS, KEYED, {"exceptional": {"on": "infinity"}}),
    "changed": ([ID, column("on", "date", attnum=2)], KEYED, {"exceptional": {"on": "infinity"}}),
    "lost": (KEYED, KEYLESS, {"exceptional": {"on": "infinity"}, "key_text": '{"on":"infinity"}'}),
    "left": (KEYED, [ID, column("on", "date", attnum=2)], {"key_text": '{"on":"infinity"}'}),
}


@pytest.mark.parametrize("how", KEYS)
def test_key_that_was_written_otherwise_stops_the_job(tmp_path: Path, how: str) -> None:
    """I5: a change of such a row would be a second one; whether the table had a key before or not."""
    old, new, struct = KEYS[how]
    before, after = TableShape(relation(old)), TableShape(relation(new, revision=1))
    table = LakeTable.create(f"{tmp_path}/t", before.fields, Commit("p"), {})
    reshape(table, after, before, Commit("p", step=SHAPE))
    row = {"id": 1, "_walbridge": {"op": "c", **struct}}
    table.append(pa.Table.from_pylist([row], arrow_schema(table.fields)).to_reader(), Commit("p"))

    with pytest.raises(OperatorError, match=r"the key of table public\.t changed"):
        reshape(table, after, before, Commit("p", step=SHAPE))


@pytest.mark.parametrize("how", KEYS)
def test_key_of_rows_that_hold_plain_values_may_come_and_go(tmp_path: Path, how: str) -> None:
    old, new, _ = KEYS[how]
    before, after = TableShape(relation(old)), TableShape(relation(new, revision=1))
    table = LakeTable.create(f"{tmp_path}/t", before.fields, Commit("p"), {})
    row = {"id": 1, "on": datetime.date(2024, 2, 29), "_walbridge": {"op": "c"}}
    table.append(pa.Table.from_pylist([row], arrow_schema(table.fields)).to_reader(), Commit("p"))

    reshape(table, after, before, Commit("p", step=SHAPE))


def test_column_that_is_renamed_into_a_key_may_hold_no_exceptional_values(tmp_path: Path) -> None:
    """I5: its old rows would not be found by their key."""
    before = TableShape(relation([ID, column("on", "date", attnum=2)]))
    key = [column("id", "int4", attnum=1), column("since", "date", is_key=True, attnum=2)]
    after = TableShape(relation(key, revision=1))
    table = LakeTable.create(f"{tmp_path}/t", before.fields, Commit("p"), {})
    row = {"id": 1, "_walbridge": {"op": "c", "exceptional": {"on": "infinity"}}}
    table.append(pa.Table.from_pylist([row], arrow_schema(table.fields)).to_reader(), Commit("p"))

    with pytest.raises(OperatorError, match="the key of table"):
        reshape(table, after, before, Commit("p", step=SHAPE))
