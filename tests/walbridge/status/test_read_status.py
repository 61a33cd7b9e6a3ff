"""All that the status is read from is asked at the same time, in threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import walbridge

MEETING = """
import importlib.machinery, sys, threading, time, _frozen_importlib
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.settings import Settings
from walbridge.status import read_status

class Loader(importlib.machinery.SourceFileLoader):
    # Of deltalake, which is not among the modules yet: until another thread waits for it, if there is one.
    def create_module(self, spec):
        deadline_s = time.monotonic() + 10
        while threading.active_count() > 1 and not _frozen_importlib._blocking_on and time.monotonic() < deadline_s:
            time.sleep(0.001)

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target) if name == "deltalake" else None
        if spec is not None:
            spec.loader = Loader(name, spec.origin)
        return spec

def away(settings):
    raise RetryableError("away")

for name in ("source_of", "published_of", "producer_words", "verifier_words"):
    setattr(read_status, name, away)
sys.meta_path.insert(0, Finder)
print(read_status.read_status(Settings(name="p", lake={"path": "lake"})).lake)
"""


@pytest.mark.simulation
def test_two_threads_of_the_status_do_not_deadlock_where_both_import_what_reads_a_lake(tmp_path: Path) -> None:
    """Python ends such a deadlock by an error in one of them; on a busy machine the command was seen to end so."""
    repository = Path(walbridge.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", MEETING],
        cwd=tmp_path,
        env={"PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr[-500:], done.stdout[:5]) == (0, "", "Lake(")
