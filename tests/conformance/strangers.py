"""Readers of the topics in other languages, written from ``docs/kafka.md`` alone.

In: a folder of records and of what is expected of them. Out: whether each reader found it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.documents import ROOT

_FOLDER = ROOT / "tests" / "conformance"
_GO = shutil.which("go") or "/usr/local/go/bin/go"
of_strangers = pytest.mark.parametrize(
    "reader",
    [
        pytest.param(
            command, marks=pytest.mark.skipif(shutil.which(command[0]) is None, reason=f"no {name} is here"), id=name
        )
        for name, command in {
            "JavaScript": ["node", str(_FOLDER / "reader.mjs")],
            "Go": [_GO, "run", str(_FOLDER / "reader.go")],
        }.items()
    ],
)


def read_by_a_stranger(reader: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Its answer: code 0 if all is as expected."""
    command = [*reader, str(folder), str(ROOT / "schemas" / "control")]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
