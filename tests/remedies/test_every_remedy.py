"""Every remedy that the programs can print is followed by a test, or is on a list that only gets shorter."""

from __future__ import annotations

import ast

from tests.documents import ROOT
from tests.remedies.followed import FOLLOWED, NOT_FOLLOWED_YET
from tests.remedies.sites import sites

NOT_FOLLOWED_MAX = 139
"""Lowered with each that is followed."""


def test_each_place_that_names_a_remedy_is_known() -> None:
    """A new one needs a test that follows its remedy, and its line in ``followed.py``."""
    assert sites() == FOLLOWED.keys() | NOT_FOLLOWED_YET
    assert not FOLLOWED.keys() & NOT_FOLLOWED_YET


def test_tests_that_follow_remedies_are_there() -> None:
    for test in FOLLOWED.values():
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def test_list_of_those_that_nobody_follows_gets_no_longer() -> None:
    assert len(NOT_FOLLOWED_YET) == NOT_FOLLOWED_MAX
