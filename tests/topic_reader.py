"""Reads a pipeline's topics as the contract tells a reader to.

In: a broker and a pipeline name. Out: cuts, progress, Relation records, events by cut: each cut's
exact ranges in position order. It shares the schemas with the producer and nothing else, and it
is strict: a range that is short, an event twice, a chain that breaks fails the test that reads.
"""

from __future__ import annotations

import functools
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import fastavro
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.log_ends import LogEnds
from tests.replay import Event, Replay, Row, Text, check_chain
from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.control.cut import Cut, PartitionRange, decode_cut
from walbridge.schemas.control.metadata_record import RelationRecord, TypeRecord, decode_metadata
from walbridge.schemas.control.progress_record import Progress, read_back
from walbridge.schemas.json_format.codec import avro_value
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.topics import cuts_topic, metadata_topic, progress_topic

READ_S = 60.0
AT_ONCE_MS, PATIENT_MS = 5, 500
"""How long the broker holds a fetch for which nothing is there. Only its answer tells a reader of the end; one that
waits for more is told at once of what comes, and costs the broker a tenth of a core if it asks that often."""
READ_AHEAD = 5_000
MARKED_S = 10.0
"""A transaction ends in each partition at a moment of its own: in that of the cuts last, maybe."""


class Client:
    """A consumer for readers that take turns: to make one, connect it and end it costs more than most topics do."""

    def __init__(self, bootstrap_servers: str, fetch_ms: int) -> None:
        self.reader: TopicReader | None = None
        """Which reads now."""
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "tests",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": fetch_ms,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "error_cb": lambda error: None,
            }
        )


class TopicReader:
    """Follows one topic as a read_committed reader; keeps what it has read. While nobody reads, it fetches nothing.

    Args:
        fetch_ms: of ``AT_ONCE_MS`` and ``PATIENT_MS``.
        client: shared with other readers; one of its own by default.
    """

    def __init__(
        self, bootstrap_servers: str, topic: str, fetch_ms: int = AT_ONCE_MS, client: Client | None = None
    ) -> None:
        self.topic = topic
        self.messages: list[Message] = []
        self._client = client or Client(bootstrap_servers, fetch_ms)
        self._consumer = self._client.consumer
        self._ends: dict[int, int] = {}
        self._by_place: dict[tuple[int, int], Message] = {}
        self._next: dict[int, int] = {}
        """By partition, the offset to read next."""
        self._begin()

    def _begin(self) -> None:
        self._next = dict.fromkeys(self._partitions(), 0)

    def _partitions(self) -> list[int]:
        found = self._consumer.list_topics(self.topic, timeout=READ_S).topics[self.topic]
        return list(found.partitions) if found.error is None else []

    @property
    def partition_count(self) -> int:
        return len(self._next)

    @property
    def exists(self) -> bool:
        if not self._next:
            self._begin()
        return bool(self._next)

    def read_until(self, done: Callable[[], bool], timeout_s: float = READ_S) -> None:
        """Poll until ``done``; stop when time is up, without a word: the caller judges."""
        deadline_s = time.monotonic() + timeout_s
        try:
            while not done() and time.monotonic() < deadline_s:
                self._poll()
        finally:
            if self._client.reader is self:
                self._consumer.unassign()
                self._client.reader = None

    def _poll(self) -> None:
        if not self.exists:
            time.sleep(0.05)
            return
        if self._client.reader is not self:
            self._client.reader = self
            self._consumer.assign([TopicPartition(self.topic, *place) for place in self._next.items()])
        if (message := self._consumer.poll(0.05)) is not None and message.topic() in (self.topic, None):
            error = message.error()
            if error is None:
                self.messages.append(message)
                self._by_place[message.partition() or 0, message.offset() or 0] = message
                self._next[message.partition() or 0] = (message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends[message.partition() or 0] = message.offset() or 0
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise AssertionError(f"{self.topic} lost records: {error.str()}")

    def read_to_end(self) -> list[Message]:
        """All that is visible now: from the beginning, each partition to its end."""
        self._ends.clear()
        self.messages.clear()
        self._begin()
        if self._next:
            self.read_until(lambda: len(self._ends) == self.partition_count)
            assert len(self._ends) == self.partition_count, f"{self.topic} was not read to its end"
        return self.messages

    def places(self) -> set[tuple[int, int]]:
        """Partition and offset of all that is visible now, or was. What has been read is not fetched anew."""
        self._next = dict.fromkeys(self._partitions(), 0) | self._next
        if not self._next:
            return set()
        self._ends.clear()
        self.read_until(lambda: len(self._ends) == self.partition_count)
        assert len(self._ends) == self.partition_count, f"{self.topic} was not read to its end"
        return set(self._by_place)

    def read_range(self, part: PartitionRange) -> list[Message]:
        """Exactly the records of a cut's range; fails if one of them is not there."""
        last = part.partition, part.end_offset - 1
        if last not in self._by_place:
            # What is there is read at once, and not fetched anew for each range.
            self._ends.clear()
            self.read_until(lambda: last in self._by_place and self._has_read_ahead(part))
        there = [self._by_place.get((part.partition, each)) for each in range(part.start_offset, part.end_offset)]
        found = [message for message in there if message is not None]
        assert len(found) == part.records == part.end_offset - part.start_offset, f"{part} holds {len(found)} records"
        return found

    def _has_read_ahead(self, part: PartitionRange) -> bool:
        return part.partition in self._ends or self._next[part.partition] > part.end_offset + READ_AHEAD

    def close(self) -> None:
        self._consumer.close()


class Topics:
    """The topics of one pipeline. Use as a context manager.

    Args:
        check_alive: raises when no more cuts can come.
        gone: topics that a test deleted. What was in them is no more to be had.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        pipeline: str,
        check_alive: Callable[[], None] = lambda: None,
        gone: Collection[str] = (),
    ) -> None:
        self._check_alive = check_alive
        self._gone = frozenset(gone)
        self._bootstrap_servers = bootstrap_servers
        self._pipeline = pipeline
        self._readers: dict[tuple[str, int], TopicReader] = {}
        self._clients: dict[int, Client] = {}
        self._schemas: dict[str, tuple[RelationRecord, Any]] = {}
        self._versions: dict[tuple[str, int], RelationRecord] = {}
        self._log_ends: LogEnds | None = None
        self._positions: dict[PartitionRange, list[Position]] = {}
        """Of the events of each range that was decoded, by offset."""

    def __enter__(self) -> Topics:
        return self

    def __exit__(self, *exception: object) -> None:
        for client in self._clients.values():
            client.consumer.close()

    def reader(self, topic: str, fetch_ms: int = AT_ONCE_MS) -> TopicReader:
        if (topic, fetch_ms) not in self._readers:
            if fetch_ms not in self._clients:
                self._clients[fetch_ms] = Client(self._bootstrap_servers, fetch_ms)
            client = self._clients[fetch_ms]
            self._readers[topic, fetch_ms] = TopicReader(self._bootstrap_servers, topic, fetch_ms, client)
        return self._readers[topic, fetch_ms]

    def wait_for_cut(self, wanted: Callable[[Cut], bool], what: str, timeout_s: float = READ_S) -> Cut:
        """The first cut that fits; the test fails when none came in time."""
        reader = self.reader(cuts_topic(self._pipeline), PATIENT_MS)
        seen = 0
        found: list[Cut] = []

        def arrived() -> bool:
            nonlocal seen
            for message in reader.messages[seen:]:
                seen += 1
                cut = decode_cut(message.value() or b"")
                if wanted(cut):
                    found.append(cut)
            if not found:
                self._check_alive()
            return bool(found)

        reader.read_until(arrived, timeout_s)
        assert found, f"waited {timeout_s:.0f} s in vain for a cut {what}"
        return found[0]

    def check_held(self, lsn: int) -> None:
        """A committed cut that covers this LSN lies in the log by now (I1).

        The broker answers a commit before its markers are written: readers may see the cut a moment later.
        """
        reader = self.reader(cuts_topic(self._pipeline), PATIENT_MS)
        self._log_ends = self._log_ends or LogEnds(self._bootstrap_servers)
        end = self._log_ends.end(reader.topic)
        covers: dict[int, bool] = {}

        def is_covered() -> bool:
            for message in reader.messages[len(covers) :]:
                covers[message.offset() or 0] = decode_cut(message.value() or b"").end_lsn >= lsn
            return any(found and offset < end for offset, found in covers.items())

        reader.read_until(is_covered)
        assert is_covered(), f"{lsn:X} is confirmed, and no cut below offset {end} covers it"

    def cuts(self) -> list[Cut]:
        """Every cut there is, its chain checked."""
        cuts = [decode_cut(message.value() or b"") for message in self.reader(cuts_topic(self._pipeline)).read_to_end()]
        check_chain(cuts)
        return cuts

    def progress(self) -> Progress | None:
        messages = self.reader(progress_topic(self._pipeline)).read_to_end()
        if not messages:
            return None
        slot, _, _ = (messages[-1].key() or b"").decode().partition("/")
        return read_back(slot, ((message.key(), message.value()) for message in reversed(messages)))

    def metadata(self) -> list[RelationRecord | TypeRecord]:
        """Every metadata record, in the order they were written."""
        return [decode_metadata(m.value() or b"") for m in self.reader(metadata_topic(self._pipeline)).read_to_end()]

    def relations(self) -> list[RelationRecord]:
        """Every Relation record."""
        return [record for record in self.metadata() if isinstance(record, RelationRecord)]

    def events(self, cut: Cut) -> list[Event]:
        """The events of a cut's exact ranges, in position order (I4); fails if one is not there."""
        found: list[Event] = []
        for part in cut.partitions:
            there = self.reader(part.topic).read_range(part)
            decoded = [self.decode(message) for message in there if message.value() is not None]
            self._positions[part] = [event.position for event in decoded]
            found += decoded
        return sorted(found, key=lambda event: event.position)

    def decode(self, message: Message) -> Event:
        """An event by the schema that the metadata topic names for it (I2)."""
        relation, record = self.envelope(message.value() or b"")
        source = record["source"]
        # A table that was made again may have the schema of the one before it.
        version = relation.schema_id, source["relation_id"]
        if version not in self._versions:
            self._read_versions()
        relation = self._versions[version]
        columns = _columns(relation.value_schema)
        return Event(
            relation,
            message.partition() or 0,
            message.offset() or 0,
            message.key() if record["op"] not in ("t", "m") else None,  # in a compacted topic of no row
            {name: bytes(value) for name, value in _headers(message)},
            record["op"],
            Position(Lsn(source["commit_lsn"]), source["ordinal"]),
            _row(record["before"], columns, record["before_exceptional"]),
            _row(record["after"], columns, record["exceptional"]),
            tuple(record["unchanged"] or ()),
            record["before_image"],
            source,
        )

    def envelope(self, value: bytes) -> tuple[RelationRecord, dict[str, Any]]:
        """The relation version and the envelope as Avro has it."""
        relation, parsed = self._schema(frame_of(value).frame_id)
        return relation, decode_body(avro_value(value, relation), parsed)

    def _schema(self, frame_id: str) -> tuple[RelationRecord, Any]:
        if frame_id not in self._schemas:
            self._read_versions()
        return self._schemas[frame_id]

    def _read_versions(self) -> None:
        for record in self.relations():
            parsed = fastavro.parse_schema(json.loads(record.value_schema))
            self._schemas.setdefault(record.frame_id, (record, parsed))
            self._versions[record.schema_id, record.table.relation_id] = record

    def replay(self) -> Replay:
        """Every event of every cut, applied. A table that was renamed and not written since has a barrier only."""
        replayed = Replay()
        for cut in self._cuts_of_what_is_there():
            self.replay_cut(cut, replayed)
        return replayed

    def replay_cut(self, cut: Cut, replayed: Replay) -> None:
        """Every event of one cut, applied to what those before it left."""
        replayed.apply(cut, self.events(cut))
        for table in cut.tables:
            if shapes := [barrier for barrier in table.barriers if barrier.kind == "shape"]:
                newest = max(shapes, key=lambda barrier: barrier.position)
                replayed.begin_version(self._version(str(newest.schema_id), table.relation_id))

    def _cuts_of_what_is_there(self) -> list[Cut]:
        return [
            replace(
                cut,
                partitions=tuple(part for part in cut.partitions if part.topic not in self._gone),
                tables=tuple(table for table in cut.tables if table.topic not in self._gone),
            )
            for cut in self.cuts()
        ]

    def _version(self, schema_id: str, relation_id: int) -> RelationRecord:
        if (schema_id, relation_id) not in self._versions:
            self._read_versions()
        return self._versions[schema_id, relation_id]

    def check_nothing_else(self) -> None:
        """What readers see in the data topics is exactly what the cuts name: nothing twice, nothing
        more, and each partition in position order (I3)."""
        topics = {part.topic for cut in self._cuts_of_what_is_there() for part in cut.partitions}
        seen = {(topic, *place) for topic in topics for place in self.reader(topic).places()}
        deadline_s = time.monotonic() + MARKED_S
        # Cuts are read behind what they name, since a copy may go on meanwhile.
        while unnamed := seen - _named(cuts := self._cuts_of_what_is_there()):
            assert time.monotonic() < deadline_s, f"no cut names {sorted(unnamed)[:10]}"
        self._check_order(cuts)

    def _check_order(self, cuts: Iterable[Cut]) -> None:
        """Each record that they name is there; each partition has its positions in order, and none twice."""
        newest: dict[tuple[str, int, str], Position] = {}
        positions = Counter[tuple[str, int, str, Position]]()
        for cut in cuts:
            if not self._positions.keys() >= {*cut.partitions}:  # it came since the replay
                self.events(cut)
            for part in cut.partitions:
                place = part.topic, part.partition, str(cut.epoch)
                for position in self._positions[part]:
                    if position.ordinal >= 0:
                        positions[*place, position] += 1
                        before = newest.get(place)
                        assert before is None or before <= position, f"out of order at {position}"
                        newest[place] = position
        assert [place for place, count in positions.items() if count > 1] == []


def _named(cuts: Iterable[Cut]) -> set[tuple[str, int, int]]:
    """Every record by topic, partition and offset."""
    return {
        (part.topic, part.partition, offset)
        for cut in cuts
        for part in cut.partitions
        for offset in range(part.start_offset, part.end_offset)
    }


def _headers(message: Message) -> list[tuple[str, bytes]]:
    return cast(list[tuple[str, bytes]], message.headers() or [])


@functools.lru_cache(maxsize=64)
def _columns(value_schema: str) -> Mapping[str, str]:
    """Avro field name → Postgres column name."""
    fields = json.loads(value_schema)["fields"][0]["type"][1]["fields"]
    return {each["name"]: each["pg.name"] for each in fields if "pg.name" in each}


def _row(row: Mapping[str, Any] | None, columns: Mapping[str, str], texts: Mapping[str, str] | None) -> Row | None:
    if row is None:
        return None
    values = {columns[name]: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    return values | {name: Text(text) for name, text in (texts or {}).items()}
