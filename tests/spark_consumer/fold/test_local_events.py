"""Records to events on the driver: which are the segment's, and what each one says."""

import datetime
from decimal import Decimal

import pytest

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, column, relation
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.fold.local_events import Event as Decoded
from walbridge.spark_consumer.fold.local_events import decoded_events
from walbridge.spark_consumer.plan.plan import Segment

ITEMS = relation(
    [
        column("id", "int4", is_key=True),
        column("on", "date"),
        column("price", "numeric", typmod=(10 << 16 | 2) + 4),
        column("more", "hstore"),
    ]
)
OTHER = relation([column("id", "int8", is_key=True)], revision=1)


def events(*logged: Event, start: Position | None = None, end: Position | None = None) -> list[Decoded]:
    log = Log()
    for event in logged:
        log.add(event)
    fetched = log.on_driver(ITEMS.topic).fetched
    assert fetched is not None
    return decoded_events(fetched, ITEMS, Segment(0, ITEMS.schema_id, start, end))


def update(lsn: int, ordinal: int) -> Event:
    return Event(ITEMS, "u", lsn, ordinal, after={"id": 1})


def test_segment_begins_at_its_start_and_ends_before_its_end() -> None:
    """I5: else the event at a barrier is applied twice, or never."""
    logged = [update(lsn, ordinal) for lsn in (7, 8, 9) for ordinal in (0, 1, 2)]

    found = events(*logged, start=Position(Lsn(7), 1), end=Position(Lsn(9), 1))

    assert [event.position for event in found] == [(7, 1), (7, 2), (8, 0), (8, 1), (8, 2), (9, 0)]


def test_events_are_in_position_order_wherever_they_stand_in_the_log() -> None:
    """I5: partitions are read in any order."""
    found = events(*[update(lsn, ordinal) for lsn, ordinal in [(8, 1), (7, 2), (8, 0), (7, 10)]])

    assert [event.position for event in found] == [(7, 2), (7, 10), (8, 0), (8, 1)]


def test_truncates_and_records_of_other_schemas_are_no_events_of_the_segment() -> None:
    other = Event(OTHER, "c", 7, 1, after={"id": 1})

    assert [event.op for event in events(Event(ITEMS, "t", 7, 0), other, update(7, 2))] == ["u"]


def test_event_is_of_the_row_after_it_and_has_its_texts() -> None:
    event = Event(
        ITEMS, "u", 7, 0,
        before={"id": 1, "price": Decimal("1.00")}, after={"id": 1}, unchanged=["more"],
        exceptional={"on": "infinity"}, before_exceptional={"price": "NaN"},
    )  # fmt: skip
    (found,) = events(event)

    assert (found.row, found.texts, found.unchanged) == ([1, None, None, None], {"on": "infinity"}, ["more"])


def test_delete_is_of_the_row_before_it_and_has_its_texts() -> None:
    (found,) = events(Event(ITEMS, "d", 7, 0, before={"id": 1}, before_exceptional={"on": "infinity"}))

    assert (found.row, found.texts) == ([1, None, None, None], {"on": "infinity"})


def test_values_are_as_arrow_takes_them() -> None:
    row = {"id": 1, "on": datetime.date(1970, 1, 8), "price": Decimal("1.50"), "more": {"a": None}}

    assert events(Event(ITEMS, "c", 7, 0, after=row))[0].row == [1, 7, Decimal("1.50"), [("a", None)]]


def test_record_that_is_not_of_the_schema_it_names_is_told_by_its_place() -> None:
    """I7, I10: never by its bytes."""
    log = Log()
    log.add(update(7, 0))
    log.add_bytes(ITEMS.topic, b"\xc3\x01" + bytes.fromhex(ITEMS.schema_id) + b"\xff")
    fetched = log.on_driver(ITEMS.topic).fetched
    assert fetched is not None

    with pytest.raises(OperatorError, match="partition 0 offsets 1 to 1"):
        decoded_events(fetched, ITEMS, Segment(0, ITEMS.schema_id, None, None))
