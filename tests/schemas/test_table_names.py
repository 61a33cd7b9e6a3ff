"""A name in the settings means one table, whatever characters it has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.schemas.errors import OperatorError
from walbridge.schemas.table_names import qualified, split_name

PARTS = st.text(min_size=1, max_size=8, alphabet=st.sampled_from('ab.". Ü'))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("orders", ("public", "orders")),
        ("sales.orders", ("sales", "orders")),
        ("Odd schema.T x", ("Odd schema", "T x")),
        ("sales.a.b", ("sales", "a.b")),
        ('"a.b".c', ("a.b", "c")),
        ('"a.b"', ("public", "a.b")),
        ('sales."a""b"', ("sales", 'a"b')),
    ],
)
def test_name_is_split_at_the_first_dot_that_is_not_quoted(written: str, parts: tuple[str, str]) -> None:
    assert split_name(written) == parts


@given(PARTS, PARTS)
def test_quoted_names_may_hold_any_character(schema: str, name: str) -> None:
    assert split_name(f"{_quoted(schema)}.{_quoted(name)}") == (schema, name)


@pytest.mark.parametrize("written", ["", ".", "sales.", ".orders", '"', '"orders', 'sales."orders', '"".orders'])
def test_what_names_no_table_is_refused(written: str) -> None:
    with pytest.raises(OperatorError, match="names no table"):
        split_name(written)


def test_qualified_name_is_shown_without_quotes() -> None:
    assert qualified('"a.b"."c d"') == "a.b.c d"
