"""The end of a partition's log goes, as in a power cut: with the broker down, whose disk never got it."""

from __future__ import annotations

import struct
from pathlib import Path

from walbridge.embedded.kafka import KafkaBroker

_HEAD = struct.Struct(">qi")
"""Of a batch of records: its first offset, and the bytes behind this head."""


def cut_short(broker: KafkaBroker, topic: str, batches: int) -> None:
    """Kill the broker, take the last batches of the topic's partition 0 away, and start it again."""
    broker.kill()
    log = max((broker.data / f"{topic}-0").glob("*.log"))
    with log.open("r+b") as file:
        file.truncate(_places(log)[-batches])
    for made_of_it in ("*.index", "*.timeindex", "*.txnindex", "*.snapshot"):
        for path in log.parent.glob(made_of_it):
            path.unlink()
    for known_by_the_broker in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (broker.data / known_by_the_broker).unlink(missing_ok=True)
    broker.start()


def _places(log: Path) -> list[int]:
    """Where each batch begins."""
    data, place, found = log.read_bytes(), 0, list[int]()
    while place + _HEAD.size <= len(data) and (size := _HEAD.unpack_from(data, place)[1]) > 0:
        found.append(place)
        place += _HEAD.size + size
    return found
