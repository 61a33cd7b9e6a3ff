from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.postgres_versions import MAJORS
from walbridge.embedded import home, ivy, jars
from walbridge.embedded.ivy import Coordinate
from walbridge.schemas.errors import OperatorError

CONTENT = b"a jar"
RIGHT = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A home under ``tmp_path`` and an Ivy that writes ``CONTENT``; what was fetched is in the list."""
    calls: list[str] = []

    def retrieve(coordinates: Sequence[Coordinate], into: Path, report: jars.Report) -> None:
        for coordinate in coordinates:
            calls.append(str(coordinate))
            (into / coordinate.file_name).write_bytes(CONTENT)

    monkeypatch.setenv("WALBRIDGE_HOME", str(tmp_path / "home"))
    # Root's home leaves a closed folder, such as pytest's, for one that outlives the test.
    monkeypatch.setattr(home, "enterable_by_others", lambda folder: True)
    monkeypatch.setattr(ivy, "retrieve", retrieve)
    monkeypatch.setattr(jars, "LOCK", tmp_path / "jars.lock")
    return calls


def lock(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    def read(_: object = None) -> list[jars.LockedJar]:
        path = jars.LOCK
        path.write_text("\n".join(["# a comment", *lines]))
        return original(path)

    original = jars.read_lock
    monkeypatch.setattr(jars, "read_lock", read)


def test_bad_checksum_is_refused_and_nothing_is_kept(
    fetched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(monkeypatch, f"{'0' * 64} spark org.x:a:1")

    with pytest.raises(OperatorError, match=r"a-1\.jar is not the file"):
        jars.fetch(["spark"])
    with pytest.raises(OperatorError, match=r"a-1\.jar is not the file"):
        jars.fetch(["spark"])
    assert len(fetched) == 2


def test_second_fetch_touches_no_network(fetched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lock(monkeypatch, f"{RIGHT} spark org.x:a:1", f"{RIGHT} kafka org.x:b:2")

    assert [path.name for path in jars.spark_jars()] == ["a-1.jar"]
    assert [path.name for path in jars.spark_jars()] == ["a-1.jar"]
    assert fetched == ["org.x:a:1"]


def test_changed_lock_replaces_the_whole_set(fetched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    original = jars.read_lock
    lock(monkeypatch, f"{RIGHT} spark org.x:a:1")
    jars.spark_jars()
    monkeypatch.setattr(jars, "read_lock", original)
    lock(monkeypatch, f"{RIGHT} spark org.x:a:2")

    assert [path.name for path in jars.spark_jars()] == ["a-2.jar"]


def test_unknown_set_is_refused(fetched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lock(monkeypatch, f"{RIGHT} spark org.x:a:1")

    with pytest.raises(OperatorError, match="no set 'flink'"):
        jars.fetch(["flink"])


def test_set_of_another_lock_is_fetched_and_checked_as_any_other(fetched: list[str], tmp_path: Path) -> None:
    """Of jars that only some tests need."""
    other = tmp_path / "other.lock"
    other.write_text(f"{RIGHT} connect org.x:c:3\n")

    assert [path.name for path in jars.fetch(["connect"], lock=other)["connect"].glob("*.jar")] == ["c-3.jar"]
    with pytest.raises(OperatorError, match="no set 'spark'"):
        jars.fetch(["spark"], lock=other)
    assert fetched == ["org.x:c:3"]


def test_lock_in_the_package_names_every_set_with_full_checksums() -> None:
    lines = jars.read_lock()

    assert {line.set_name for line in lines} == {*jars.SETS, "registry", *(f"postgres-{major}" for major in MAJORS)}
    assert all(len(line.sha256) == 64 for line in lines)


def test_download_that_stalls_ends_with_what_was_heard_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a firewall that drops packets Ivy would wait for ever."""
    monkeypatch.setattr(ivy, "STALL_S", 0.2)
    stalls = "import time; print('resolving', flush=True); time.sleep(600)"

    tail = ivy._run([sys.executable, "-c", stalls], lambda line: None)

    assert tail is not None
    assert tail[-1] == "nothing was heard for 0.2 s"
