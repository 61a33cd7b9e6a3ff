"""Which modules have unit tests alone: the run on servers behind theirs need not import them, in each of its processes.

In: all tests of a run (``--write-unit-modules``). Out: a file with the modules that have no test on servers and none of
the simulation, which another run passes over (``--without-unit-modules``). The file names the state of the folder of
tests that it is of. Of another state it says nothing, and each module is collected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
BEYOND_UNITS = ("servers", "simulation")
_PASSED_OVER = pytest.StashKey[frozenset[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("walbridge")
    group.addoption("--write-unit-modules", metavar="FILE", help="say which modules have unit tests alone")
    group.addoption("--without-unit-modules", metavar="FILE", help="pass over those that the file names")


def pytest_configure(config: pytest.Config) -> None:
    file: str | None = config.getoption("without_unit_modules")
    config.stash[_PASSED_OVER] = frozenset() if file is None else read(Path(file), TESTS)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path in config.stash[_PASSED_OVER] else None


def tell(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Write the file, if the run was asked to: of all tests before ``-m`` selects, with all their markers."""
    file: str | None = config.getoption("write_unit_modules")
    whole = not any("::" in argument for argument in config.args)
    if file is not None and whole and getattr(config, "workerinput", {}).get("workerid", "gw0") == "gw0":
        write(Path(file), TESTS, of_units_alone(items))


def of_units_alone(items: Sequence[pytest.Item]) -> set[Path]:
    """The modules of these tests, without those of which one test needs servers or is of the simulation."""
    return {item.path for item in items} - {
        item.path for item in items if any(map(item.get_closest_marker, BEYOND_UNITS))
    }


def write(file: Path, tests: Path, modules: Iterable[Path]) -> None:
    names = sorted(str(module.relative_to(tests)) for module in modules)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps({"tests": _state(tests), "modules": names}))
    draft.replace(file)


def read(file: Path, tests: Path) -> frozenset[Path]:
    """Modules that ``file`` names; none if it is missing, or of other tests than there are."""
    try:
        said = json.loads(file.read_text())
    except FileNotFoundError:
        return frozenset()
    return frozenset(tests / name for name in said["modules"]) if said["tests"] == _state(tests) else frozenset()


def _state(tests: Path) -> str:
    """Changes with each module: a fixture elsewhere can make a unit test one on servers."""
    stats = [(str(path.relative_to(tests)), path.stat()) for path in sorted(tests.rglob("*.py"))]
    told = repr([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats])
    return hashlib.sha256(told.encode()).hexdigest()
