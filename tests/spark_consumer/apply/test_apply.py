"""Plans on tables, case by case: what is known, what is missing, and who else wrote there.

The driver folds here, without Spark. What may be another thing where Spark decodes and folds is asked of it in
``test_apply_by_spark.py``.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.contract_writer import Event
from tests.in_soak import in_variants
from tests.spark_consumer.events import Log, applied, changed, column, copied, head_rows, relation, table_plan, values
from walbridge.schemas.errors import COPY_TABLE, OperatorError
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.table import LakeTable

FORMATS = pytest.mark.parametrize("is_json", [False, in_variants(True)], ids=["avro", "json"])
LSN = 0x1100
ITEMS = relation([column("id", "int4", is_key=True), column("body"), column("tags", "_int4"), column("n", "int4")])


@pytest.fixture
def spark() -> None:
    """Small plans need none."""


def test_update_of_unchanged_toast_keeps_the_stored_value(spark: SparkSession | None, lake: Path) -> None:
    head = copied(spark, lake, ITEMS, {"id": 1, "body": "long", "n": 1})

    head = changed(spark, lake, head, Event(ITEMS, "u", LSN, 0, after={"id": 1, "n": 2}, unchanged=["body"]))

    assert values(head_rows(lake, head)) == [{"id": 1, "body": "long", "tags": None, "n": 2}]


def test_unknown_value_of_a_row_that_is_missing_stops(spark: SparkSession | None, lake: Path) -> None:
    """I7: an insert would have null where Postgres has a value."""
    head = copied(spark, lake, ITEMS, {"id": 1})

    with pytest.raises(OperatorError, match=r"1 updates of table public\.t leave out columns"):
        changed(spark, lake, head, Event(ITEMS, "u", LSN, 0, after={"id": 2}, unchanged=["body"]))


def test_older_position_never_overwrites_a_newer_one(spark: SparkSession | None, lake: Path) -> None:
    """I5: also where another plan brings it; it is noticed where nothing but the source's changes can have come."""
    head = copied(spark, lake, ITEMS)
    head = changed(spark, lake, head, Event(ITEMS, "c", LSN + 8, 0, after={"id": 1, "n": 2}))

    old = Event(ITEMS, "u", LSN, 0, after={"id": 1, "n": 1})
    removed = Event(ITEMS, "d", LSN, 1, before={"id": 1}, before_image="key")
    with pytest.raises(OperatorError, match="did not hold what the source changed"):
        changed(spark, lake, head, old, removed, to_cut=3)

    head = changed(spark, lake, head, old, removed, to_cut=4, source_sends_all=False)
    assert [row["n"] for row in head_rows(lake, head)] == [2]


def test_commits_of_another_program_are_undone(spark: SparkSession | None, lake: Path) -> None:
    head = copied(spark, lake, ITEMS, {"id": 1, "n": 1})
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    table.append(table.query("SELECT * FROM target"), Commit(plan=None))

    head = changed(spark, lake, head, Event(ITEMS, "c", LSN, 0, after={"id": 2, "n": 2}))

    assert [row["id"] for row in values(head_rows(lake, head))] == [1, 2]


def test_commit_of_another_program_after_a_segment_is_undone(spark: SparkSession | None, lake: Path) -> None:
    base = copied(spark, lake, ITEMS, {"id": 1, "n": 1})
    insert = Event(ITEMS, "c", LSN, 0, after={"id": 2, "n": 2})
    head = changed(spark, lake, base, insert)
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    table.append(table.query("SELECT * FROM target"), Commit(plan=None))

    with capture_logs() as told:
        again = changed(spark, lake, base, insert)

    assert [row["id"] for row in values(head_rows(lake, again))] == [1, 2]
    assert [(line["table"], line["versions"]) for line in told if "another program wrote" in line["event"]] == [
        (ITEMS.table.qualified_name, [head.version + 1])
    ]


def test_base_that_already_holds_the_plan_is_refused_not_applied_twice(spark: SparkSession | None, lake: Path) -> None:
    """I5: ``_cuts`` may be older than the tables, or the work of newer code."""
    bag = relation([column("n", "int4")], name="log")
    head = changed(spark, lake, copied(spark, lake, bag), Event(bag, "c", LSN, 0, after={"n": 1}))

    with pytest.raises(OperatorError, match=r"cut 2 would be applied twice") as refusal:
        changed(spark, lake, head, Event(bag, "c", LSN, 0, after={"n": 1}))

    assert refusal.value.remedy == COPY_TABLE
    assert [row["n"] for row in head_rows(lake, head)] == [1]


def test_transaction_that_was_undone_by_a_restore_is_applied_again(spark: SparkSession | None, lake: Path) -> None:
    """I5: the log keeps the number of a commit whose rows are gone."""
    bag = relation([column("n", "int4")], name="log")
    base = copied(spark, lake, bag)
    insert = Event(bag, "c", LSN, 0, after={"n": 1})
    head = changed(spark, lake, base, insert)
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    table.append(table.query("SELECT * FROM target"), Commit(plan=None))

    assert [row["n"] for row in head_rows(lake, changed(spark, lake, base, insert))] == [1]


def test_table_that_was_removed_stops_the_plan(spark: SparkSession | None, lake: Path) -> None:
    head = copied(spark, lake, ITEMS)
    (lake / head.path).rename(lake / "elsewhere")

    with pytest.raises(OperatorError, match="is gone"):
        changed(spark, lake, head, Event(ITEMS, "c", LSN, 0, after={"id": 1}))


def test_schema_that_nobody_announced_stops_the_plan(spark: SparkSession | None, lake: Path) -> None:
    head = copied(spark, lake, ITEMS)
    log = Log()
    log.add_bytes(ITEMS.topic, b"\xc3\x01" + bytes(8) + b"\x02")

    with pytest.raises(OperatorError, match="needs schema 0000000000000000"):
        applied(spark, lake, log, table_plan(ITEMS, head), [ITEMS], to_cut=2)


def test_record_of_another_program_stops_the_plan(spark: SparkSession | None, lake: Path) -> None:
    head = copied(spark, lake, ITEMS)
    log = Log()
    log.add_bytes(ITEMS.topic, b"{}")

    with pytest.raises(OperatorError, match="1 records that walbridge did not write"):
        applied(spark, lake, log, table_plan(ITEMS, head), [ITEMS], to_cut=2)


@FORMATS
def test_malformed_record_is_named_by_its_offset(spark: SparkSession | None, lake: Path, *, is_json: bool) -> None:
    items = replace(ITEMS, is_json=is_json)
    head = copied(spark, lake, items)
    log = Log()
    log.add(Event(items, "c", LSN, 0, after={"id": 1, "body": "secret"}))
    log.add_bytes(items.topic, bytes(log.rows[0]["value"])[:-20])  # type: ignore[call-overload]

    with pytest.raises(OperatorError, match="partition 0 offsets 1 to 1") as stopped:
        applied(spark, lake, log, table_plan(items, head), [items], to_cut=2)
    assert "secret" not in str(stopped.value)


NAMES = ["Id", "id", 'a."b"', "c`d", "e f", "ünï", "_walbridge", "op", "x_u0041", "'; --", "c1", "change", "_u00630"]
ODD = relation([column(name, "int4", is_key=place < 2) for place, name in enumerate(NAMES)], name='O."x"')


@FORMATS
def test_names_of_any_kind_are_columns(spark: SparkSession | None, lake: Path, *, is_json: bool) -> None:
    odd = replace(ODD, is_json=is_json)
    rows = [{name: 10 * row + place for place, name in enumerate(NAMES)} for row in range(3)]
    head = copied(spark, lake, odd, *rows)

    rows[0]["e f"] = 99
    head = changed(
        spark,
        lake,
        head,
        Event(odd, "u", LSN, 0, after=rows[0]),
        Event(odd, "d", LSN, 1, before={"Id": 10, "id": 11}, before_image="key"),
    )

    found = [[value for name, value in row.items() if name != "_walbridge"] for row in head_rows(lake, head)]
    assert sorted(found) == sorted(list(row.values()) for row in (rows[0], rows[2]))


def test_change_that_names_no_row_stops(spark: SparkSession | None, lake: Path) -> None:
    keyless = relation([column("n", "int4")], name="log")
    head = copied(spark, lake, keyless, {"n": 1})

    with pytest.raises(OperatorError, match="identity tells no rows apart"):
        changed(spark, lake, head, Event(keyless, "u", LSN, 0, after={"n": 2}))
