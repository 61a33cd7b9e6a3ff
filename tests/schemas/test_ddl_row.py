"""Rows about DDL are read as they were written; what cannot be read is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.schemas.ddl_row import (
    COLUMNS,
    DROP,
    END,
    FORMAT,
    PARTITIONS,
    REWRITE,
    Attached,
    DdlRow,
    ToldColumn,
    ToldColumns,
    is_ddl_table,
    parse_ddl_row,
)

REWRITTEN = {"v": 1, "event": REWRITE, "tag": "ALTER TABLE", "relation": 7, "file": 9, "reason": 4, "ancestors": [5]}
TYPED = {"is_plain": True, "types": [[1, 23, -1]]}
ROWS: list[tuple[dict[str, Any], DdlRow]] = [
    (REWRITTEN, DdlRow(REWRITE, 7, frozenset({5, 7}), 9)),
    (REWRITTEN | {"reason": 8}, DdlRow(REWRITE, 7, frozenset({5, 7}), 9, keeps_values=True)),
    (REWRITTEN | {"reason": 12}, DdlRow(REWRITE, 7, frozenset({5, 7}), 9)),
    (REWRITTEN | TYPED, DdlRow(REWRITE, 7, frozenset({5, 7}), 9, is_plain=True, types=frozenset({(1, 23, -1)}))),
    (REWRITTEN | TYPED | {"is_plain": None}, DdlRow(REWRITE, 7, frozenset({5, 7}), 9, types=frozenset({(1, 23, -1)}))),
    (
        REWRITTEN | {"made_casts": [[600001, 25]]},
        DdlRow(REWRITE, 7, frozenset({5, 7}), 9, made_casts=frozenset({(600001, 25)})),
    ),
    (REWRITTEN | {"reason": 6, "is_plain": True}, DdlRow(REWRITE, 7, frozenset({5, 7}), 9)),
    ({"v": 1, "event": END, "relation": 7, "file": 10}, DdlRow(END, 7, file=10)),
    ({"v": 1, "event": DROP, "relations": [3, 4]}, DdlRow(DROP, gone=frozenset({3, 4}))),
    (
        {
            "v": 1,
            "event": PARTITIONS,
            "relation": 7,
            "ancestors": [],
            "attached": [{"relation": 8, "is_empty": True}],
            "detached": [9],
        },
        DdlRow(PARTITIONS, 7, frozenset({7}), attached=(Attached(8, True),), gone=frozenset({9})),
    ),
]

OF_COLUMNS = {
    "v": 1,
    "event": COLUMNS,
    "relation": 7,
    "count": 4,
    "by": "x",
    "may_have_grown": True,
    "is_untold": False,
}
TOLD = {"columns": [[1, "a", 23, -1], [3, "b", 25, -1, "v"], [4, "c", 25, -1, None]], "fresh": [3, 4]}
A, B, C = (
    ToldColumn(1, "a", 23, -1),
    ToldColumn(3, "b", 25, -1, "v"),
    ToldColumn(4, "c", 25, -1, is_value_told=False),
)
ROWS += [
    (
        OF_COLUMNS | TOLD,
        DdlRow(COLUMNS, 7, told=ToldColumns(4, "x", (A, B, C), frozenset({3, 4}), may_have_grown=True)),
    ),
    (OF_COLUMNS, DdlRow(COLUMNS, 7, told=ToldColumns(4, "x", may_have_grown=True))),
    (
        OF_COLUMNS | {"is_untold": None, "may_have_grown": None, "columns": [], "fresh": None},
        DdlRow(COLUMNS, 7, told=ToldColumns(4, "x", (), is_untold=True)),
    ),
]


@pytest.mark.parametrize(("row", "expected"), ROWS)
def test_row_says_what_the_command_did(row: dict[str, Any], expected: DdlRow) -> None:
    assert parse_ddl_row(json.dumps(row)) == expected


@pytest.mark.parametrize("columns", [[[1]], [["a", "b", 23, -1]], [[1, 2, 23, -1]], [[1, "a", 23, -1, 7]], 5])
def test_row_with_a_column_that_is_none_is_left_out(columns: object) -> None:
    assert parse_ddl_row(json.dumps(OF_COLUMNS | {"columns": columns})) is None


@pytest.mark.parametrize("row", [REWRITTEN | {"v": FORMAT + 1}, REWRITTEN | {"event": "login"}, {"v": 1}, [], 7, None])
def test_row_of_newer_code_or_without_sense_is_left_out(row: object) -> None:
    """A look at the catalogue finds what it would have told."""
    assert parse_ddl_row(json.dumps(row)) is None


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), lambda of: st.lists(of)).map(json.dumps))
def test_any_text_is_read_or_left_out(text: str) -> None:
    assert parse_ddl_row(text) is None


@given(
    st.dictionaries(
        st.sampled_from([*REWRITTEN, *TYPED, *OF_COLUMNS, *TOLD, "made_casts", "attached", "detached"]),
        st.integers() | st.text() | st.none(),
    )
)
def test_row_whose_fields_are_others_is_read_or_left_out(others: dict[str, Any]) -> None:
    told = parse_ddl_row(json.dumps(REWRITTEN | others))
    assert told is None or isinstance(told, DdlRow)


def test_only_the_table_of_that_schema_and_name_holds_rows_about_ddl() -> None:
    assert is_ddl_table("walbridge", "ddl_commands")
    assert not is_ddl_table("public", "ddl_commands")
