"""One table gives the Avro and the lake type of each Postgres type; what it lacks travels as text (I7)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schemas.strategies import (
    CITEXT_OID,
    ENUM_ARRAY_OID,
    ENUM_OID,
    FEE_OID,
    FEES_OID,
    HSTORE_OID,
    PRICE_OID,
    TYPE_NAMES,
    UNKNOWN_OID,
    USER_TYPES,
    VECTOR_OID,
    WORDS_OID,
    numeric_typmod,
)
from walbridge.schemas.pg_types import BUILTIN_NAMES, TypeFacts, column_type, lake_type, numeric_digits, type_of_avro

DATE = {"type": "int", "logicalType": "date"}
TIMESTAMP = {"type": "long", "logicalType": "local-timestamp-micros"}
TIMESTAMPTZ = {"type": "long", "logicalType": "timestamp-micros"}

# oid, its array's oid, name, Avro type, lake type: pg_type.dat and the table of the module's docstring
TYPES: list[tuple[int, int, str, Any, str]] = [
    (16, 1000, "bool", "boolean", "boolean"),
    (17, 1001, "bytea", "bytes", "binary"),
    (18, 1002, "char", "string", "string"),
    (19, 1003, "name", "string", "string"),
    (20, 1016, "int8", "long", "long"),
    (21, 1005, "int2", "int", "integer"),
    (23, 1007, "int4", "int", "integer"),
    (25, 1009, "text", "string", "string"),
    (26, 1028, "oid", "long", "long"),
    (114, 199, "json", "string", "string"),
    (700, 1021, "float4", "float", "float"),
    (701, 1022, "float8", "double", "double"),
    (1042, 1014, "bpchar", "string", "string"),
    (1043, 1015, "varchar", "string", "string"),
    (1082, 1182, "date", DATE, "date"),
    (1083, 1183, "time", "string", "string"),
    (1114, 1115, "timestamp", TIMESTAMP, "timestamp_ntz"),
    (1184, 1185, "timestamptz", TIMESTAMPTZ, "timestamp"),
    (1186, 1187, "interval", "string", "string"),
    (1266, 1270, "timetz", "string", "string"),
    (1700, 1231, "numeric", "string", "string"),
    (2950, 2951, "uuid", "string", "string"),
    (3802, 3807, "jsonb", "string", "string"),
]
IDS = [name for _, _, name, _, _ in TYPES]
EXCEPTIONAL = {"date", "timestamp", "timestamptz"}


@pytest.mark.parametrize(("oid", "array_oid", "name", "avro", "lake"), TYPES, ids=IDS)
def test_type_travels_as_the_table_says(oid: int, array_oid: int, name: str, avro: Any, lake: str) -> None:
    known = column_type(oid, -1, {})

    assert (known.avro, known.lake, known.is_text) == (avro, lake, False)
    assert known.may_be_exceptional == (name in EXCEPTIONAL)


@pytest.mark.parametrize(("oid", "array_oid", "name", "avro", "lake"), TYPES, ids=IDS)
def test_array_travels_as_an_array_of_null_or_its_item(
    oid: int, array_oid: int, name: str, avro: Any, lake: str
) -> None:
    known = column_type(array_oid, -1, {})

    assert known.avro == {"type": "array", "items": ["null", avro]}
    assert known.lake == {"type": "array", "elementType": lake, "containsNull": True}
    assert known.item == column_type(oid, -1, {})
    assert known.may_be_exceptional


CODECS = {
    "bool": False,
    "int": False,
    "float": False,
    "double": False,
    "date": False,
    "timestamp": False,
    "timestamptz": False,
    "decimal": True,
    "string": True,
    "bytes": True,
    "array": True,
    "map": True,
    "vector": True,
}
"""Codec → whether Postgres may store a value out of line: where ``pg_type.typstorage`` is not plain."""


def test_every_codec_says_whether_an_update_may_leave_its_column_out() -> None:
    """I6: the unchanged value of a column that is forgotten here would be written as null."""
    numeric = column_type(1700, numeric_typmod(10, 2), {})
    of_users = [column_type(oid, -1, USER_TYPES) for oid in USER_TYPES]
    known = [numeric, *(column_type(oid, -1, {}) for oid in BUILTIN_NAMES), *of_users]

    assert {each.codec: each.may_be_toasted for each in known} == CODECS


def test_table_holds_these_types_and_no_others() -> None:
    expected = {oid: name for oid, _, name, _, _ in TYPES} | {array: f"_{name}" for _, array, name, _, _ in TYPES}

    assert expected == BUILTIN_NAMES


@pytest.mark.parametrize(
    ("precision", "scale", "digits"),
    [
        (10, 2, (10, 2)),
        (10, 0, (10, 0)),
        (38, 0, (38, 0)),
        (38, 38, (38, 38)),
        (1, 0, (1, 0)),
        (2, -3, (5, 0)),
        (3, 5, (5, 5)),
        (1000, -1000, (2000, 0)),
        (1000, 1000, (1000, 1000)),
    ],
)
def test_digits_hold_every_value_of_the_typmod(precision: int, scale: int, digits: tuple[int, int]) -> None:
    assert numeric_digits(numeric_typmod(precision, scale)) == digits


@given(st.integers(1, 1000), st.integers(-1000, 1000))
def test_largest_and_smallest_value_of_any_typmod_fit_the_digits(precision: int, scale: int) -> None:
    held_precision, held_scale = numeric_digits(numeric_typmod(precision, scale)) or (0, 0)

    assert held_precision - held_scale >= precision - scale  # digits left of the point
    assert held_scale >= max(scale, 0)
    assert held_precision >= held_scale


@pytest.mark.parametrize(("precision", "scale", "lake"), [(10, 2, "decimal(10,2)"), (38, 10, "decimal(38,10)"), (2, -3, "decimal(5,0)"), (3, 5, "decimal(5,5)")])  # fmt: skip  # noqa: E501
def test_numeric_of_up_to_38_digits_is_a_decimal(precision: int, scale: int, lake: str) -> None:
    known = column_type(1700, numeric_typmod(precision, scale), {})

    assert known.lake == lake
    assert known.avro["type"] == "bytes"
    assert known.scale == known.avro["scale"]
    assert known.may_be_exceptional  # NaN


@pytest.mark.parametrize("typmod", [-1, numeric_typmod(39, 0), numeric_typmod(38, -1), numeric_typmod(1, 39)])
def test_numeric_without_a_bound_of_38_digits_is_a_string(typmod: int) -> None:
    known = column_type(1700, typmod, {})

    assert (known.codec, known.lake, known.is_text) == ("string", "string", False)


def test_array_of_numeric_has_the_typmod_of_its_items() -> None:
    lake = column_type(1231, numeric_typmod(10, 2), {}).lake

    assert lake == {"type": "array", "elementType": "decimal(10,2)", "containsNull": True}


def test_enum_is_a_string_so_that_a_new_label_needs_no_schema() -> None:
    known = column_type(ENUM_OID, -1, USER_TYPES)

    assert (known.avro, known.is_text, known.may_be_exceptional) == ("string", False, False)


def test_array_of_an_enum_is_an_array_of_strings() -> None:
    assert column_type(ENUM_ARRAY_OID, -1, USER_TYPES).avro == {"type": "array", "items": ["null", "string"]}


UNKNOWN = {
    "user type": (UNKNOWN_OID, USER_TYPES),
    "never announced": (99_999, {}),
    "inet": (869, {}),
    "int4range": (3904, {}),
    "domain over a type without a place": (7, {7: TypeFacts(7, "public", "address", "d", base_type=869)}),
    "array of a domain over an array": (
        7,
        {7: TypeFacts(7, "public", "_words", "a", element_type=WORDS_OID)} | USER_TYPES,
    ),
    "array of hstore": (7, {7: TypeFacts(7, "public", "_hstore", "a", element_type=HSTORE_OID)} | USER_TYPES),
    "hstore of nobody's extension": (7, {7: TypeFacts(7, "public", "hstore", "b")}),
    "another type of pgvector": (7, {7: TypeFacts(7, "public", "sparsevec", "b", extension="vector")}),
    "array of a user type": (7, {7: TypeFacts(7, "public", "_box3d", "a", element_type=UNKNOWN_OID)} | USER_TYPES),
    "array of an unannounced type": (7, {7: TypeFacts(7, "public", "_gone", "a", element_type=8)}),
}


@pytest.mark.parametrize(("oid", "types"), UNKNOWN.values(), ids=UNKNOWN)
def test_type_without_a_place_travels_as_text_and_says_so(oid: int, types: dict[int, TypeFacts]) -> None:
    known = column_type(oid, -1, types)

    assert (known.codec, known.avro, known.lake, known.is_text) == ("string", "string", "string", True)


DOMAINS = {
    "domain": (PRICE_OID, "decimal(10,2)"),
    "domain over a domain": (FEE_OID, "decimal(10,2)"),
    "array of a domain": (FEES_OID, {"type": "array", "elementType": "decimal(10,2)", "containsNull": True}),
    "domain over an array": (WORDS_OID, {"type": "array", "elementType": "string", "containsNull": True}),
}


@pytest.mark.parametrize(("oid", "lake"), DOMAINS.values(), ids=DOMAINS)
def test_domain_travels_as_the_type_under_it_with_its_own_modifier(oid: int, lake: Any) -> None:
    known = column_type(oid, -1, USER_TYPES)

    assert (known.lake, known.is_text) == (lake, False)


def test_hstore_is_a_map_whose_values_may_be_null() -> None:
    known = column_type(HSTORE_OID, -1, USER_TYPES)

    assert known.avro == {"type": "map", "values": ["null", "string"]}
    assert known.lake == {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    assert not known.may_be_exceptional


def test_vector_is_an_array_of_floats_that_are_never_null() -> None:
    known = column_type(VECTOR_OID, 1536, USER_TYPES)

    assert known.avro == {"type": "array", "items": "float"}
    assert known.lake == column_type(1021, -1, {}).lake
    assert not known.may_be_exceptional


def test_text_of_an_extension_is_a_string_like_any_other() -> None:
    known = column_type(CITEXT_OID, -1, USER_TYPES)

    assert (known.avro, known.is_text) == ("string", False)


@given(st.sampled_from(sorted(TYPE_NAMES)), st.just(-1) | st.integers(1, 38).map(lambda n: numeric_typmod(n, n // 2)))
def test_column_type_is_known_again_by_what_travels(oid: int, typmod: int) -> None:
    """A reader has no catalogue: the value's schema tells all that decoding needs."""
    known = column_type(oid, typmod, USER_TYPES)

    assert type_of_avro(known.avro, is_text=known.is_text) == known


FOREIGN: list[Any] = [
    "fixed",
    None,
    [],
    ["null", "string"],
    {},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "map", "values": "string"},
    {"type": "array", "items": "double"},
    {"type": "array", "items": ["null", {"type": "array", "items": ["null", "int"]}]},
    {"type": "array", "items": ["null"]},
    {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2, "more": 1},
    {"type": "fixed", "logicalType": "decimal", "precision": 10, "scale": 2},
]


@pytest.mark.parametrize("avro", FOREIGN, ids=str)
def test_what_newer_code_may_write_is_not_known(avro: Any) -> None:
    assert type_of_avro(avro) is None
    assert type_of_avro(avro, is_text=True) is None


def test_lake_type_of_an_unmapped_avro_type_is_never_guessed() -> None:
    with pytest.raises(KeyError):
        lake_type("fixed")
