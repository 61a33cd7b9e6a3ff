"""Files of keys, and what ``walbridge copy --keys`` waits for and refuses: no server is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.walbridge.tables.test_copy_words import COPYING, CURRENT, ORDERS, STALE, known, progress
from walbridge.producer.postgres.table_reads.key_order import KeyColumn, KeyOrder
from walbridge.schemas.control.table_progress import TableCopy, TableProgress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.tables.keys import KeysWait, _lines, _refuse_other_than_current

LISTED = replace(CURRENT, copy=TableCopy(Lsn(1), has_all_ranges=True, listed={b"{}": b""}))


def key(*names: str) -> KeyOrder:
    return KeyOrder(tuple(KeyColumn(name, "text", "text", None, False, "=", ">", "<", "text") for name in names))


def read(path: Path, text: str, *names: str) -> list[tuple[str, ...]]:
    file = path / "keys"
    file.write_text(text, newline="")
    return [bound.values for bound in _lines(file, key(*names))]


def test_keys_of_one_column_are_csv_too(tmp_path: Path) -> None:
    """A line of COPY's text format has escapes: a key with a backslash, and every bytea, would be another key."""
    assert read(tmp_path, '1\r\n\n"2, 3"\n ä ', "id") == [("1",), ("2, 3",), (" ä ",)]
    odd = read(tmp_path, '\\xdead\na\\b\n""\n"two\nlines"\n', "id")
    assert odd == [("\\xdead",), ("a\\b",), ("",), ("two\nlines",)]


def test_only_line_ends_end_a_key(tmp_path: Path) -> None:
    """Python knows others, which are signs like any in a text."""
    for sign in "\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        assert read(tmp_path, f"a{sign}b\nc\n", "id") == [(f"a{sign}b",), ("c",)]


def test_keys_of_several_columns_are_csv(tmp_path: Path) -> None:
    found = read(tmp_path, '1,"a ""b"", c"\n\n2,\n3,"two\nlines"\n', "id", "name")
    assert found == [("1", 'a "b", c'), ("2", ""), ("3", "two\nlines")]


@pytest.mark.parametrize(
    ("text", "what"),
    [("1,a\n2\n", "key 2 of .* has 1 values, and the key is .id, name."), ('1,"a" b\n', "is no text of keys: Error")],
)
def test_file_of_something_else_is_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(OperatorError, match=what):
        read(tmp_path, text, "id", "name")


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be read: No such file"):
        list(_lines(tmp_path / "none", key("id")))


@pytest.mark.parametrize(
    ("standing", "asked", "state"),
    [
        (COPYING, frozenset(), "is copying"),
        (STALE, frozenset(), "is stale"),
        (None, frozenset(), "is new"),
        (CURRENT, frozenset({ORDERS}), "is to be copied again"),
    ],
)
def test_rows_of_a_table_that_is_copied_as_a_whole_are_not_asked_for(
    standing: TableProgress | None, asked: frozenset[int], state: str
) -> None:
    of = progress(*([standing] if standing else []), asked=asked)
    with pytest.raises(OperatorError, match=f"table public.orders {state}: rows of a table that is current alone"):
        _refuse_other_than_current(known("public.orders", progress=standing), of)


@pytest.mark.parametrize(
    ("standing", "read_until", "result"),
    [
        (CURRENT, 5, None),
        (LISTED, 6, None),
        (CURRENT, 6, ""),
        (replace(CURRENT, why="not copied again: so"), 6, "not copied again: so"),
        (STALE, 6, "it is stale: its topic is gone"),
        (None, 6, "it is gone from the pipeline"),
    ],
)
def test_rows_are_there_once_progress_lists_no_key_any_more(
    standing: TableProgress | None, read_until: int, result: str | None
) -> None:
    waits = KeysWait(known("public.orders"), 5)
    assert waits.result(progress(*([standing] if standing else []), read=read_until)) == result
