"""The offsets that rows got in their topics, as the delivery callbacks of one instance report them. Pure.

In: the spans of each transaction. Out: what speaks against them, before they are committed: a hole, or a topic that
was made anew; and topics of which nothing is known yet.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """Offsets of one partition. Without a hole, ``last - first + 1`` is ``records``."""

    topic: str
    partition: int
    first: int
    last: int
    records: int


class PublishedOffsets:
    """One for each instance."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int] = {}
        """By topic and partition: where the rows of this instance end."""

    def remade(self, spans: Iterable[Span]) -> str | None:
        """Offsets of a topic that was made anew begin at 0 again."""
        for topic, partition, first, _, _ in spans:
            if first < self._ends.get((topic, partition), 0):
                return f"{topic}/{partition} goes on at offset {first}: the topic was made anew"
        return None

    def first_rows(self, spans: Iterable[Span]) -> set[str]:
        """Topics of which a partition has the first rows of this instance: only their ids tell what they are."""
        return {span.topic for span in spans if (span.topic, span.partition) not in self._ends}

    def note(self, spans: Iterable[Span]) -> None:
        """They are to be committed."""
        self._ends |= {(span.topic, span.partition): span.last + 1 for span in spans}


def hole(spans: Iterable[Span]) -> str | None:
    """An offset between ours that is missing, or somebody else's."""
    for topic, partition, first, last, records in spans:
        if first < 0 or last - first + 1 != records:
            return f"{records} records of {topic}/{partition} lie at {first} to {last}"
    return None
