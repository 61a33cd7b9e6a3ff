"""From one shape of a table to another: which steps, and which changes are refused."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.spark_consumer.events import column, relation
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.table_schema import Column
from walbridge.spark_consumer.delta.columns import LakeField
from walbridge.spark_consumer.fold.shape import ShapeSteps, TableShape, shape_steps


def steps(old: Sequence[Column], new: Sequence[Column]) -> ShapeSteps:
    found, wanted = (TableShape(relation(columns)) for columns in (old, new))
    return shape_steps(found.fields, wanted.fields, "public.t", labels=found.labels)


ID = column("id", "int4", is_key=True, attnum=1)


def test_same_shape_needs_no_step() -> None:
    assert steps([ID, column("a")], [ID, column("a")]).is_empty


def test_added_column_is_added_in_place() -> None:
    found = steps([ID], [ID, column("a", "numeric", typmod=(10 << 16 | 2) + 4, attnum=2)])

    assert found.rewrite is None
    assert [(field.name, field.type) for field in found.add] == [("a", "decimal(10,2)")]


def test_column_with_a_value_in_older_rows_comes_by_a_rewrite_and_only_once() -> None:
    """I5: it must never be there without the values."""
    found, wanted = (TableShape(relation(columns)).fields for columns in ([ID], [ID, column("a", attnum=2)]))

    assert [origin for _, origin in shape_steps(found, wanted, "public.t", {"a"}).rewrite or ()] == ["id", None]
    assert shape_steps(wanted, wanted, "public.t", {"a"}).is_empty


def test_dropped_column_is_left_out_of_a_rewrite() -> None:
    found = steps([ID, column("a", attnum=2), column("b", attnum=3)], [ID, column("b", attnum=3)])

    assert [(field.name, origin) for field, origin in found.rewrite or ()] == [("id", "id"), ("b", "b")]


def test_renamed_column_is_known_by_its_attnum() -> None:
    found = steps([ID, column("a", attnum=2)], [ID, column("b", attnum=2)])

    assert [(field.name, origin) for field, origin in found.rewrite or ()] == [("id", "id"), ("b", "a")]


def test_column_dropped_and_added_under_its_name_is_null_in_old_rows() -> None:
    found = steps([ID, column("a", attnum=2)], [ID, column("a", attnum=3)])

    assert [(field.name, origin) for field, origin in found.rewrite or ()] == [("id", "id"), ("a", None)]


def fields_of(*columns: Column) -> list[LakeField]:
    """Their columns without a number are those of which the catalogue knew none."""
    table = replace(relation(columns).table, columns=columns)
    return TableShape(replace(relation(columns), table=table)).fields


def test_rewrite_keeps_the_number_of_a_column_that_the_catalogue_knew_no_more() -> None:
    """I8: told late of a DROP and of a RENAME behind it, the producer finds the new name only."""
    old = fields_of(ID, column("gone", attnum=2), column("a", attnum=3))
    rewritten = shape_steps(old, fields_of(ID, column("a")), "public.t").rewrite or ()

    renamed = shape_steps([field for field, _ in rewritten], fields_of(ID, column("b", attnum=3)), "public.t")

    assert [(field.name, origin) for field, origin in renamed.rewrite or ()] == [("id", "id"), ("b", "a")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (column("a"), column("b", attnum=2)),
        (column("a", attnum=2), column("b")),
        (column("a"), column("b")),
    ],
    ids=["old number unknown", "new number unknown", "both"],
)
def test_column_that_may_be_a_renamed_one_is_refused(old: Column, new: Column) -> None:
    """I8: taken for a new one it would have nulls where the source kept its values."""
    with pytest.raises(OperatorError, match=r"column b of table public\.t may be what a was") as refused:
        shape_steps(fields_of(ID, old), fields_of(ID, new), "public.t")
    assert "walbridge copy TABLE" in refused.value.remedy


def numeric(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


WIDER = [
    ("int2", "int4", -1, -1),
    ("int2", "int8", -1, -1),
    ("int4", "int8", -1, -1),
    ("float4", "float8", -1, -1),
    ("varchar", "text", 14, -1),
    ("text", "varchar", -1, -1),
    ("bit", "varbit", 8, -1),
    ("varchar", "varchar", 14, 24),
    ("varchar", "varchar", 14, -1),
    ("timestamp", "timestamp", 3, 6),
    ("numeric", "numeric", numeric(10, 2), numeric(12, 2)),
    ("numeric", "numeric", numeric(10, 2), numeric(12, 4)),
    ("numeric", "numeric", numeric(12, 4), -1),
    ("numeric", "numeric", numeric(5, -2), -1),
    ("numeric", "numeric", numeric(40, 4), -1),
    ("numeric", "numeric", numeric(40, 4), numeric(50, 4)),
    ("numeric", "numeric", numeric(12, 4), numeric(40, 4)),
    ("price", "numeric", -1, -1),
    ("text", "bpchar", -1, -1),
    ("bpchar", "bpchar", 14, -1),
    ("citext", "varchar", -1, -1),
    ("timestamp", "timestamp", 6, -1),
    ("timestamp", "timestamp", -1, 6),
    ("timetz", "timetz", 3, 4),
    ("interval", "interval", (0x7FFF << 16) | 3, -1),
    ("interval", "interval", -1, (0x7FFF << 16) | 6),
    ("interval", "interval", (0x7FFF << 16) | 3, (0x7FFF << 16) | 5),
    ("vector", "vector", 3, -1),
    ("timestamp", "timestamptz", -1, -1),
    ("timestamptz", "timestamp", 3, -1),
    ("int4", "whole", -1, -1),
    ("whole", "int4", -1, -1),
    ("whole", "int8", -1, -1),
    ("note", "text", -1, -1),
    ("varchar", "note", 14, -1),
    ("numeric", "price", numeric(10, 2), -1),
    ("numeric", "price", numeric(8, 2), -1),
    ("price", "numeric", -1, numeric(12, 2)),
    ("_int2", "_int8", -1, -1),
    ("_int4", "_int8", -1, -1),
    ("uuid", "text", -1, -1),
    ("jsonb", "varchar", -1, -1),
    ("varchar", "json", 14, -1),
    ("_uuid", "_varchar", -1, -1),
    ("_varchar", "_text", 14, -1),
    ("_varchar", "_varchar", 14, 24),
    ("mood", "text", -1, -1),
    ("mood", "varchar", -1, -1),
    ("_mood", "_text", -1, -1),
]
OTHER = [
    ("int8", "int4", -1, -1),
    ("int4", "text", -1, -1),
    ("text", "jsonb", -1, -1),
    ("varchar", "varchar", 24, 14),
    ("text", "varchar", -1, 14),
    ("bit", "varbit", 8, 4),
    ("varchar", "varchar", -1, 14),
    ("bpchar", "bpchar", 14, 24),
    ("timestamp", "timestamp", 6, 3),
    ("timestamp", "timestamptz", -1, 3),
    ("timestamp", "timestamp", -1, 3),
    ("interval", "interval", -1, (0x7FFF << 16) | 3),
    ("interval", "interval", -1, (4 << 16) | 0xFFFF),
    ("vector", "vector", -1, 3),
    ("text", "bpchar", -1, 14),
    ("numeric", "numeric", -1, numeric(12, 4)),
    ("numeric", "numeric", numeric(12, 4), numeric(40, 5)),
    ("numeric", "numeric", numeric(50, 4), numeric(40, 4)),
    ("numeric", "numeric", numeric(5, -2), numeric(6, -3)),
    ("numeric", "numeric", numeric(10, 2), numeric(10, 4)),
    ("numeric", "numeric", numeric(10, 4), numeric(10, 2)),
    ("numeric", "numeric", numeric(10, 2), numeric(9, 2)),
    ("int8", "whole", -1, -1),
    ("price", "numeric", -1, numeric(9, 2)),
    ("hstore", "note", -1, -1),
    ("_int8", "_int4", -1, -1),
    ("_float4", "_float8", -1, -1),
    ("uuid", "varchar", -1, 14),
    ("text", "uuid", -1, -1),
    ("_varchar", "_varchar", 24, 14),
    ("mood", "varchar", -1, 14),
    ("mood", "json", -1, -1),
    ("text", "mood", -1, -1),
    ("feeling", "text", -1, -1),
    ("box", "text", -1, -1),
]


@pytest.mark.parametrize(("old", "new", "old_typmod", "typmod"), WIDER)
def test_wider_type_keeps_old_values(old: str, new: str, old_typmod: int, typmod: int) -> None:
    found = steps([ID, column("a", old, typmod=old_typmod)], [ID, column("a", new, typmod=typmod)])

    assert not found.is_empty
    assert "a" in [origin for _, origin in found.rewrite or ()] or [field.name for field in found.describe] == ["a"]


@pytest.mark.parametrize(("old", "new", "old_typmod", "typmod"), OTHER)
def test_type_change_that_may_change_values_is_refused(old: str, new: str, old_typmod: int, typmod: int) -> None:
    """I7: Postgres rewrites such a table and sends none of its rows."""
    with pytest.raises(OperatorError, match=r"column a of table public\.t"):
        steps([ID, column("a", old, typmod=old_typmod)], [ID, column("a", new, typmod=typmod)])


def test_base_of_a_domain_is_forgotten_when_the_column_is_no_domain_any_more() -> None:
    """Metadata of a column are set, never taken away: a stale base would excuse a later change of type."""
    (described,) = steps([ID, column("a", "note")], [ID, column("a", "text")]).describe
    found = TableShape(relation([ID, column("a", "note")])).fields
    kept = [
        field if field.name != "a" else replace(field, metadata={**field.metadata, **described.metadata})
        for field in found
    ]

    assert shape_steps(kept, TableShape(relation([ID, column("a", "text")])).fields, "public.t").is_empty
    with pytest.raises(OperatorError):
        shape_steps(kept, TableShape(relation([ID, column("a", "int4")])).fields, "public.t")
    assert described.metadata["pg.base"] == ""


def test_column_may_be_left_out_of_an_update_only_where_postgres_may_leave_it_out() -> None:
    """I6: never of the key, never under FULL, and only what may be stored out of line."""
    columns = [column("k", "text", is_key=True), column("body"), column("tags", "_int4"), column("n", "int4")]

    assert TableShape(relation(columns)).toastable_places == [1, 2]
    assert TableShape(relation(columns, identity="f")).toastable_places == []


@pytest.mark.parametrize(
    ("identity", "is_key", "expected"), [("f", False, True), ("f", True, False), ("d", False, False)]
)
def test_table_is_a_multiset_when_it_has_no_key_and_old_rows_are_whole(
    identity: str, is_key: bool, expected: bool
) -> None:
    assert TableShape(relation([column("n", "int4", is_key=is_key)], identity=identity)).is_keyless is expected
