"""The run on servers passes over the modules that have unit tests alone, and over no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit_modules import of_units_alone, read, write


def module(tests: Path, name: str, text: str = "") -> Path:
    path = tests / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_modules_are_passed_over_that_were_told(tmp_path: Path) -> None:
    unit, _ = module(tmp_path, "folder/test_unit.py"), module(tmp_path, "test_servers.py")

    write(tmp_path / "told", tmp_path, [unit])

    assert read(tmp_path / "told", tmp_path) == {unit}


def test_nothing_is_passed_over_where_nothing_was_told_or_any_module_is_another(tmp_path: Path) -> None:
    unit, fixtures = module(tmp_path, "test_unit.py"), module(tmp_path, "conftest.py")
    told = tmp_path / "told"
    assert read(told, tmp_path) == frozenset()

    write(told, tmp_path, [unit])
    fixtures.write_text("# another")

    assert read(told, tmp_path) == frozenset()


def test_module_with_one_test_on_servers_is_not_of_units_alone(request: pytest.FixtureRequest) -> None:
    unit, servers = (
        pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None)
        for name in ("unit", "servers")
    )
    servers.add_marker(pytest.mark.servers)

    assert of_units_alone([unit]) == {Path(__file__)}
    assert of_units_alone([unit, servers]) == set()
