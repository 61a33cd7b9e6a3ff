"""Readers of the topics in other languages, written from ``docs/kafka.md`` alone.

In: a folder of records and of what is expected of them. Out: whether each reader found it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.recorded import RECORDS
from tests.documents import ROOT

CLIENT_S = 600
_FOLDER = ROOT / "tests" / "conformance"
_GO = shutil.which("go") or "/usr/local/go/bin/go"
_READERS = {
    "JavaScript": ["node", str(_FOLDER / "reader.mjs")],
    "Go": [_GO, "run", str(_FOLDER / "reader.go")],
}
IN_EACH_RUN = "JavaScript"
"""Go compiles its own library first, for a minute."""


def _needs(language: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(_READERS[language][0]) is None, reason=f"no {language} is here")


of_strangers = pytest.mark.parametrize(
    "reader",
    [
        pytest.param(command, marks=[_needs(name), *([] if name == IN_EACH_RUN else [pytest.mark.variant])], id=name)
        for name, command in _READERS.items()
    ],
)


needs_go = _needs("Go")


def received_by_a_client_in_go(bootstrap_servers: str, pipeline: str) -> list[Any]:
    """The records of a pipeline whose producer has stopped. Its modules are fetched the first time."""
    command = [_GO, "run", ".", bootstrap_servers, pipeline]
    done = subprocess.run(command, cwd=_FOLDER / "live", capture_output=True, text=True, timeout=CLIENT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def read_by_a_stranger(reader: list[str], folder: Path, records: str = RECORDS) -> subprocess.CompletedProcess[str]:
    """Its answer: code 0 if all is as expected."""
    command = [*reader, str(folder), str(ROOT / "schemas" / "control"), records]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
