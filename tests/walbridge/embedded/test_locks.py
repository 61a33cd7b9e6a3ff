"""Locks must hold on any machine: no address of a registry, no path of whoever wrote them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOCKS = sorted(ROOT.glob("*.lock"))


def test_all_locks_are_looked_at() -> None:
    assert [lock.name for lock in LOCKS] == [
        "jars.lock",
        "requirements-build.lock",
        "requirements-java.lock",
        "requirements-producer.lock",
        "requirements-spark.lock",
        "requirements.lock",
    ]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_lock_names_no_address_and_no_path(lock: Path) -> None:
    text = lock.read_text()

    assert re.findall(r"\w+://|--(?:index|extra-index|find-links|trusted)\S*|@ |(?:^|\s)[.~]?/\S*", text) == []


@pytest.mark.parametrize("lock", [lock for lock in LOCKS if lock.name != "jars.lock"], ids=lambda lock: lock.name)
def test_every_requirement_is_one_version_with_hashes(lock: Path) -> None:
    requirements = re.sub(r"\\\n", " ", lock.read_text()).splitlines()
    lines = [line for line in requirements if line.strip() and not line.startswith("#")]

    assert [line for line in lines if not re.match(r"[\w.-]+==\S+.*--hash=sha256:[0-9a-f]{64}", line)] == []
