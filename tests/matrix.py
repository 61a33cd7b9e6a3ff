"""Which feature was tested on which version of Postgres: collected while tests run, shown in docs/versions.md.

In: ``@pytest.mark.feature(name, …)`` of tests, their versions and outcomes. Out, with MATRIX=1:
``build/matrix.json``; ``python -m tests.matrix`` takes it over into ``tests/data/matrix.json`` and
the page. A cell is ticked only if a test of it ran there and all of them passed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.postgres_versions import MAJORS

ROOT = Path(__file__).parents[1]
RUN = ROOT / "build" / "matrix.json"
DATA = ROOT / "tests" / "data" / "matrix.json"
PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- matrix: made by `make matrix` -->\n", "<!-- end of matrix -->\n"

FEATURES: dict[str, int] = {
    "first copy, then every change, into the lake": 12,
    "the producer killed in between": 12,
    "every set of options gives the same events": 12,
    "options: all that the server has, and no more": 12,
    "partitions through their root": 13,
    "values in binary": 14,
    "large transactions before they end": 14,
    "the same in parallel": 16,
    "prepared transactions": 15,
    "origin of replicated changes": 12,
    "logical messages": 14,
    "row filters": 15,
    "column lists": 15,
    "generated columns": 18,
    "publications altered while they are followed": 12,
}
"""What is claimed, in the page's order, and the first version that has it."""

Passed = Mapping[str, Mapping[str, int]]
"""Feature → version → how many tests of it passed."""

_outcomes: dict[tuple[str, int], Counter[str]] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in features_of(item):
            if name not in FEATURES:
                raise pytest.UsageError(f"{item.nodeid}: {name!r} is no feature of tests/matrix.py")


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.user_properties += [("feature", f"{major_of(item)} {name}") for name in features_of(item)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        for kind, value in report.user_properties:
            if kind == "feature":
                major, _, name = str(value).partition(" ")
                _outcomes.setdefault((name, int(major)), Counter())[report.outcome] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("MATRIX") and not hasattr(session.config, "workerinput"):
        RUN.parent.mkdir(exist_ok=True)
        RUN.write_text(as_json(passed(_outcomes)))


def features_of(item: pytest.Item) -> list[str]:
    """What its markers name."""
    return [name for mark in item.iter_markers("feature") for name in mark.args]


def major_of(item: pytest.Item) -> int:
    """The version among its parameters; the shared server's where there is none."""
    callspec = getattr(item, "callspec", None)
    found = [value for value in (callspec.params.values() if callspec else ()) if value in MAJORS]
    return int(found[0]) if found else MAJORS[-1]


def passed(outcomes: Mapping[tuple[str, int], Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """How often each passed; nothing of what failed or was skipped anywhere."""
    found: dict[str, dict[str, int]] = {name: {} for name in FEATURES}
    for (name, major), counts in sorted(outcomes.items()):
        if set(counts) == {"passed"}:
            found[name][str(major)] = counts["passed"]
    return found


def as_json(found: Passed) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def table(found: Passed) -> str:
    """The page's lines."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in _rows(found))


def _rows(found: Passed) -> Iterator[list[str]]:
    yield ["on Postgres", *map(str, MAJORS)]
    yield ["---", *[":-:"] * len(MAJORS)]
    for name, since in FEATURES.items():
        ticked = found.get(name, {})
        yield [name, *("—" if major < since else "✓" if ticked.get(str(major)) else "" for major in MAJORS)]


def written_into(page: str, found: Passed) -> str:
    """The page with this table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, "docs/versions.md lost the marks of its matrix"
    return before + BEGIN + table(found) + END + after


def main() -> None:
    """Take over what the last run collected."""
    found = json.loads(RUN.read_text())
    DATA.write_text(as_json(found))
    PAGE.write_text(written_into(PAGE.read_text(), found))
    print(table(found))


if __name__ == "__main__":
    main()
