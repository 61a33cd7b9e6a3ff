"""Events as JSON: what was encoded comes back to the byte, and a plain JSON reader finds every value in it."""

from __future__ import annotations

import json
import math
import struct
from base64 import b64decode
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.avro_reader import encoded_key, record_of
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.strategies import EXCEPTIONAL, fields_of
from tests.producer.written_record import BIG, ID, SOURCE, TS_MS, UNCHANGED
from tests.schemas.strategies import column, tables
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.messages import Delete, Insert, Unsent, Update
from walbridge.schemas.avro.framing import JSON, frame_id_if_known, frame_of
from walbridge.schemas.control.message_schema import message_relation
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.json_format.codec import JsonCodec, avro_key, avro_value, json_codec
from walbridge.schemas.pg_types import ColumnType
from walbridge.schemas.table_schema import TableSchema


def json_record(*columns: Any, of: TableSchema | None = None) -> RelationRecord:
    """As ``record_of``, of a topic that holds JSON."""
    return replace(record_of(*columns, of=of), is_json=True)


def inserted(record: RelationRecord, *sent: Any) -> tuple[bytes | None, bytes]:
    """Key and value in Avro."""
    (made,) = RecordWriter(record, "p", "shop").insert(Insert(16_384, tuple_data(*sent)), SOURCE, 3, TS_MS)
    return made.key, made.value or b""


def row_of(record: RelationRecord, *sent: Any) -> dict[str, Any]:
    """What a JSON reader finds in ``after``."""
    return json.loads(json_codec(record).value(inserted(record, *sent)[1]))["after"]  # type: ignore[no-any-return]


@settings(deadline=None, max_examples=examples(50))
@given(tables(), st.data())
def test_event_of_any_table_comes_back_from_json_to_the_byte(of: TableSchema, data: st.DataObject) -> None:
    record = json_record(of=replace(of, replica_identity="d"))
    drawn = [data.draw(fields_of(of)) for _ in range(2)]
    old, new = (tuple_data(*(each if isinstance(each, Unsent) else each[0] for each in row)) for row in drawn)
    writer, codec = RecordWriter(record, "p", "shop"), json_codec(record)
    records = []
    for change in (Insert(1, new), Update(1, None, None, new), Update(1, None, old, new), Delete(1, None, old)):
        try:
            made = getattr(writer, type(change).__name__.lower())(change, SOURCE, 3, TS_MS)
        except Exception:
            continue  # an old row with unknown values, or an insert without one
        records += made
    records.append(writer.truncate(SOURCE, 3, TS_MS))

    for made in records:
        value = codec.value(made.value)
        assert frame_of(value).frame_id == record.frame_id == frame_id_if_known(value)
        assert value.startswith(JSON.marker)
        assert avro_value(value, record) == made.value
        if made.key is not None:
            assert avro_key(codec.key(made.key), record) == made.key


@settings(deadline=None, max_examples=examples(50))
@given(tables(), st.data())
def test_json_reader_finds_each_value(of: TableSchema, data: st.DataObject) -> None:
    record = json_record(of=of)
    drawn = [(b"t", None) if each is Unsent.UNCHANGED_TOAST else each for each in data.draw(fields_of(of))]
    drawn = [Unsent.NULL if not isinstance(each, Unsent) and each[1] is None else each for each in drawn]
    _, value = inserted(record, *(each if isinstance(each, Unsent) else each[0] for each in drawn))
    event = json.loads(json_codec(record).value(value))

    assert list(event["after"]) == [each.name for each in of.columns]
    for known, each in zip(of.columns, drawn, strict=True):
        found = event["after"][known.name]
        if isinstance(each, Unsent) or each[1] is EXCEPTIONAL:
            assert found is None
            assert isinstance(each, Unsent) or event["exceptional"][known.name] == each[0].decode()
        else:
            assert alike(read(known.column_type, found), each[1])


def alike(found: object, expected: object) -> bool:
    return repr(found) == repr(expected).replace(", fold=1", "")


EPOCH = datetime(1970, 1, 1)


def read(known: ColumnType, value: Any) -> Any:
    """As ``docs/types.md`` tells a reader to."""
    if value is None:
        return None
    match known.codec:
        case "bytes":
            return b64decode(value)
        case "decimal":
            return Decimal(value)
        case "date":
            return date(1970, 1, 1) + timedelta(days=value)
        case "timestamp":
            return EPOCH + timedelta(microseconds=value)
        case "timestamptz":
            return (EPOCH + timedelta(microseconds=value)).replace(tzinfo=UTC)
        case "float":
            assert known.avro == "float"
            return struct.unpack("<f", struct.pack("<f", float(value)))[0]
        case "double":
            return float(value)
        case "array" | "vector":
            assert known.item is not None
            return [read(known.item, item) for item in value]
    return value


@pytest.mark.parametrize(
    ("type_oid", "text", "expected"),
    [
        (20, b"9223372036854775807", "9223372036854775807"),
        (700, b"0.1", "0.1"),
        (700, b"7.038531e-26", "7.0385307e-26"),
        (700, b"3.4028235e+38", "3.4028235e+38"),
        (701, b"0.30000000000000004", "0.30000000000000004"),
        (701, b"-0", "-0.0"),
        (701, b"NaN", '"NaN"'),
        (701, b"-Infinity", '"-Infinity"'),
        (1700, b"1.500", '"1.500"'),
        (17, b"\\x00ff", '"AP8="'),
        (1082, b"1969-12-31", "-1"),
        (1184, b"1970-01-01 00:00:01.5+00", "1500000"),
        (1021, b"{0.1,NULL,NaN}", '[0.1,null,"NaN"]'),
        (1231, b"{1.5,NaN}", '["1.5","NaN"]'),
        (3802, b'{"a": 1}', '"{\\"a\\": 1}"'),
        (25, "é\U0001f600\x01\u2028".encode(), '"é\U0001f600\\u0001\u2028"'),
    ],
)
def test_value_is_written_as_the_page_of_types_says(type_oid: int, text: bytes, expected: str) -> None:
    record = json_record(column("it", type_oid))

    value = json_codec(record).value(inserted(record, text)[1]).decode()

    assert f'"after":{{"it":{expected}}},' in value


def test_numeric_with_a_scale_has_exactly_its_decimals() -> None:
    price, whole = column("price", 1700, (10 << 16 | 2) + 4), column("whole", 1700, (38 << 16) + 4)
    record = json_record(price, whole)

    assert row_of(record, b"-0.05", b"9" * 38) == {"price": "-0.05", "whole": "9" * 38}
    assert row_of(record, b"0.00", b"0") == {"price": "0.00", "whole": "0"}


@given(st.floats(width=32))
def test_float4_reads_back_to_its_bits_from_json_as_a_float_and_as_a_double(value: float) -> None:
    record = json_record(column("it", 700))
    text = "NaN" if math.isnan(value) else repr(value).replace("inf", "Infinity")
    avro = inserted(record, text.encode())[1]

    found = row_of(record, text.encode())["it"]

    assert avro_value(json_codec(record).value(avro), record) == avro
    assert struct.pack("<f", float(found)) == struct.pack("<f", value) or math.isnan(value)


def test_key_is_an_object_of_its_columns_and_says_what_is_exceptional() -> None:
    day = column("day", 1082, is_key=True)
    record = json_record(ID, day)
    (first, _), (second, _) = inserted(record, b"1", b"2024-05-06"), inserted(record, b"1", b"infinity")

    codec = json_codec(record)

    assert [codec.key(each or b"") for each in (first, second)] == [
        b'{"id":1,"day":19849}',
        b'{"id":1,"day":null,"_exceptional":{"day":"infinity"}}',
    ]
    assert [codec.avro_key(codec.key(each or b"")) for each in (first, second)] == [first, second]


def test_column_that_is_called_as_our_own_field_keeps_its_key_apart() -> None:
    record = json_record(column("_exceptional", 25, is_key=True), column("day", 1082, is_key=True))
    key = encoded_key(record, {"_u005fexceptional": "a", "day": 1, "_exceptional": None})

    found = json_codec(record).key(key)

    assert json.loads(found) == {"_u005fexceptional": "a", "day": 1}
    assert avro_key(found, record) == key


def test_keys_of_the_whole_table_have_null_columns_and_bytes_of_their_own() -> None:
    codec = json_codec(json_record(ID, BIG))
    keys = [codec.whole_table_key(number) for number in range(3)]

    assert [json.loads(key) for key in keys] == [{"id": None}] * 3
    assert len({*keys}) == 3


def test_unchanged_columns_are_named() -> None:
    """I6"""
    record = json_record(ID, BIG)
    change = Update(16_384, None, None, tuple_data(b"1", UNCHANGED))
    (made,) = RecordWriter(record, "p", "shop").update(change, SOURCE, 3, TS_MS)

    event = json.loads(json_codec(record).value(made.value or b""))

    assert (event["after"], event["unchanged"]) == ({"id": 1, "big": None}, ["big"])


def test_event_has_the_fields_of_the_envelope_behind_the_schema_id() -> None:
    record = json_record(ID)
    event = json.loads(json_codec(record).value(inserted(record, b"1")[1]))
    fields = [each["name"] for each in json.loads(record.value_schema)["fields"]]

    assert [name for name in event if name not in ("ts_us", "ts_ns")] == ["schema_id", *fields]
    assert event["schema_id"] == record.schema_id
    assert event["source"]["commit_lsn"] == event["source"]["lsn"] == 0x1_0000_0010


def test_event_tells_its_times_in_debeziums_units_as_well_and_is_read_without_them() -> None:
    """Events of a version that did not tell them are read as ever."""
    record = json_record(ID)
    codec, avro = json_codec(record), inserted(record, b"1")[1]
    event = json.loads(codec.value(avro))
    ms, us = event["ts_ms"], event["source"]["ts_us"]

    assert (event["ts_us"], event["ts_ns"], event["source"]["ts_ns"]) == (ms * 1_000, ms * 1_000_000, us * 1_000)
    assert [*event][[*event].index("ts_ms") :][:3] == ["ts_ms", "ts_us", "ts_ns"]
    for finer in ("ts_us", "ts_ns"):
        del event[finer]
    del event["source"]["ts_ns"]
    assert codec.avro_value(json.dumps(event).encode()) == avro


def test_content_of_a_message_is_base64() -> None:
    record = replace(message_relation("p"), is_json=True)
    codec = json_codec(record)
    table = replace(record, is_json=False)
    source = json.loads(json_codec(json_record(ID)).value(inserted(json_record(ID), b"1")[1]))["source"]
    nothing = dict.fromkeys(("before", "after", "transaction", "unchanged", "before_image"))
    event = {"schema_id": table.schema_id, **nothing, "source": source, "op": "m", "ts_ms": 1}
    event |= {"exceptional": None, "before_exceptional": None, "message": {"prefix": "p", "content": "AP8="}}

    avro = codec.avro_value(json.dumps(event).encode())

    assert json.loads(codec.value(avro))["message"] == {"prefix": "p", "content": "AP8="}
    assert avro.endswith(b"\x02\x02p\x04\x00\xff")


def broken(event: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps(event | changes).encode()


def test_json_that_is_no_event_of_the_version_is_refused() -> None:
    """I7"""
    record = json_record(ID, BIG)
    codec = json_codec(record)
    event = json.loads(codec.value(inserted(record, b"1", b"x")[1]))
    for bad in (
        b"",
        b"[1]",
        b'{"schema_id":"',
        b"\xff",
        b"[" * 100_000,
        broken(event, schema_id="0" * 16),
        broken(event, more=1),
        broken(event, after={"id": 1}),
        broken(event, after={"id": "1", "big": "x"}),
        broken(event, after={"id": 2**31, "big": "x"}),
        broken(event, after={"id": True, "big": "x"}),
        broken(event, after={"id": 1, "big": 1}),
        broken(event, after=[1]),
        broken(event, source=None),
        json.dumps(event).replace('"ts_ms": 42', '"ts_ms": NaN').encode(),
    ):
        with pytest.raises(ProtocolError):
            codec.avro_value(bad)


def test_text_that_is_not_utf_8_is_refused_and_not_replaced() -> None:
    record = json_record(column("it", 25))

    with pytest.raises(ProtocolError):
        json_codec(record).value(inserted(record, b"\xff")[1])


def test_codec_is_made_once_for_a_version() -> None:
    codecs: list[JsonCodec] = [json_codec(json_record(ID, BIG)) for _ in range(2)]

    assert codecs[0] is codecs[1]
