"""What ``walbridge drop`` would remove and what it would leave, as text for a person who confirms it, or as JSON.
Pure."""

import json
from dataclasses import dataclass

from walbridge.quantities import bytes_text


@dataclass(frozen=True, slots=True)
class Stay:
    """Something that is not removed. ``why``: None for the lake, which always stays."""

    kind: str
    name: str
    why: str | None = None

    @property
    def line(self) -> str:
        """One line of text."""
        kind = "the lake" if self.kind == "lake" else self.kind
        return f"{kind:<13}{self.name}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True)
class Removal:
    """What would be removed and what would stay. Made before anything is removed."""

    pipeline: str
    slot: str | None
    retained_bytes: int | None
    publications: tuple[str, ...]
    topics: tuple[str, ...]
    stays: tuple[Stay, ...]

    @property
    def is_empty(self) -> bool:
        """Nothing is left to remove."""
        return not (self.slot or self.publications or self.topics)

    def lines(self) -> list[str]:
        """Lines for the person who confirms it."""
        goes = [*self._slot_line(), *self._publication_line(), *(f"  topic        {name}" for name in self.topics)]
        head = f"This removes what is left of pipeline {self.pipeline}:"
        lines = [head, *goes] if goes else [f"Nothing is left of pipeline {self.pipeline} to remove."]
        return [*lines, "It leaves:", *(f"  {each.line}" for each in self.stays), *self._why()]

    def as_json(self, *, removed: bool) -> str:
        """One object; ``docs/json.md`` has its fields."""
        return json.dumps(
            {
                "pipeline": self.pipeline,
                "removed": removed,
                "slot": self.slot,
                "retained_bytes": self.retained_bytes,
                "publications": self.publications,
                "topics": self.topics,
                "stays": [{"kind": each.kind, "name": each.name, "why": each.why} for each in self.stays],
            },
            ensure_ascii=False,
        )

    def _slot_line(self) -> list[str]:
        if self.slot is None:
            return []
        held = f", which holds {bytes_text(max(0, self.retained_bytes))} of WAL" if self.retained_bytes else ""
        return [f"  slot         {self.slot}{held}"]

    def _publication_line(self) -> list[str]:
        return [f"  publication  {name}" for name in self.publications]

    def _why(self) -> list[str]:
        if self.is_empty:
            return []
        first = ["A slot that nobody reads keeps WAL until the primary's disk is full: so it goes first."]
        return [
            *(first if self.slot else []),
            "Afterwards a new start copies everything again, into the same lake.",
        ]
