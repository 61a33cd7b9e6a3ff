"""Words that are nowhere else on this machine, and where they were seen."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Canaries:
    """Words that are nowhere else on this machine, by where they were given."""

    secrets: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)

    def secret(self, given: str) -> str:
        return self.secrets.setdefault(given, f"canary{uuid.uuid4().hex}")

    def value(self, given: str) -> str:
        return self.values.setdefault(given, f"canary{uuid.uuid4().hex}")


@dataclass
class Night:
    """What was seen, by place."""

    canaries: Canaries
    seen: dict[str, bytes]
    environment: bytes
    """Of the last producer: only its owner may read it."""
    properties_files: set[tuple[bool, int]]
    """Of the file with Spark's properties, while it was there: does it hold its secrets, and its mode."""
    refusals: list[str]

    def leaked(self, place: str, canaries: dict[str, str]) -> list[str]:
        """Where those were given that can be seen there."""
        return [given for given, word in canaries.items() if word.encode() in self.seen[place]]


def contents(paths: Iterable[Path]) -> bytes:
    """Names and bytes of files."""
    return b"\n".join(str(path).encode() + b"\n" + path.read_bytes() for path in sorted(paths) if path.is_file())
