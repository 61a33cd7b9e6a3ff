"""What forks producers may be killed itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import forked_producer
from tests.forked_producer import Template, template


@pytest.fixture(autouse=True)
def _of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_producer, "_of_this_process", [])


def exit_code_of_a_start(of: Template, folder: Path) -> int | None:
    with (folder / "log").open("wb") as log:
        started = of.start(["--config", str(folder / "missing.toml")], os.environ, log.fileno())
    return started.wait(60)


@pytest.mark.simulation
def test_template_that_was_killed_is_replaced_by_another(tmp_path: Path) -> None:
    first = template()
    assert exit_code_of_a_start(first, tmp_path) == 2
    first._process.kill()
    first._process.wait()

    second = template()

    assert second is not first
    assert template() is second
    assert exit_code_of_a_start(second, tmp_path) == 2
    second._process.kill()
    second._process.wait()
