"""What owners do to their tables in a year, step by step.

In: the files of SQL beside this module. ``-- history: NAME`` begins one, ``, from 15 on`` says since which version
Postgres has it; what follows makes its tables. ``-- step`` begins what is sent as one: without BEGIN a transaction, and
one statement by itself where it must run alone. ``{schema}`` is where its tables are. Out: histories by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"^-- history: (.+?)(?:, from (\d+) on)?$", re.MULTILINE)
_STEP = re.compile(r"^-- step$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class History:
    """``steps``: the first makes its tables."""

    name: str
    steps: tuple[str, ...]
    since: int = 0

    @property
    def schema(self) -> str:
        return re.sub(r"\W+", "_", self.name.lower())[:50]

    def step(self, number: int) -> str:
        return self.steps[number].replace("{schema}", self.schema)


def of_file(name: str) -> list[History]:
    """All of one file."""
    text = Path(__file__).with_name(f"{name}.sql").read_text()
    return list(_parsed(text))


def _parsed(text: str) -> Iterator[History]:
    _, *parts = _HEAD.split(text)
    for name, since, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield History(name, tuple(each.strip() for each in _STEP.split(body)), int(since or 0))
