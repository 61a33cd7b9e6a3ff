"""Reads a topic as any program does that knows JSON and Debezium's envelope: it has the broker and the topic's name.

In: a broker, a topic. Out: key and value of every record as ``json`` reads them, and the rows that these make. No
schema is asked for, and nothing of walbridge takes part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.topic_reader import TopicReader

Record = Mapping[str, Any]


class JsonReader:
    """One topic's records."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._reader = TopicReader(bootstrap_servers, topic)

    def records(self) -> list[tuple[int, Record | None, Record]]:
        """Partition, key and value of each event that is there now, by partition and offset."""
        found = sorted(self._reader.read_to_end(), key=lambda each: (each.partition() or 0, each.offset() or 0))
        return [
            (each.partition() or 0, None if (key := each.key()) is None else json.loads(key), json.loads(value))
            for each in found
            if (value := each.value()) is not None
        ]

    def rows(self) -> list[Record]:
        """The rows that are left once every event took place, in the order of positions. Without a key they are a bag.

        What an update left out is as it was before; behind a change of the key, as it was under the old one. An
        exceptional value is its text.
        """
        rows: dict[str, Record] = {}
        there: dict[str, int] = {}
        bag: list[Record] = []
        for partition, key, event in sorted(self.records(), key=lambda each: _position(each[2])):
            before, after = (_known(event, row, texts) for row, texts in _IMAGES)
            if event["op"] == "t":
                there, bag = {each: place for each, place in there.items() if place != partition}, []
            elif key is None and event["op"] != "m":
                bag = _without(bag, before) + ([] if after is None else [after])
            elif event["op"] == "d":
                del there[json.dumps(key)]
            elif event["op"] != "m" and after is not None and key is not None:
                old = json.dumps(key) if before is None else json.dumps(_key(event, key))
                rows[json.dumps(key)] = after | {name: rows[old][name] for name in event["unchanged"] or ()}
                there[json.dumps(key)] = partition
        return [row for key, row in rows.items() if key in there] + bag

    def close(self) -> None:
        self._reader.close()


_IMAGES = (("before", "before_exceptional"), ("after", "exceptional"))


def _known(event: Record, row: str, texts: str) -> dict[str, Any] | None:
    return None if event[row] is None else event[row] | (event[texts] or {})


def _key(event: Record, key: Record) -> dict[str, Any]:
    """The key of the row before, as its own records have it."""
    names = [name for name in key if name != "_exceptional"]
    texts = {name: text for name, text in (event["before_exceptional"] or {}).items() if name in names}
    return {name: event["before"][name] for name in names} | ({"_exceptional": texts} if texts else {})


def _without(bag: list[Record], row: Record | None) -> list[Record]:
    if row is None:
        return bag
    at = bag.index(row)
    return bag[:at] + bag[at + 1 :]


def _position(event: Record) -> tuple[int, int]:
    return event["source"]["commit_lsn"], event["source"]["ordinal"]
