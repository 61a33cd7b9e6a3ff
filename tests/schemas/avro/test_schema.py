"""Event schemas: valid Avro for any table, readable in part, Debezium's envelope, one id for one schema."""

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given

from tests.schemas.strategies import UNKNOWN_OID, column, numeric_typmod, table, tables
from walbridge.schemas.avro.codec import schema_id
from walbridge.schemas.avro.schema import column_field, key_schema, subset, value_schema
from walbridge.schemas.table_schema import TableSchema

ORDERS = table(column("id", 23, is_key=True, attnum=1), column("note", 25), column("a b", UNKNOWN_OID))
SOURCE = {
    "version": "0.1.0", "connector": "postgresql", "name": "p", "db": "shop", "schema": "public",
    "table": "orders", "relation_id": 16_384, "snapshot": None, "ts_ms": 1, "ts_us": 1_000, "txId": 7,
    "lsn": 100, "sequence": None, "origin": None, "commit_lsn": 100, "ordinal": 3,
}  # fmt: skip
EVENT: dict[str, Any] = {
    "before": None, "after": {"id": 1, "note": None, "a_u0020b": "x"}, "source": SOURCE, "op": "u", "ts_ms": 2,
    "transaction": {"id": "7:100", "total_order": 4, "data_collection_order": 4}, "unchanged": ["note"],
    "before_image": None, "exceptional": None, "before_exceptional": None,
}  # fmt: skip


def written(schema: Any, value: Any) -> BytesIO:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    out.seek(0)
    return out


def decimal_table(precision: int, scale: int) -> TableSchema:
    return table(column("price", 1700, numeric_typmod(precision, scale)))


def fields(record: Any) -> list[str]:
    return [field["name"] for field in record["fields"]]


@given(tables())
def test_schemas_of_any_table_are_valid_avro_and_survive_json(of_table: TableSchema) -> None:
    value, key = value_schema("my-pipeline", of_table, 2), key_schema("my-pipeline", of_table, 2)

    fastavro.parse_schema(json.loads(json.dumps(value)))
    assert (key is None) == (not of_table.key_columns)
    if key is not None:
        fastavro.parse_schema(json.loads(json.dumps(key)))


@given(tables())
def test_every_column_can_be_null_and_keeps_its_postgres_name(of_table: TableSchema) -> None:
    for of_column in of_table.columns:
        field = column_field(of_column)

        assert (field["type"][0], field["default"], field["pg.name"]) == ("null", None, of_column.name)


def test_tables_with_odd_names_have_valid_and_different_avro_names() -> None:
    odd = ['say "hi".now', "say _u0022hi_u0022_u002enow"]
    names = [value_schema("a-b", table(namespace="1 schema", name=name))["namespace"] for name in odd]

    assert names == [
        "a_u002db._u0031_u0020schema.say_u0020_u0022hi_u0022_u002enow",
        "a_u002db._u0031_u0020schema.say_u0020_u005fu0022hi_u005fu0022_u005fu002enow",
    ]


def test_envelope_has_debeziums_fields() -> None:
    envelope = value_schema("p", ORDERS)
    source = next(field["type"] for field in envelope["fields"] if field["name"] == "source")

    assert {"before", "after", "source", "op", "ts_ms", "transaction"} <= set(fields(envelope))
    assert {
        "version", "connector", "name", "ts_ms", "ts_us", "snapshot", "db", "schema", "table", "txId", "lsn",
        "sequence",
    } <= set(fields(source))  # fmt: skip


def test_envelope_has_what_debezium_lacks() -> None:
    assert {"unchanged", "before_image", "exceptional", "before_exceptional"} <= set(fields(value_schema("p", ORDERS)))


def test_column_says_its_type_typmod_and_attnum() -> None:
    assert column_field(ORDERS.columns[0]) == {
        "name": "id", "type": ["null", "int"], "default": None,
        "pg.name": "id", "pg.type": "int4", "pg.typmod": -1, "pg.attnum": 1,
    }  # fmt: skip


def test_column_that_travels_as_text_says_so() -> None:
    assert [column_field(each).get("pg.text", False) for each in ORDERS.columns] == [False, False, True]


def test_key_of_a_type_with_exceptional_values_has_room_for_their_text() -> None:
    assert fields(key_schema("p", table(column("day", 1082, is_key=True)))) == ["day", "_exceptional"]
    assert fields(key_schema("p", ORDERS)) == ["id"]


def test_key_column_named_as_our_own_field_stays_apart_from_it() -> None:
    odd = table(column("_exceptional", 1082, is_key=True), column("_revision_1", 23, is_key=True))

    assert len(set(fields(key_schema("p", odd, revision=1)))) == 4


def test_precisions_share_a_fingerprint_and_revisions_tell_them_apart() -> None:
    ten, twelve = value_schema("p", decimal_table(10, 2)), value_schema("p", decimal_table(12, 2))

    assert ten != twelve
    assert schema_id(ten) == schema_id(twelve)
    assert schema_id(value_schema("p", decimal_table(12, 2), revision=1)) != schema_id(ten)


@pytest.mark.parametrize("is_registered", [False, True])
def test_revision_takes_no_bytes(is_registered: bool) -> None:
    plain, revised = (
        written(value_schema("p", ORDERS, revision, is_registered=is_registered), EVENT).getvalue()
        for revision in (0, 7)
    )

    assert plain == revised


def test_schema_for_a_registry_has_no_field_of_type_null_which_kafka_connect_refuses() -> None:
    field = value_schema("p", ORDERS, revision=7, is_registered=True)["fields"][-1]

    assert (field["name"], field["type"]["type"], field["default"]) == ("_revision_7", "record", {})


@pytest.mark.parametrize(
    "wanted",
    [
        {"after": None},
        {"source": {"commit_lsn": None, "ordinal": None}},
        {"after": None, "op": None, "unchanged": None, "source": {"ordinal": None}},
        {"before": {"id": None}, "after": {"id": None}},
        {"transaction": None},
    ],
)
def test_event_is_read_in_part(wanted: dict[str, Any]) -> None:
    schema = value_schema("p", ORDERS)
    part = subset(schema, wanted)

    read = fastavro.schemaless_reader(
        written(schema, EVENT), fastavro.parse_schema(schema), fastavro.parse_schema(part)
    )

    assert read == picked(EVENT, wanted)


def picked(value: Any, wanted: Any) -> Any:
    """The wanted part of an event, by walking it: the oracle of ``subset``."""
    if wanted is None or value is None:
        return value
    return {name: picked(value[name], inner) for name, inner in wanted.items()}


def test_whole_schema_is_left_as_it_was_when_a_part_is_taken() -> None:
    schema = value_schema("p", ORDERS)

    subset(schema, {"after": None})

    assert schema == value_schema("p", ORDERS)
