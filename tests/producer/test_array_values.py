"""Arrays: Postgres' literals taken apart, and shapes that Avro's arrays do not have."""

import tracemalloc
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.encoded_values import is_exceptional, through
from tests.schemas.strategies import numeric_typmod
from walbridge.schemas.avro.value_encoders import split_array


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{NULL}", [None]),
        ('{"NULL"}', [b"NULL"]),
        ('{"null",NULL}', [b"null", None]),
        ('{""}', [b""]),
        ("{a,b}", [b"a", b"b"]),
        ('{"a,b","{}"," "}', [b"a,b", b"{}", b" "]),
        (r'{"\"","\\","\\\""}', [b'"', b"\\", b'\\"']),
        ('{"line\nfeed"}', [b"line\nfeed"]),
        ('{"\\\n"}', [b"\n"]),
        (r'{"{\"{\\\\}\"}"}', [b'{"{\\\\}"}']),
        ("{é,😀}", ["é".encode(), "😀".encode()]),
    ],
)
def test_elements_of_an_array_are_unquoted(text: str, items: list[bytes | None]) -> None:
    assert items == split_array(text.encode())


@pytest.mark.parametrize("text", ["[0:1]={a,b}", "[2:2]={a}", "{{a},{b}}", "{{}}", "[1:1][0:1]={{a,b}}", "[-1:0]={}"])
def test_array_of_another_shape_is_exceptional(text: str) -> None:
    assert split_array(text.encode()) is None


def literal(items: list[str | None]) -> str:
    """As ``array_out`` prints it."""
    return "{" + ",".join(map(_element, items)) + "}"


def _element(item: str | None) -> str:
    if item is None:
        return "NULL"
    if item and item.upper() != "NULL" and not any(char in '{}",\\ \t\n\r\v\f' for char in item):
        return item
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.lists(st.none() | st.text(st.sampled_from(',"\\{}NUL null\n é😀'), max_size=12) | st.text(max_size=8)))
def test_any_array_of_text_reads_back(items: list[str | None]) -> None:
    assert items == through("_text", literal(items))


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)))
def test_any_array_of_int4_reads_back(items: list[int | None]) -> None:
    assert items == through("_int4", literal([None if item is None else str(item) for item in items]))


def test_array_with_an_element_that_its_type_cannot_hold_is_exceptional() -> None:
    assert is_exceptional("_date", "{2000-01-01,infinity}")
    assert is_exceptional("_numeric", "{1.00,NaN}", numeric_typmod(10, 2))
    assert [date(2000, 1, 1), None] == through("_date", "{2000-01-01,NULL}")


def test_long_element_takes_memory_as_its_length() -> None:
    """I9: a pattern that can go back keeps a hundred bytes a character."""
    for item in ("x" * 200_000, '"' * 100_000, 'a"' * 60_000):
        text = ('{"' + item.replace('"', '\\"') + '"}').encode()
        tracemalloc.start()
        try:
            items = split_array(text)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert [item.encode()] == items
        assert peak_bytes < 9 * len(text)
