"""Records of topics whose format is JSON: those of Avro, one for one, whichever way a row takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.avro_reader import record_of
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.strategies import fields_of
from tests.producer.written_record import BIG, DAY, ID, KEYED, KEYLESS, NAME, NULL, SOURCE, TS_MS
from tests.schemas.strategies import column, table, tables
from walbridge.producer.encoding import record as record_module
from walbridge.producer.encoding.copied_rows import RowEncoder, RowFormat
from walbridge.producer.encoding.json_record import JsonRecordWriter
from walbridge.producer.encoding.kafka_record import NEW_KEY, OLD_KEY, KafkaRecord
from walbridge.producer.encoding.record import RecordWriter, plain_tails, with_transaction_block
from walbridge.producer.errors.rows import row_too_large
from walbridge.producer.pgoutput.messages import Delete, Insert, LogicalMessage, Unsent, Update
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.session.logical_messages import MessageWriter
from walbridge.schemas.avro.codec import long_bytes
from walbridge.schemas.control.message_schema import message_relation
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.json_format.codec import avro_key, avro_value
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import TableSchema

ROW, OTHER = tuple_data(b"1", b"a name", b"big"), tuple_data(b"2", b"a name", Unsent.UNCHANGED_TOAST)
KEY = tuple_data(b"1", NULL, NULL)


class Both:
    """The two writers of one table, whose records are to be alike."""

    def __init__(self, of: TableSchema, *, tombstones: bool = False, is_compacted: bool = False) -> None:
        self.record = replace(record_of(of=of), is_json=True)
        self.avro, self.json = (
            writer(self.record, "p", "shop", tombstones=tombstones, is_compacted=is_compacted)
            for writer in (RecordWriter, JsonRecordWriter)
        )

    def check(self, made: Callable[[RecordWriter], Iterable[KafkaRecord]]) -> list[KafkaRecord]:
        """What JSON has is what Avro has; the records in JSON."""
        expected, found = [*made(self.avro)], [*made(self.json)]
        for one, other in zip(expected, found, strict=True):
            assert (one.value is None) == (other.value is None)
            assert other.value is None or avro_value(other.value, self.record) == one.value
            assert (one.key is None) == (other.key is None)
            headers = zip(one.headers or [], other.headers or [], strict=True)
            for (name, mine), (other_name, its) in headers:
                is_key = name in (NEW_KEY, OLD_KEY)
                assert (name, mine) == (other_name, avro_key(cast(bytes, its), self.record) if is_key else its)
        return found


def test_each_change_becomes_the_records_that_it_is_in_avro() -> None:
    both = Both(KEYED, tombstones=True)

    (inserted,) = both.check(lambda each: each.insert(Insert(1, ROW), SOURCE, 3, TS_MS))
    assert inserted.key == b'{"id":1}'
    both.check(lambda each: each.update(Update(1, None, None, OTHER), SOURCE, 3, TS_MS))
    deleted, gone = both.check(lambda each: each.delete(Delete(1, KEY, None), SOURCE, 3, TS_MS))
    assert (deleted.key, gone) == (b'{"id":1}', KafkaRecord(b'{"id":1}', None))
    for word in ("incremental", "last"):
        both.check(lambda each, word=word: [each.copied(ROW, SOURCE, each.source_part(word), TS_MS)])  # type: ignore[misc]
    both.check(
        lambda each: [
            each.truncate(SOURCE, 3, TS_MS, options=b"cascade"),
            each.marker("last_in_data_collection", SOURCE, TS_MS),
        ]
    )
    keyless = Both(KEYLESS)
    keyless.check(lambda each: each.delete(Delete(1, None, tuple_data(b"a", b"b")), SOURCE, 3, TS_MS))


def test_halves_of_a_change_of_a_key_name_each_others_key_in_their_headers() -> None:
    """I3"""
    gone, came = Both(KEYED).check(lambda each: each.update(Update(1, KEY, None, OTHER), SOURCE, 3, TS_MS))

    assert (gone.key, gone.headers) == (b'{"id":1}', [("__debezium.newkey", b'{"id":2}')])
    assert (came.key, came.headers) == (b'{"id":2}', [("__debezium.oldkey", b'{"id":1}')])
    assert json.loads(came.value or b"")["unchanged"] == ["big"]


def test_plain_rows_are_the_same_before_and_after_code_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "INTERPRETED_ROWS", 2)
    both = Both(KEYED)
    tail = plain_tails(TS_MS)["c"]

    found = [both.json.plain(ROW, 0, both.json.source, SOURCE.encoded, 3, tail) for _ in range(4)]

    (inserted,) = both.json.insert(Insert(1, ROW), SOURCE, 3, TS_MS)
    assert found == [(inserted.key, inserted.value)] * 4
    assert both.json.plain(OTHER, 0, both.json.source, SOURCE.encoded, 3, tail) is None


@settings(deadline=None, max_examples=examples(50))
@given(tables(), st.data())
def test_plain_rows_are_what_the_general_way_makes_of_them(of: TableSchema, data: st.DataObject) -> None:
    both = Both(replace(of, replica_identity="d"))
    writer = both.json
    for ordinal in (0, 0x2000, 3):
        sent = [each if isinstance(each, Unsent) else each[0] for each in data.draw(fields_of(of))]
        row = tuple_data(*(NULL if each is Unsent.UNCHANGED_TOAST else each for each in sent))
        source = SOURCE.with_sequence(7, ordinal)._replace(transaction_id=b"\x02a")
        tail = with_transaction_block(plain_tails(TS_MS)["c"], source.transaction_block(ordinal))

        found = writer.plain(row, 0, writer.source, source.encoded, ordinal, tail)

        (record,) = writer.insert(Insert(1, row), source, ordinal, TS_MS)
        assert found in (None, (record.key, record.value))
        assert (found is None) == bool(json.loads(record.value or b"")["exceptional"])


@pytest.mark.parametrize("word", ["true", "incremental", "first", "first_in_data_collection", "last"])
def test_rows_that_a_copy_encoded_end_as_those_that_it_did_not(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setattr("walbridge.producer.encoding.copied_rows.INTERPRETED_ROWS", 0)
    writer = Both(KEYED).json
    block = RowEncoder(RowFormat(writer.relation, writer.source_part(word))).block([b"1\ta name\tbig\n"])
    end = SOURCE.encoded + long_bytes(-1) + plain_tails(TS_MS)["r"]

    rows, left = writer.with_end([each for each in block.rows if each], end)

    copied = writer.copied(ROW, SOURCE, writer.source_part(word), TS_MS)
    assert ([*rows], left) == ([(copied.key, copied.value)], b"")


def test_records_of_the_whole_table_have_keys_of_their_own_where_kafka_compacts() -> None:
    writer = Both(KEYED, is_compacted=True).json

    records = [writer.truncate(SOURCE, 3, TS_MS)]
    records += [writer.marker(f"{which}_in_data_collection", SOURCE, TS_MS) for which in ("first", "last")]

    assert [json.loads(each.key or b"") for each in records] == [{"id": None}] * 3
    assert len({each.key for each in records}) == 3


def test_key_that_its_type_cannot_hold_stays_a_key_of_its_own() -> None:
    writer = Both(table(ID, replace(DAY, is_key=True))).json
    days = (b"infinity", b"-infinity", b"2024-05-06")

    keys = [writer.insert(Insert(1, tuple_data(b"1", day)), SOURCE, 3, TS_MS)[0].key for day in days]

    assert [json.loads(key or b"").get("_exceptional") for key in keys] == [
        {"day": "infinity"},
        {"day": "-infinity"},
        None,
    ]


CODE, PLACE = column("code", 25, is_key=True, attnum=1), column("place", 25, is_key=True, attnum=2)


@pytest.mark.parametrize("names", [("number", "place"), ("number", "code"), ("place", "code")])
def test_plain_rows_keep_the_keys_of_columns_that_were_renamed_also_to_names_of_each_other(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    """I3: a topic has one key schema, and the names of its columns in keys are those of the beginning."""
    monkeypatch.setattr(record_module, "INTERPRETED_ROWS", 1)
    cache, topic = RelationCache("p"), DataTopic("p.public.orders", 4)
    cache.remember(cache.version_of(table(CODE, PLACE), topic))
    renamed = table(*(replace(each, name=name) for each, name in zip((CODE, PLACE), names, strict=True)))
    writer = JsonRecordWriter(replace(cache.version_of(renamed, topic), is_json=True), "p", "shop")
    row = tuple_data(b"a", b"b")

    found = [writer.plain(row, 0, writer.source, SOURCE.encoded, 3, plain_tails(TS_MS)["c"]) for _ in range(2)]

    (inserted,) = writer.insert(Insert(1, row), SOURCE, 3, TS_MS)
    assert inserted.key == b'{"code":"a","place":"b"}'
    assert found == [(inserted.key, inserted.value)] * 2


def test_text_that_is_not_utf_8_is_refused_by_every_way() -> None:
    """I7: a database in SQL_ASCII may hold it."""
    writer = Both(table(ID, NAME, BIG)).json
    row = tuple_data(b"1", b"\xff", b"x")

    with pytest.raises(ProtocolError):
        writer.insert(Insert(1, row), SOURCE, 3, TS_MS)
    with pytest.raises(ProtocolError):
        writer.plain(row, 0, writer.source, SOURCE.encoded, 3, plain_tails(TS_MS)["c"])


def test_logical_message_has_its_content_in_base64() -> None:
    relation = replace(message_relation("p"), is_json=True)
    writer = MessageWriter(relation, "p", "shop")
    record = writer.message(LogicalMessage(True, Lsn(1), "audit", b"\x00\xff"), SOURCE, 3, TS_MS)

    assert json.loads(record.value or b"")["message"] == {"prefix": "audit", "content": "AP8="}


def test_row_that_is_too_large_is_told_by_its_place() -> None:
    writer = Both(KEYED).json
    (record,) = writer.insert(Insert(1, ROW), SOURCE, 3, TS_MS)

    assert "ordinal 3" in row_too_large(writer.relation, record.value or b"", 10).what
