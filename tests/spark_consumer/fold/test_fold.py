"""Events to one row a key. One fold for all scenarios: every key is one."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.fix_spark import SharedJvm
from tests.in_soak import in_variants
from tests.spark_consumer.events import Log, column, relation
from walbridge.spark_consumer.fold.fold import fold_by_key, rows_of_single_events
from walbridge.spark_consumer.fold.schema_join import events, place_name
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.plan.plan import Segment

LSN = 0x1100
ITEMS = relation(
    [
        column("id", "int4", is_key=True),
        column("body"),
        column("tags", "_int4"),
        column("day", "date"),
        column("n", "int4"),
    ]
)
DAYS = 19_000


def update(key: int, ordinal: int, row: Mapping[str, Any], unchanged: Any = (), texts: Any = None) -> Event:
    return Event(ITEMS, "u", LSN, ordinal, after={"id": key, **row}, unchanged=unchanged, exceptional=texts)


def insert(key: int, ordinal: int, row: Mapping[str, Any], unchanged: Any = (), texts: Any = None) -> Event:
    return Event(ITEMS, "c", LSN, ordinal, after={"id": key, **row}, unchanged=unchanged, exceptional=texts)


def delete(key: int, ordinal: int) -> Event:
    return Event(ITEMS, "d", LSN, ordinal, before={"id": key}, before_image="key")


SCENARIOS = [
    # 1: the last event knows less than the one before
    update(1, 10, {"body": "new", "n": 1}),
    update(1, 11, {"n": 2}, unchanged=["body", "tags"]),
    # 2: nothing was ever known of body
    update(2, 20, {"n": 1}, unchanged=["body"]),
    update(2, 21, {"n": 2}, unchanged=["body"]),
    # 3: known to be null
    update(3, 30, {"body": None}),
    update(3, 31, {}, unchanged=["body"]),
    # 4: a text replaces a value, and stays when the column is left out
    update(4, 40, {"tags": [1]}),
    update(4, 41, {}, texts={"tags": "{{1}}"}),
    update(4, 42, {}, unchanged=["tags"]),
    # 5: a value replaces a text
    update(5, 50, {}, texts={"tags": "{{1}}", "day": "infinity"}),
    update(5, 51, {"tags": [2], "day": DAYS}),
    # 6: deleted, and made anew
    update(6, 60, {"body": "old"}),
    delete(6, 61),
    insert(6, 62, {"n": 7}),
    # 7: made and deleted
    insert(7, 70, {"body": "short-lived"}),
    delete(7, 71),
    # 8: in the log out of order, and twice
    update(8, 82, {"n": 3}, unchanged=["body"]),
    update(8, 80, {"n": 1, "body": "x"}),
    update(8, 82, {"n": 3}, unchanged=["body"]),
    # 9: the new half of a key change
    insert(9, 90, {"n": 1}, unchanged=["body"]),
]


@pytest.fixture(scope="module")
def folded(shared_jvm: SharedJvm) -> dict[int, dict[str, Any]]:
    return folded_scenarios(shared_jvm.session)


def folded_scenarios(spark: SparkSession) -> dict[int, dict[str, Any]]:
    """The folded row of each key, columns by their names."""
    log = Log()
    for event in SCENARIOS:
        log.add(event)
    shape = TableShape(ITEMS)
    frame = fold_by_key(events(log.frame(spark), ITEMS, Segment(0, ITEMS.schema_id, None, None)), shape)
    rows = {}
    for row in frame.toArrow().to_pylist():
        named = {each.name: row.pop(place_name(place)) for place, each in enumerate(shape.columns)}
        unknown = [shape.columns[place].name for place in row.pop("unknown")]
        rows[named["id"]] = named | row["change"] | {"unknown": unknown, "moved": row["moved"]}
    return rows


def test_last_known_value_outlives_an_event_that_left_it_out(folded: Any) -> None:
    """I6"""
    assert (folded[1]["body"], folded[1]["n"], folded[1]["unknown"]) == ("new", 2, [])


def test_column_that_no_event_knew_is_unknown(folded: Any) -> None:
    assert folded[2]["unknown"] == ["body"]


def test_known_null_is_known(folded: Any) -> None:
    assert (folded[3]["body"], folded[3]["unknown"]) == (None, [])


def test_text_replaces_a_value_and_stays(folded: Any) -> None:
    assert (folded[4]["tags"], folded[4]["exceptional"]) == (None, [("tags", "{{1}}")])


def test_value_replaces_a_text(folded: Any) -> None:
    assert (folded[5]["tags"], folded[5]["exceptional"]) == ([2], None)


def test_row_made_anew_has_nothing_of_the_deleted_one(folded: Any) -> None:
    assert (folded[6]["op"], folded[6]["body"], folded[6]["n"]) == ("c", None, 7)


def test_deleted_row_is_a_delete_and_knows_all(folded: Any) -> None:
    assert (folded[7]["op"], folded[7]["unknown"]) == ("d", [])


def test_position_orders_events_wherever_they_stand_in_the_log(folded: Any) -> None:
    assert (folded[8]["ordinal"], folded[8]["n"], folded[8]["body"]) == (82, 3, "x")


def test_key_change_that_leaves_columns_out_is_flagged(folded: Any) -> None:
    assert [key for key, row in folded.items() if row["moved"]] == [9]


@pytest.mark.parametrize("has_large", [in_variants(False), True])
def test_events_without_another_of_their_key_become_what_a_fold_makes_of_them(
    spark: SparkSession, has_large: bool
) -> None:
    """I6: whichever kind of event it is."""
    by_key: dict[int, list[Event]] = defaultdict(list)
    for event in SCENARIOS:
        by_key[(event.after or event.before or {})["id"]].append(event)
    for alone in zip_longest(*by_key.values()):
        log = Log()
        for event in filter(None, alone):
            log.add(event)
        of = events(log.frame(spark), ITEMS, Segment(0, ITEMS.schema_id, None, None))

        folded, single = (
            sorted(made(of, TableShape(ITEMS), has_large=has_large).toArrow().to_pylist(), key=repr)
            for made in (fold_by_key, rows_of_single_events)
        )

        assert single == folded
