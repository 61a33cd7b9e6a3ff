"""Every remedy that the programs can print is followed by a test, or is on a list that only gets shorter."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.documents import ROOT
from tests.remedies import followed
from tests.remedies.findings import findings
from tests.remedies.followed import NOT_FOLLOWED_YET
from tests.remedies.followed_findings import FINDINGS_BY_TEST, UNMENDABLE
from tests.remedies.more_followed import BY_TEST, MORE_FOLLOWED
from tests.remedies.out_of_reach import OUT_OF_REACH
from tests.remedies.sites import sites

FOLLOWED = followed.FOLLOWED | MORE_FOLLOWED
NOT_FOLLOWED_MAX = 0
"""Lowered with each that is followed."""
UNMENDABLE_MAX = 6


def test_each_place_that_names_a_remedy_is_known() -> None:
    """A new one needs a test that follows its remedy, and its line in ``followed.py``."""
    places = sites()
    assert places == set().union(FOLLOWED, OUT_OF_REACH, NOT_FOLLOWED_YET)
    counts = (len(followed.FOLLOWED), *map(len, BY_TEST.values()), len(OUT_OF_REACH), len(NOT_FOLLOWED_YET))
    assert sum(counts) == len(places), "each is on one list, once"


def test_tests_that_follow_remedies_are_there() -> None:
    named = defaultdict(set)
    for test in {*FOLLOWED.values(), *FINDINGS_BY_TEST}:
        path, _, name = test.partition("::")
        named[path].add(name)
    for path, names in named.items():
        tree = ast.parse((ROOT / path).read_text())
        assert names <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, path


def test_each_finding_that_names_a_remedy_is_followed_by_a_test_or_cannot_be() -> None:
    """Those of ``walbridge check``: a new one needs its line in ``followed_findings.py``."""
    followed_by_test = [each for places in FINDINGS_BY_TEST.values() for each in places]
    assert findings() == {*followed_by_test} | UNMENDABLE.keys()
    assert len(findings()) == len(followed_by_test) + len(UNMENDABLE), "each is on one list, once"
    assert all(reason.endswith(".") and len(reason.split()) >= 8 for reason in UNMENDABLE.values())
    assert len(UNMENDABLE) == UNMENDABLE_MAX


OUT_OF_REACH_MAX = 21
"""It is no place for what is only hard to follow."""


def test_places_that_are_out_of_reach_are_few_and_say_why() -> None:
    assert len(OUT_OF_REACH) <= OUT_OF_REACH_MAX
    assert all(reason.endswith(".") and len(reason.split()) >= 8 for reason in OUT_OF_REACH.values())


def test_list_of_those_that_nobody_follows_gets_no_longer() -> None:
    assert len(NOT_FOLLOWED_YET) == NOT_FOLLOWED_MAX
