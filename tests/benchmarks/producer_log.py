"""What a producer's log says of a run: when the stream began, and each batch with its rows.

In: the log of ``python -m walbridge.producer --log-level info``. Out: seconds and rows, by the producer's
own clock, so that neither its start-up nor who watches it is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tests.fix_producer import Running
from tests.wait import wait_until

_LINE = re.compile(r"^timestamp=(\S+) level=\w+ event=(?:(\w+)|\"([^\"]+)\")(.*)$", re.MULTILINE)
_FIELD = re.compile(r"(\w+)=(\S+)")


@dataclass(frozen=True, slots=True)
class Said:
    """One line."""

    at_s: float
    event: str
    fields: dict[str, str]


def said(running: Running) -> Iterator[Said]:
    """Every line so far."""
    for moment, word, words, rest in _LINE.findall(running.log):
        yield Said(datetime.fromisoformat(moment).timestamp(), word or words, dict(_FIELD.findall(rest)))


def drained_s(running: Running, rows: int, timeout_s: float) -> float:
    """Wait until so many rows are committed in Kafka; seconds from START_REPLICATION to that commit."""

    def ends() -> list[float]:
        count, found = 0, []
        for line in said(running):
            count += int(line.fields.get("rows", 0)) if line.event == "batch" else 0
            if line.event == "batch" and count >= rows:
                found.append(line.at_s)
        return found

    def through() -> bool:
        assert running.process.poll() is None, f"the producer ended:\n{running.log[-3000:]}"
        return bool(ends())

    wait_until(through, f"{rows:,} rows in Kafka", timeout_s)
    return ends()[0] - next(line.at_s for line in said(running) if line.event == "streaming")
