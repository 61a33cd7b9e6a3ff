"""The offsets that rows got in their topics, as the delivery callbacks of one instance report them. Pure.

In: the spans of each transaction before it is committed. Out: a fault, if there is a hole in them or a topic was made
anew; and the topics in which this instance has just written its first rows.
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
    """The offsets that one instance wrote."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int] = {}
        """By topic and partition: where the rows of this instance end."""

    def remade_topic(self, spans: Iterable[Span]) -> str | None:
        """The fault of a topic that was made anew, since its offsets begin at 0 again; None where there is none."""
        for topic, partition, first, _, _ in spans:
            if first < self._ends.get((topic, partition), 0):
                return f"{topic}/{partition} goes on at offset {first}: the topic was made anew"
        return None

    def topics_with_first_rows(self, spans: Iterable[Span]) -> set[str]:
        """Topics of which a partition has its first rows of this instance. Offsets cannot tell whether such a topic was
        made anew; its id can."""
        return {span.topic for span in spans if (span.topic, span.partition) not in self._ends}

    def note(self, spans: Iterable[Span]) -> None:
        """These spans are about to be committed."""
        self._ends |= {(span.topic, span.partition): span.last + 1 for span in spans}


def hole(spans: Iterable[Span]) -> str | None:
    """The fault of a span in which an offset is missing, or somebody else's; None where there is none."""
    for topic, partition, first, last, records in spans:
        if first < 0 or last - first + 1 != records:
            return f"{records} records of {topic}/{partition} lie at {first} to {last}"
    return None
