"""What ``make test`` leaves to ``make variants`` is one more of a kind that it shows.

In: the sources of all tests. A whole test that is left names one that is not (``variant(of=…)``); parameters that are
left (``in_soak.py``) stand beside those that are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.remedies.followed import FOLLOWED
from tests.remedies.followed_findings import FINDINGS_BY_TEST
from tests.remedies.more_followed import MORE_FOLLOWED

TESTS = Path(__file__).parent
TEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
VARIANT = re.compile(r"^@pytest\.mark\.variant\(\s*of=\"(?P<of>\w+)\"\s*\)", re.MULTILINE)
SOAK = re.compile(r"^@pytest\.mark\.soak$", re.MULTILINE)


@cache
def marks() -> dict[str, list[tuple[Path, str]]]:
    """What stands above each test, by its name, in every file that has one of that name."""
    found: dict[str, list[tuple[Path, str]]] = {}
    for path in TESTS.rglob("test_*.py"):
        for definition in path.read_text().split("\n\n\n"):
            if test := TEST.search(definition):
                found.setdefault(test[1], []).append((path, definition[: test.start()]))
    return found


def variants() -> Iterator[tuple[str, Path, str]]:
    """The name of each, its file, and the test that it names."""
    for name, tests in marks().items():
        for path, above in tests:
            for mark in VARIANT.finditer(above):
                yield name, path, mark["of"]


def is_run(name: str) -> bool:
    """Whether ``make test`` runs a test of that name, with one set of parameters at least."""
    return any(not VARIANT.search(above) and not SOAK.search(above) for _, above in marks().get(name, ()))


def test_each_variant_names_a_test_of_its_kind_that_is_run() -> None:
    assert [(name, of) for name, _, of in variants() if not is_run(of)] == []


def test_no_remedy_is_followed_by_a_variant_alone() -> None:
    follow = {*FOLLOWED.values(), *MORE_FOLLOWED.values(), *FINDINGS_BY_TEST}
    assert follow & {f"{path.relative_to(TESTS.parent)}::{name}" for name, path, _ in variants()} == set()
