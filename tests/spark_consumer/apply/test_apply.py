"""Plans on tables, case by case: what is known, what is missing, and who else wrote there."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, applied, changed, column, copied, head_rows, relation, table_plan, values
from tests.spark_consumer.world import (
    MULTISET,
    Text,
    lake_rows,
)
from walbridge.schemas.errors import COPY_AGAIN, OperatorError
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.kafka import change_reader

pytestmark = pytest.mark.usefixtures("engine")
LSN = 0x1100
ITEMS = relation([column("id", "int4", is_key=True), column("body"), column("tags", "_int4"), column("n", "int4")])


def test_update_of_unchanged_toast_keeps_the_stored_value(spark: SparkSession, lake: Path) -> None:
    head = copied(spark, lake, ITEMS, {"id": 1, "body": "long", "n": 1})

    head = changed(spark, lake, head, Event(ITEMS, "u", LSN, 0, after={"id": 1, "n": 2}, unchanged=["body"]))

    assert values(head_rows(lake, head)) == [{"id": 1, "body": "long", "tags": None, "n": 2}]


def test_text_of_an_unchanged_array_stays_with_it(spark: SparkSession, lake: Path) -> None:
    head = copied(spark, lake, ITEMS)
    insert = Event(ITEMS, "c", LSN, 0, after={"id": 1}, exceptional={"tags": "{{1}}"})
    head = changed(spark, lake, head, insert)

    update = Event(ITEMS, "u", LSN + 8, 0, after={"id": 1, "n": 2}, unchanged=["tags"])
    head = changed(spark, lake, head, update, to_cut=3)

    assert list(lake_rows(head_rows(lake, head))) == [{"id": 1, "body": None, "tags": Text("{{1}}"), "n": 2}]


def test_unknown_value_of_a_row_that_is_missing_stops(spark: SparkSession, lake: Path) -> None:
    """I7: an insert would have null where Postgres has a value."""
    head = copied(spark, lake, ITEMS, {"id": 1})

    with pytest.raises(OperatorError, match=r"1 updates of table public\.t leave out columns"):
        changed(spark, lake, head, Event(ITEMS, "u", LSN, 0, after={"id": 2}, unchanged=["body"]))


def test_moved_row_that_is_missing_stops(spark: SparkSession, lake: Path) -> None:
    head = copied(spark, lake, ITEMS)
    gone = Event(ITEMS, "d", LSN, 0, before={"id": 1}, before_image="key")
    moved = Event(ITEMS, "c", LSN, 1, before={"id": 1}, before_image="key", after={"id": 2}, unchanged=["body"])

    with pytest.raises(OperatorError, match="rows that the lake does not hold"):
        changed(spark, lake, head, gone, moved)


def test_older_position_never_overwrites_a_newer_one(spark: SparkSession, lake: Path) -> None:
    """I5: also where another plan brings it; it is noticed where nothing but the source's changes can have come."""
    head = copied(spark, lake, ITEMS)
    head = changed(spark, lake, head, Event(ITEMS, "c", LSN + 8, 0, after={"id": 1, "n": 2}))

    old = Event(ITEMS, "u", LSN, 0, after={"id": 1, "n": 1})
    removed = Event(ITEMS, "d", LSN, 1, before={"id": 1}, before_image="key")
    with pytest.raises(OperatorError, match="did not hold what the source changed"):
        changed(spark, lake, head, old, removed, to_cut=3)

    head = changed(spark, lake, head, old, removed, to_cut=4, tells_all=False)
    assert [row["n"] for row in head_rows(lake, head)] == [2]


def test_commits_of_another_program_are_undone(spark: SparkSession, lake: Path) -> None:
    head = copied(spark, lake, ITEMS, {"id": 1, "n": 1})
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    table.append(table.query("SELECT * FROM target"), Commit(plan=None))

    head = changed(spark, lake, head, Event(ITEMS, "c", LSN, 0, after={"id": 2, "n": 2}))

    assert [row["id"] for row in values(head_rows(lake, head))] == [1, 2]


def test_commit_of_another_program_after_a_segment_is_undone(spark: SparkSession, lake: Path) -> None:
    base = copied(spark, lake, ITEMS, {"id": 1, "n": 1})
    insert = Event(ITEMS, "c", LSN, 0, after={"id": 2, "n": 2})
    head = changed(spark, lake, base, insert)
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    table.append(table.query("SELECT * FROM target"), Commit(plan=None))

    head = changed(spark, lake, base, insert)

    assert [row["id"] for row in values(head_rows(lake, head))] == [1, 2]


def test_base_that_already_holds_the_plan_is_refused_not_applied_twice(spark: SparkSession, lake: Path) -> None:
    """I5: ``_cuts`` may be older than the tables, or the work of newer code."""
    bag = relation([column("n", "int4")], name="log")
    head = changed(spark, lake, copied(spark, lake, bag), Event(bag, "c", LSN, 0, after={"n": 1}))

    with pytest.raises(OperatorError, match=r"cut 2 would be applied twice") as refusal:
        changed(spark, lake, head, Event(bag, "c", LSN, 0, after={"n": 1}))

    assert refusal.value.remedy == COPY_AGAIN
    assert [row["n"] for row in head_rows(lake, head)] == [1]


def test_transaction_that_was_undone_by_a_restore_is_applied_again(spark: SparkSession, lake: Path) -> None:
    """I5: the log keeps the number of a commit whose rows are gone."""
    bag = relation([column("n", "int4")], name="log")
    base = copied(spark, lake, bag)
    insert = Event(bag, "c", LSN, 0, after={"n": 1})
    head = changed(spark, lake, base, insert)
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    table.append(table.query("SELECT * FROM target"), Commit(plan=None))

    assert [row["n"] for row in head_rows(lake, changed(spark, lake, base, insert))] == [1]


def test_table_that_was_removed_stops_the_plan(spark: SparkSession, lake: Path) -> None:
    head = copied(spark, lake, ITEMS)
    (lake / head.path).rename(lake / "elsewhere")

    with pytest.raises(OperatorError, match="is gone"):
        changed(spark, lake, head, Event(ITEMS, "c", LSN, 0, after={"id": 1}))


def test_schema_that_nobody_announced_stops_the_plan(spark: SparkSession, lake: Path) -> None:
    head = copied(spark, lake, ITEMS)
    log = Log()
    log.add_bytes(ITEMS.topic, b"\xc3\x01" + bytes(8) + b"\x02")

    with pytest.raises(OperatorError, match="needs schema 0000000000000000"):
        applied(spark, lake, log, table_plan(ITEMS, head), [ITEMS], to_cut=2)


def test_record_of_another_program_stops_the_plan(spark: SparkSession, lake: Path) -> None:
    head = copied(spark, lake, ITEMS)
    log = Log()
    log.add_bytes(ITEMS.topic, b"{}")

    with pytest.raises(OperatorError, match="1 records that walbridge did not write"):
        applied(spark, lake, log, table_plan(ITEMS, head), [ITEMS], to_cut=2)


def test_malformed_record_is_named_by_its_offset(spark: SparkSession, lake: Path) -> None:
    head = copied(spark, lake, ITEMS)
    log = Log()
    log.add(Event(ITEMS, "c", LSN, 0, after={"id": 1, "body": "secret"}))
    log.add_bytes(ITEMS.topic, bytes(log.rows[0]["value"])[:-20])  # type: ignore[call-overload]

    with pytest.raises(OperatorError, match="partition 0 offsets 1 to 1") as stopped:
        applied(spark, lake, log, table_plan(ITEMS, head), [ITEMS], to_cut=2)
    assert "secret" not in str(stopped.value)


NAMES = ["Id", "id", 'a."b"', "c`d", "e f", "ünï", "_walbridge", "op", "x_u0041", "'; --", "c1", "change", "_u00630"]
ODD = relation([column(name, "int4", is_key=place < 2) for place, name in enumerate(NAMES)], name='O."x"')


def test_names_of_any_kind_are_columns(spark: SparkSession, lake: Path) -> None:
    rows = [{name: 10 * row + place for place, name in enumerate(NAMES)} for row in range(3)]
    head = copied(spark, lake, ODD, *rows)

    rows[0]["e f"] = 99
    head = changed(
        spark,
        lake,
        head,
        Event(ODD, "u", LSN, 0, after=rows[0]),
        Event(ODD, "d", LSN, 1, before={"Id": 10, "id": 11}, before_image="key"),
    )

    found = [[value for name, value in row.items() if name != "_walbridge"] for row in head_rows(lake, head)]
    assert sorted(found) == sorted(list(row.values()) for row in (rows[0], rows[2]))


def test_table_without_columns_counts_its_rows(spark: SparkSession, lake: Path) -> None:
    empty = relation([], name="empty", identity="f")
    head = copied(spark, lake, empty, {}, {}, {})

    head = changed(spark, lake, head, Event(empty, "d", LSN, 0, before={}, before_image="full"))

    assert len(head_rows(lake, head)) == 2


def test_row_that_goes_more_often_than_it_is_there_stops(spark: SparkSession, lake: Path) -> None:
    head = copied(spark, lake, MULTISET, {"x": 1.0})
    gone = [Event(MULTISET, "d", LSN, place, before={"x": 1.0}, before_image="full") for place in range(2)]

    with pytest.raises(OperatorError, match="does not hold often enough"):
        changed(spark, lake, head, *gone)


def test_change_that_names_no_row_stops(spark: SparkSession, lake: Path) -> None:
    keyless = relation([column("n", "int4")], name="log")
    head = copied(spark, lake, keyless, {"n": 1})

    with pytest.raises(OperatorError, match="identity tells no rows apart"):
        changed(spark, lake, head, Event(keyless, "u", LSN, 0, after={"n": 2}))


@pytest.mark.usefixtures("engine")
def test_a_large_value_of_a_keyless_row_is_the_same_in_a_small_record_and_in_a_large_one(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9: an insert holds the row once, its update twice, and only the update is set aside as large."""
    monkeypatch.setattr(change_reader, "LARGE_BYTES", 5_000)
    bag = relation([column("v"), column("n", "int4")], identity="f")
    head = copied(spark, lake, bag, {"v": "y", "n": 1})
    row = {"v": "x" * 3_000, "n": 0}

    insert = Event(bag, "c", 0x2000, 0, after=row)
    update = Event(bag, "u", 0x3000, 0, before=row, after=row | {"n": 1}, before_image="full")
    head = changed(spark, lake, head, insert, update)

    assert values(head_rows(lake, head)) == values([{"v": "y", "n": 1}, row | {"n": 1}])
