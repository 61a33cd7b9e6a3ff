"""A metadata record gives back the table, its types and schemas; what it cannot be read as is refused."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from tests.schemas.strategies import TYPE_RECORDS, column, numeric_typmod, relation_records, table
from walbridge.schemas.avro.codec import decode_control, encode_control, schema_id
from walbridge.schemas.avro.schema import value_schema
from walbridge.schemas.control.metadata_record import RelationRecord, TypeRecord, decode_metadata, encode_metadata
from walbridge.schemas.errors import ProtocolError

ORDERS = table(column("id", 23, is_key=True), column("price", 1700, numeric_typmod(10, 2)))
VALUE = value_schema("p", ORDERS)
RECORD = RelationRecord(ORDERS, "p.public.orders", 1, schema_id(VALUE), json.dumps(VALUE), None, None)


@given(relation_records())
def test_decoded_relation_is_the_encoded_one_types_included(record: RelationRecord) -> None:
    assert decode_metadata(encode_metadata(record)) == record


@given(TYPE_RECORDS)
def test_decoded_type_is_the_encoded_one(record: TypeRecord) -> None:
    assert decode_metadata(encode_metadata(record)) == record


def test_relation_is_keyed_by_relation_id_and_schema_id() -> None:
    assert RECORD.key == f"relation/16384/{schema_id(VALUE)}".encode()


@given(TYPE_RECORDS)
def test_type_is_keyed_by_oid_and_version(record: TypeRecord) -> None:
    assert record.key == f"type/{record.facts.oid}/{record.version}".encode()


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "null",
        "{}",
        "[]",
        '{"fields": []}',
        '{"fields": [{"type": "long"}]}',
        VALUE["fields"][1:],
        "{",
        pytest.param("[" * 100_000, id="lists in lists"),
    ],
)
def test_relation_whose_value_schema_is_no_envelope_is_refused(schema: object) -> None:
    text = schema if isinstance(schema, str) else json.dumps({"fields": schema})

    with pytest.raises(ProtocolError, match=r"public\.orders is no Envelope"):
        decode_metadata(encode_metadata(replace(RECORD, value_schema=text)))


def test_relation_with_fewer_fields_than_columns_is_refused() -> None:
    other = json.dumps(value_schema("p", table(*ORDERS.columns[:1])))

    with pytest.raises(ProtocolError, match=r"public\.orders is no Envelope"):
        decode_metadata(encode_metadata(replace(RECORD, value_schema=other)))


def test_relation_whose_type_travels_otherwise_than_this_code_knows_is_refused() -> None:
    name, record = decode_control(encode_metadata(RECORD))
    record["columns"][1]["typmod"] = numeric_typmod(10, 3)

    with pytest.raises(ProtocolError, match="type numeric travels as"):
        decode_metadata(encode_control(name, record))
