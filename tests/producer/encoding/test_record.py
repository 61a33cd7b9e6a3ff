"""Changes of rows to Kafka records: operations, images, keys, what is known and what is not."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.avro_reader import key, record_of
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.strategies import FIELDS, TUPLES
from tests.producer.written_record import (
    COMMIT_LSN,
    COMMIT_TIME_US,
    FULL,
    KEYED,
    KEYLESS,
    NULL,
    SOURCE,
    TEXT_KEYED,
    TS_MS,
    UNCHANGED,
    Written,
)
from walbridge.producer.encoding.kafka_record import KafkaRecord, event_count, truncate_options
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.pgoutput.messages import Delete, Field, Truncate, Update
from walbridge.producer.pgoutput.tuple_data import encode_tuple, fill
from walbridge.schemas.avro.codec import schema_id
from walbridge.schemas.avro.schema import key_schema
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.table_schema import TableSchema
from walbridge.schemas.version import VERSION


def test_insert_is_a_c_with_the_row_after_it_and_its_whole_source() -> None:
    written = Written(KEYED)

    record, event = written.inserted(b"1", b"one", NULL)

    assert event == {
        "before": None,
        "after": {"id": 1, "name": "one", "big": None},
        "source": {
            "version": VERSION, "connector": "walbridge", "name": "p", "db": "shop", "schema": "public",
            "table": "orders", "relation_id": 16_384, "snapshot": "false", "ts_ms": 1_700_000_000_123,
            "ts_us": COMMIT_TIME_US, "txId": 700, "lsn": COMMIT_LSN, "sequence": None, "origin": None,
            "commit_lsn": COMMIT_LSN, "ordinal": 3, "origin_lsn": None,
        },
        "op": "c",
        "ts_ms": 42,
        "transaction": None,
        "unchanged": None,
        "before_image": None,
        "exceptional": None,
        "before_exceptional": None,
    }  # fmt: skip
    assert key(written.record, record.key) == {"id": 1}
    assert record.headers is None


def test_origin_of_a_replayed_transaction_is_told() -> None:
    """Its name, and where its commit stands there."""
    _, event = Written(KEYED).inserted(b"1", NULL, NULL, source=TransactionSource.of(5, 6, None, "Ünit", 2**40))

    assert (event["source"]["origin"], event["source"]["origin_lsn"]) == ("Ünit", 2**40)
    assert (event["source"]["commit_lsn"], event["source"]["txId"]) == (5, None)


@pytest.mark.parametrize(
    ("last", "told"), [(5, '["5","18446744073709551615"]'), (None, '[null,"18446744073709551615"]')]
)
def test_sequence_is_a_text_of_two_lsns_and_changes_nothing_else(last: int | None, told: str) -> None:
    source = TransactionSource.of(5, 6, 7, "Ünit", 2**40)
    _, plain = Written(KEYED).inserted(b"1", NULL, NULL, source=source)
    _, event = Written(KEYED).inserted(b"1", NULL, NULL, source=source.with_sequence(last, 2**64 - 1))

    assert plain["source"]["sequence"] is None
    assert event == plain | {"source": plain["source"] | {"sequence": told}}


@pytest.mark.parametrize("lsn", [0, 2**32, 2**63 - 1])
def test_commit_lsn_of_any_size_is_kept(lsn: int) -> None:
    """I4"""
    _, event = Written(KEYED).inserted(b"1", NULL, NULL, source=TransactionSource.of(lsn, 0, 1, None))

    assert (lsn, lsn) == (event["source"]["commit_lsn"], event["source"]["lsn"])


def test_lsn_that_no_long_holds_is_refused() -> None:
    with pytest.raises(ProtocolError):
        TransactionSource.of(2**63, 0, 1, None)


def test_insert_without_an_unchanged_value_is_refused() -> None:
    """I6: a row filter turned an UPDATE into it; what was not sent is not null."""
    with pytest.raises(OperatorError, match="big"):
        Written(KEYED).inserted(b"1", b"one", UNCHANGED)


def test_copied_row_is_an_r_before_every_change() -> None:
    written = Written(KEYED)
    record = written.writer.copied(tuple_data(b"1", b"one", b""), SOURCE, written.writer.snapshot_source, TS_MS)
    (event,) = written.read([record])

    assert (event["op"], event["source"]["ordinal"], event["source"]["snapshot"]) == ("r", -1, "true")
    assert event["after"] == {"id": 1, "name": "one", "big": ""}
    assert record.key == written.inserted(b"1", NULL, NULL)[0].key


@pytest.mark.parametrize("copies", [False, True])
def test_truncate_is_a_t_without_rows_or_key(copies: bool) -> None:
    written = Written(KEYED)
    record = written.writer.truncate(SOURCE, 9, TS_MS, copies=copies)
    (event,) = written.read([record])

    assert (event["op"], event["before"], event["after"], event["source"]["ordinal"]) == ("t", None, None, 9)
    assert event["source"]["snapshot"] == str(copies).lower()
    assert (record.key, record.headers) == (None, [("walbridge.truncate", b"")])


@pytest.mark.parametrize(
    ("cascade", "restart_identity", "value"),
    [(True, False, b"cascade"), (False, True, b"restart_identity"), (True, True, b"cascade,restart_identity")],
)
def test_truncate_tells_its_options_in_its_header(cascade: bool, restart_identity: bool, value: bytes) -> None:
    change = Truncate(cascade, restart_identity, (1,))
    record = Written(KEYED).writer.truncate(SOURCE, 9, TS_MS, options=truncate_options(change))

    assert record.headers == [("walbridge.truncate", value)]


def test_update_is_a_u_with_the_row_after_it() -> None:
    records, (event,) = Written(KEYED).updated(b"1", b"two", b"b")

    assert (event["op"], event["before"], event["before_image"]) == ("u", None, None)
    assert event["after"] == {"id": 1, "name": "two", "big": "b"}
    assert records[0].headers is None


def test_update_names_the_columns_that_were_not_sent() -> None:
    """I6"""
    written = Written(KEYED)
    records, (event,) = written.updated(b"1", b"two", UNCHANGED)

    assert (event["unchanged"], event["after"]) == (["big"], {"id": 1, "name": "two", "big": None})
    assert key(written.record, records[0].key) == {"id": 1}


def test_key_change_is_a_d_of_the_old_key_then_a_c_of_the_new() -> None:
    """I3: each half is in its key's partition."""
    written = Written(KEYED)
    records, (gone, came) = written.updated(b"2", b"two", UNCHANGED, key=(b"1", NULL, NULL))

    assert (gone["op"], gone["source"]["ordinal"], gone["before_image"], gone["after"]) == ("d", 3, "key", None)
    assert (came["op"], came["source"]["ordinal"], came["before_image"]) == ("c", 4, "key")
    assert gone["before"] == came["before"] == {"id": 1, "name": None, "big": None}
    assert came["after"] == {"id": 2, "name": "two", "big": None}
    assert (gone["unchanged"], came["unchanged"]) == (None, ["big"])
    assert [key(written.record, record.key) for record in records] == [{"id": 1}, {"id": 2}]


def test_halves_of_a_key_change_name_each_other_in_a_header() -> None:
    (gone, came), _ = Written(KEYED).updated(b"2", NULL, NULL, key=(b"1", NULL, NULL))

    assert [("__debezium.newkey", came.key)] == gone.headers
    assert [("__debezium.oldkey", gone.key)] == came.headers


def test_update_with_an_equal_key_stored_out_of_line_is_a_u() -> None:
    """The key comes as an old tuple though it did not change, and is not sent in the new one."""
    written = Written(TEXT_KEYED)
    records, (event,) = written.updated(UNCHANGED, b"two", UNCHANGED, key=(b"long", NULL, NULL))

    assert (
        event["op"], event["before"], event["before_image"], event["unchanged"],
    ) == ("u", None, None, ["big"])  # fmt: skip
    assert event["after"] == {"code": "long", "name": "two", "big": None}
    assert key(written.record, records[0].key) == {"code": "long"}


def test_nulls_beside_the_old_key_never_become_values() -> None:
    """I6: other fields of a key tuple are null but unknown."""
    _, (event,) = Written(TEXT_KEYED).updated(UNCHANGED, UNCHANGED, b"b", key=(b"long", NULL, NULL))

    assert event["unchanged"] == ["name"]


def test_update_without_its_key_is_refused() -> None:
    with pytest.raises(OperatorError, match="key"):
        Written(TEXT_KEYED).updated(UNCHANGED, b"two", b"b")


def test_full_identity_fills_what_was_not_sent_from_the_old_row() -> None:
    """Under FULL nothing is unknown."""
    _, (event,) = Written(FULL).updated(b"1", b"two", UNCHANGED, old=(b"1", b"one", b"long"))

    assert (event["op"], event["before_image"], event["unchanged"]) == ("u", "full", None)
    assert event["before"] == {"id": 1, "name": "one", "big": "long"}
    assert event["after"] == {"id": 1, "name": "two", "big": "long"}


def test_key_change_under_full_identity_keeps_the_old_row() -> None:
    _, (gone, came) = Written(FULL).updated(b"2", UNCHANGED, NULL, old=(b"1", b"one", b"x"))

    assert (gone["before_image"], came["before_image"]) == ("full", "full")
    assert gone["before"] == came["before"] == {"id": 1, "name": "one", "big": "x"}
    assert came["after"] == {"id": 2, "name": "one", "big": None}
    assert came["unchanged"] is None


def test_update_of_a_table_without_key_carries_both_rows() -> None:
    records, (event,) = Written(KEYLESS).updated(b"b", UNCHANGED, old=(b"a", b"long"))

    assert (event["op"], event["before_image"]) == ("u", "full")
    assert (event["before"], event["after"]) == ({"line": "a", "big": "long"}, {"line": "b", "big": "long"})
    assert records[0].key is None


def test_update_under_full_identity_without_its_old_row_is_refused() -> None:
    """I6: a partition of another identity than its root; its row could not be found again."""
    for of in (FULL, KEYLESS):
        columns = len(of.columns)
        with pytest.raises(OperatorError, match="old row"):
            Written(of).updated(*[b"1"] * (columns - 1), UNCHANGED)


def test_old_tuple_with_a_value_that_was_not_sent_is_refused() -> None:
    """I6: a before image has no way to say unknown; Postgres sends old tuples whole."""
    for call in (
        lambda: Written(FULL).deleted(old=(b"1", UNCHANGED, NULL)),
        lambda: Written(FULL).updated(b"1", NULL, NULL, old=(b"1", UNCHANGED, NULL)),
        lambda: Written(TEXT_KEYED).deleted(key=(UNCHANGED, NULL, NULL)),
    ):
        with pytest.raises(ProtocolError):
            call()


def test_delete_by_key_knows_the_key_only() -> None:
    written = Written(KEYED)
    record, event = written.deleted(key=(b"1", NULL, NULL))

    assert (event["op"], event["before_image"], event["after"]) == ("d", "key", None)
    assert event["before"] == {"id": 1, "name": None, "big": None}
    assert key(written.record, record.key) == {"id": 1}


def test_delete_under_full_identity_has_the_old_row() -> None:
    _, event = Written(FULL).deleted(old=(b"1", b"one", NULL))

    assert (event["before_image"], event["before"]) == ("full", {"id": 1, "name": "one", "big": None})


def test_delete_without_a_tuple_is_refused() -> None:
    with pytest.raises(ProtocolError):
        Written(KEYED).writer.delete(Delete(16_384, None, b""), SOURCE, 0, TS_MS)


@given(TUPLES)
def test_tuple_written_anew_is_the_same(fields: list[Field]) -> None:
    assert tuple_data(*fields) == encode_tuple(fields)


@given(st.lists(st.tuples(FIELDS, FIELDS, st.booleans()), max_size=8))
def test_fill_changes_unchanged_fields_and_no_others(columns: list[tuple[Field, Field, bool]]) -> None:
    new, old = tuple_data(*(each[0] for each in columns)), tuple_data(*(each[1] for each in columns))

    def filled(wanted: bool) -> list[Field]:
        return [before if after is UNCHANGED and (flag or wanted) else after for after, before, flag in columns]

    assert tuple_data(*filled(True)) == fill(new, old, None)
    assert tuple_data(*filled(False)) == fill(new, old, tuple(flag for _, _, flag in columns))


def test_old_tuple_of_another_width_is_refused() -> None:
    with pytest.raises(ProtocolError):
        fill(tuple_data(UNCHANGED, b"x"), tuple_data(b"a"), None)


def test_tombstone_of_the_old_key_follows_a_delete_and_is_no_event() -> None:
    """I4: it takes no ordinal, so positions are those without tombstones."""
    plain, with_tombstones = Written(KEYED), RecordWriter(record_of(of=KEYED), "p", "shop", tombstones=True)
    delete = Delete(16_384, tuple_data(b"1", NULL, NULL), None)
    moved = Update(16_384, tuple_data(b"1", NULL, NULL), None, tuple_data(b"2", NULL, NULL))

    for make in (lambda by: by.delete(delete, SOURCE, 3, TS_MS), lambda by: by.update(moved, SOURCE, 3, TS_MS)):
        without, records = make(plain.writer), make(with_tombstones)
        tombstone = KafkaRecord(without[0].key, None)
        assert records == [without[0], tombstone, *without[1:]]
        assert event_count(records) == len(without)


@pytest.mark.parametrize("is_registered", [False, True])
@pytest.mark.parametrize("revision", [0, 1])
@pytest.mark.parametrize("of", [KEYED, TEXT_KEYED, FULL])
def test_every_record_of_a_compacted_topic_has_a_key_and_what_is_of_the_table_one_that_no_row_has(
    of: TableSchema, revision: int, is_registered: bool
) -> None:
    """Each kind has its own, so that compaction keeps the newest of it; all columns of it are null."""
    schema = key_schema("p", of, revision, is_registered=is_registered)
    record = replace(record_of(of=of), key_schema_id=schema_id(schema), key_schema=json.dumps(schema))
    plain, writer = RecordWriter(record, "p", "shop"), RecordWriter(record, "p", "shop", is_compacted=True)

    def of_the_table(by: RecordWriter) -> list[KafkaRecord]:
        markers = (by.marker(each, SOURCE, TS_MS) for each in ("first_in_data_collection", "last_in_data_collection"))
        return [by.truncate(SOURCE, 3, TS_MS), by.truncate(SOURCE, -1, TS_MS, copies=True), *markers]

    truncate, of_copy, *markers = of_the_table(writer)
    keys = [truncate.key, *(each.key for each in markers)]
    assert of_copy.key == truncate.key
    assert len({*keys}) == 3
    nulls = dict.fromkeys(column.name for column in of.key_columns)
    assert [key(record, each) | nulls for each in keys] == [key(record, each) for each in keys]
    assert [each.value for each in of_the_table(plain)] == [each.value for each in of_the_table(writer)]
    assert [each.key for each in of_the_table(plain)] == [None] * 4


def test_deletes_in_a_compacted_topic_have_tombstones_whatever_the_setting() -> None:
    writer = RecordWriter(record_of(of=KEYED), "p", "shop", is_compacted=True)
    gone, tombstone = writer.delete(Delete(16_384, tuple_data(b"1", NULL, NULL), None), SOURCE, 3, TS_MS)

    assert tombstone == KafkaRecord(gone.key, None)


def test_table_without_a_key_has_no_tombstones() -> None:
    writer = RecordWriter(record_of(of=KEYLESS), "p", "shop", tombstones=True)
    delete = Delete(16_384, None, tuple_data(b"1", NULL))

    assert len(writer.delete(delete, SOURCE, 3, TS_MS)) == 1
