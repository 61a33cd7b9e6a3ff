"""Values that have no place in their Avro type: whose text it is, and whether a key changed."""

from tests.producer.written_record import NULL, Written
from tests.schemas.strategies import column, table
from walbridge.schemas.table_schema import TableSchema

DAYS = table(column("day", 1082, is_key=True), column("until", 1082))


def test_exceptional_texts_of_both_images_stand_apart() -> None:
    _, (gone, came) = Written(DAYS).updated(b"10000-01-01", b"infinity", key=(b"-infinity", NULL))

    assert (gone["exceptional"], gone["before_exceptional"]) == (None, {"day": "-infinity"})
    assert came["exceptional"] == {"day": "10000-01-01", "until": "infinity"}
    assert came["before_exceptional"] == {"day": "-infinity"}


def test_exceptional_texts_of_an_insert_are_told() -> None:
    _, event = Written(DAYS).inserted(b"2000-01-01", b"0044-03-15 BC")

    assert (event["exceptional"], event["before_exceptional"]) == ({"until": "0044-03-15 BC"}, None)


def test_exceptional_key_that_stays_is_no_key_change() -> None:
    of = TableSchema(16_384, "public", "orders", "f", DAYS.columns)
    _, (event,) = Written(of).updated(b"infinity", NULL, old=(b"infinity", b"2000-01-01"))

    assert (
        event["op"], event["exceptional"], event["before_exceptional"],
    ) == ("u", {"day": "infinity"}, {"day": "infinity"})  # fmt: skip


def test_exceptional_key_that_changes_is_a_key_change() -> None:
    _, events = Written(DAYS).updated(b"-infinity", NULL, key=(b"infinity", NULL))

    assert [event["op"] for event in events] == ["d", "c"]
