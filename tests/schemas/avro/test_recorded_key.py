"""Which keys of a table are those of the schema that its topic began with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schemas.strategies import ENUM_OID, FEE_OID, PRICE_OID, WORDS_OID, column, numeric_typmod, table, tables
from walbridge.schemas.avro.recorded_key import column_names, is_key_of, key_names
from walbridge.schemas.avro.schema import key_schema
from walbridge.schemas.table_schema import Column, TableSchema

BPCHAR, VARCHAR, TEXT, INT4, INT8, NUMERIC, TIMESTAMP, TEXTS, WORDS = 1042, 1043, 25, 23, 20, 1700, 1114, 1009, 1015


def of(name: str, type_oid: int, typmod: int = -1, attnum: int | None = 1) -> Column:
    return column(name, type_oid, typmod, is_key=True, attnum=attnum)


def recorded(*columns: Column) -> str:
    return json.dumps(key_schema("p", table(*columns)))


SAME = {
    "renamed": (of("id", INT4), of("number", INT4)),
    "longer varchar": (of("code", VARCHAR, 24), of("code", VARCHAR, 64)),
    "shorter varchar": (of("code", VARCHAR, 64), of("code", VARCHAR, 24)),
    "varchar to text": (of("code", VARCHAR, 24), of("code", TEXT)),
    "text to varchar": (of("code", TEXT), of("code", VARCHAR)),
    "text to char without a length": (of("code", TEXT), of("code", BPCHAR)),
    "renamed and longer": (of("code", VARCHAR, 24), of("name", VARCHAR, 64)),
    "arrays of varchar": (of("codes", WORDS, 24), of("codes", TEXTS)),
    "finer times": (of("at", TIMESTAMP, 3), of("at", TIMESTAMP)),
    "more digits than a decimal holds": (
        of("n", NUMERIC, numeric_typmod(40, 2)),
        of("n", NUMERIC, numeric_typmod(50, 2)),
    ),
    "any digits": (of("n", NUMERIC, numeric_typmod(40, 2)), of("n", NUMERIC)),
    "domain": (of("n", NUMERIC, numeric_typmod(10, 2)), of("n", PRICE_OID)),
    "domain over a domain": (of("n", PRICE_OID), of("n", FEE_OID)),
    "domain over an array": (of("codes", TEXTS), of("codes", WORDS_OID)),
}
OTHER = {
    "column": (of("id", INT4, attnum=1), of("id", INT4, attnum=2)),
    "wider integer": (of("id", INT4), of("id", INT8)),
    "text of an integer": (of("id", INT4), of("id", TEXT)),
    "text of an enum": (of("mood", ENUM_OID), of("mood", TEXT)),
    "digits": (of("n", NUMERIC, numeric_typmod(10, 2)), of("n", NUMERIC, numeric_typmod(12, 2))),
    "scale": (of("n", NUMERIC, numeric_typmod(40, 2)), of("n", NUMERIC, numeric_typmod(40, 3))),
    "scale that is given": (of("n", NUMERIC), of("n", NUMERIC, numeric_typmod(40, 3))),
    "longer char": (of("code", BPCHAR, 9), of("code", BPCHAR, 14)),
    "char that was text": (of("code", TEXT), of("code", BPCHAR, 14)),
    "text that was char": (of("code", BPCHAR, 9), of("code", TEXT)),
}


@pytest.mark.parametrize(("before", "now"), SAME.values(), ids=SAME)
def test_key_whose_values_have_the_bytes_that_they_had_is_the_same_one(before: Column, now: Column) -> None:
    """I3: one row, one key."""
    assert is_key_of(recorded(before), table(now, column("note", TEXT)))


@pytest.mark.parametrize(("before", "now"), OTHER.values(), ids=OTHER)
def test_key_of_another_column_or_of_values_in_other_bytes_is_another_one(before: Column, now: Column) -> None:
    assert not is_key_of(recorded(before), table(now))


def test_number_and_order_of_columns_make_another_key() -> None:
    one, other = of("a", INT4, attnum=1), of("b", INT4, attnum=2)

    assert is_key_of(recorded(one, other), table(replace(one, name="b"), replace(other, name="a")))
    assert not is_key_of(recorded(one, other), table(other, one))
    assert not is_key_of(recorded(one, other), table(one))
    assert not is_key_of(recorded(one), table(one, other))
    assert not is_key_of(recorded(one), table(column("a", INT4)))


def test_names_and_types_tell_a_key_where_numbers_do_not() -> None:
    """Of a table that the catalogue has forgotten, and of another one that was made under its name."""
    known, forgotten = of("code", VARCHAR, 24), of("code", VARCHAR, 24, attnum=None)

    assert is_key_of(recorded(known), table(forgotten))
    assert is_key_of(recorded(forgotten), table(known))
    for other in (replace(forgotten, name="name"), replace(forgotten, typmod=64)):
        assert not is_key_of(recorded(known), table(other))
    made_again = replace(known, attnum=5)
    assert not is_key_of(recorded(known), table(made_again))
    assert is_key_of(recorded(known), table(made_again), is_same_relation=False)
    assert not is_key_of(recorded(known), table(replace(known, name="name")), is_same_relation=False)


@given(tables().filter(lambda each: bool(each.key_columns)), st.integers(0, 2), st.booleans())
def test_any_key_is_that_of_its_table_whatever_its_columns_are_called_later(
    of_table: TableSchema, revision: int, is_registered: bool
) -> None:
    schema = json.dumps(key_schema("p", of_table, revision, is_registered=is_registered))
    names = [f"renamed {at}" for at in range(len(of_table.columns))]
    numbered = [replace(each, attnum=at) for at, each in enumerate(of_table.columns, 1)]
    renamed = [replace(each, name=name) for each, name in zip(numbered, names, strict=True)]
    now = replace(of_table, columns=tuple(renamed), name="moved")

    assert is_key_of(schema, of_table)
    assert is_key_of(json.dumps(key_schema("p", replace(of_table, columns=tuple(numbered)), revision)), now)
    assert key_names(schema) == tuple(each.name for each in of_table.key_columns)
    assert [*column_names(schema, now).values()] == [each.name for each in now.key_columns]
