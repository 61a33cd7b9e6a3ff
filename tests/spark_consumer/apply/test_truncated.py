"""A segment behind a truncate to one commit, by delta-rs alone: nothing from before it is left."""

from pathlib import Path
from typing import Any

import pytest

from tests.contract_writer import Event
from tests.spark_consumer.apply.segment_changes import ITEMS, LSN
from tests.spark_consumer.events import Log, applied, copied, head_rows, table_plan, values
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.plan.plan import Segment


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
