"""Rows of both sides under their keys: pure."""

from __future__ import annotations

from walbridge.verify.comparison.differences import Row, differences


def test_rows_are_compared_as_multisets_under_their_key() -> None:
    source = [("1", Row(b"a", "v1")), ("2", Row(b"b", "v1")), ("3", Row(b"c", "v1"))]
    lake = [("3", Row(b"C", "p")), ("1", Row(b"a", "p")), ("4", Row(b"d", "p"))]
    found = differences(source, lake)
    assert {key: found[key].kind for key in found} == {"2": "missing", "3": "different", "4": "extra"}
