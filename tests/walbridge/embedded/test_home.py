from __future__ import annotations

import os
from pathlib import Path

import pytest

from walbridge.embedded import home as module
from walbridge.embedded.folders import RunFolder
from walbridge.embedded.home import MODE, UnsafeHomeError, enterable_by_others, home, located, remove, wanted


@pytest.fixture
def open_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of which only the part below ``tmp_path`` is asked whether others may enter."""
    monkeypatch.setattr(module, "enterable_by_others", lambda folder: (tmp_path / "closed") not in folder.parents)
    return tmp_path


def test_variable_wins() -> None:
    assert wanted({"WALBRIDGE_HOME": "/somewhere"}) == Path("/somewhere")


def test_checkout_uses_its_build_folder() -> None:
    assert wanted({}) == Path(__file__).resolve().parents[3] / "build"


def test_installed_package_uses_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "site-packages" / "walbridge" / "embedded" / "home.py"))

    assert wanted({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/walbridge")
    assert wanted({}) == Path.home() / ".cache" / "walbridge"


def test_root_moves_where_others_cannot_enter(open_path: Path) -> None:
    closed = {"WALBRIDGE_HOME": str(open_path / "closed" / "home")}

    assert located(closed, uid=0).parent == Path("/var/tmp")
    assert located(closed, uid=0) != located({"WALBRIDGE_HOME": str(open_path / "closed" / "other")}, uid=0)
    assert located(closed, uid=1000) == open_path / "closed" / "home"
    assert located({"WALBRIDGE_HOME": str(open_path / "open")}, uid=0) == open_path / "open"


@pytest.mark.parametrize("name", ["a folder", "Straße", "a:b", "50%", "it's", "$HOME", "#1"])
def test_folder_that_make_or_java_cannot_take_is_another_one(name: str, open_path: Path) -> None:
    """A checkout below it is used as any other."""
    for uid in (0, 1000):
        assert located({"WALBRIDGE_HOME": str(open_path / name / "build")}, uid=uid).parent == Path("/var/tmp")


def test_folder_whose_parent_is_closed_is_not_enterable(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    assert not enterable_by_others(closed / "home")
    assert closed.stat().st_mode & 0o777 == 0o700  # looked at, not changed


def test_folder_is_made_with_its_mode_whatever_the_umask(open_path: Path) -> None:
    before = os.umask(0o077)
    try:
        made = home({"WALBRIDGE_HOME": str(open_path / "home")})
    finally:
        os.umask(before)

    assert made.stat().st_mode & 0o777 == MODE


def test_folder_with_foreign_contents_is_neither_filled_nor_removed(open_path: Path) -> None:
    environ = {"WALBRIDGE_HOME": str(open_path / "mine")}
    (open_path / "mine").mkdir()
    (open_path / "mine" / "thesis.tex").touch()

    with pytest.raises(UnsafeHomeError, match="walbridge did not make"):
        home(environ)
    with pytest.raises(UnsafeHomeError, match="walbridge did not make"):
        remove(environ)


def test_removed_folder_is_gone(open_path: Path) -> None:
    environ = {"WALBRIDGE_HOME": str(open_path / "home")}
    home(environ)

    assert not remove(environ).exists()


def test_folder_of_a_killed_run_is_removed_by_the_next_and_a_living_or_kept_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALBRIDGE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(module, "enterable_by_others", lambda folder: True)
    living, kept, killed = RunFolder("a"), RunFolder("b", keep=True), RunFolder("c")
    kept._owner.close()
    killed._owner.close()  # as the kernel does
    last = RunFolder("d")

    assert [run.path.exists() for run in (living, kept, killed, last)] == [True, True, False, True]
    living.remove()
    last.remove()
