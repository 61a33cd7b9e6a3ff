"""A demo's tables stay to be looked at until the next demo, and no longer unless kept."""

from pathlib import Path

import pytest

from walbridge.demo.demo_folder import DemoFolder


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("walbridge.demo.demo_folder.folder", lambda name: tmp_path)


def test_next_demo_removes_the_last_ones_folder() -> None:
    last = DemoFolder(keep=False)
    last.lake.mkdir()
    last.release()
    assert last.lake.is_dir()

    DemoFolder(keep=False).release()

    assert not last.path.exists()


def test_kept_folder_stays() -> None:
    kept = DemoFolder(keep=True)
    kept.release()

    DemoFolder(keep=False).release()

    assert kept.path.is_dir()


def test_folder_of_a_running_demo_stays() -> None:
    running = DemoFolder(keep=False)

    DemoFolder(keep=False).release()

    assert running.path.is_dir()
    running.release()
