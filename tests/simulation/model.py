"""What must be in Kafka, and a reader that sees each commit at once and believes nothing.

In: the history, and every commit of the broker. The reader goes from cut to cut as the contract
says: chain unbroken, exact ranges, counts; then each event must be the next one of the
history that its partition lacks, never seen before (I3, I4), and a complete cut must hold exactly
the transactions below its end (I8). ``durable_lsn`` is how far Postgres may be told (I1).
"""

import json
from dataclasses import replace
from functools import lru_cache
from typing import Any

import fastavro

from tests.simulation.broker import COMMITTED, SCHEMA_ID, Broker, Committed, Entry, Place
from tests.simulation.copied_reader import CopiedReader
from tests.simulation.early import resent_from
from tests.simulation.history import CONSISTENT_POINT, COPIED, NAMES, Event, Transaction
from tests.simulation.world import Finished, Violation, World
from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.control.cut import Cut, PartitionRange, chain_break, count_mismatch, decode_cut
from walbridge.schemas.control.metadata_record import RelationRecord, decode_metadata
from walbridge.schemas.control.progress_record import decode_progress, progress_key
from walbridge.schemas.position import Position
from walbridge.schemas.settings_sections import Topics
from walbridge.schemas.topics import cuts_topic, data_topic, metadata_topic, progress_topic, transaction_topic

SLOT = "s"


@lru_cache(maxsize=256)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


@lru_cache(maxsize=1024)
def _relation(value: bytes) -> RelationRecord:
    record = decode_metadata(value)
    assert isinstance(record, RelationRecord)
    return record


class Model:
    """The history and the reader.

    Args:
        may_be_torn: the run holds an EndTxn that nobody could have noticed: the producer cannot
            prevent the damage, the reader must find it before it takes a single event.
        copied: reads the table that comes; its changes count from where its copy begins.
        told: what topics have by setting.
    """

    def __init__(
        self,
        world: World,
        name: str,
        history: list[Transaction],
        *,
        may_be_torn: bool,
        two_phase: bool = False,
        copied: CopiedReader | None = None,
        told: Topics = Topics(),  # noqa: B008 (frozen)
    ) -> None:
        self._world = world
        self._may_be_torn = may_be_torn
        self._two_phase = two_phase
        self._history = history
        self.copied, self._told = copied, told
        self._tombstones_due: dict[Place, bytes] = {}
        """Of the record that follows."""
        self._without = [_left_out(transaction) for transaction in history]
        """The events of each transaction, as long as changes of the table that comes are left out."""
        self._numbers = {int(each.commit_lsn): n for n, each in enumerate(history)}
        self._topics = {data_topic(name, "public", table, {}): relation_id for relation_id, table in NAMES.items()}
        self._cuts, self._metadata = (cuts_topic(name), 0), metadata_topic(name)
        self._progress = progress_topic(name)
        self._applied: dict[tuple[int, int], set[int]] = {}
        self._ends: dict[Place, int] = {}
        self._last: dict[Place, Position] = {}
        self._homes: dict[tuple[str, bytes], int] = {}
        self._previous: Cut | None = None
        self._boundaries = transaction_topic(name), 0
        self._told_begins: set[int] = set()
        """Transactions, by their number in the history."""
        self._told_ends: set[int] = set()
        self._durable = 0
        self._truncates: list[tuple[int, int, int]] = []
        """Of the cut that is being read."""
        self._relations: dict[bytes, RelationRecord] = {}
        self._metadata_read = 0
        self.records_read = 0
        self.broker: Broker

    def _events(self, n: int) -> list[Event]:
        """What must be published of a transaction."""
        transaction, copied = self._history[n], self.copied
        is_followed = copied is None or (copied.begun is not None and transaction.commit_lsn >= copied.begun)
        return transaction.events if is_followed else self._without[n]

    # -- what may be confirmed ---------------------------------------------------------------

    def durable_lsn(self) -> int:
        """The first commit or prepare record of which Kafka lacks something; a slot there sends it again."""
        history = self._history
        while self._durable < len(history) and all(map(self._is_whole, self._events(self._durable))):
            self._durable += 1
        missing = history[self._durable :]
        return min((resent_from(each, two_phase=self._two_phase) for each in missing), default=1 << 62)

    def half_published(self) -> Transaction | None:
        """The transaction of which Kafka holds a part."""
        self.durable_lsn()
        if self._durable == len(self._history):
            return None
        is_begun = any((e.commit_lsn, e.ordinal) in self._applied for e in self._events(self._durable))
        return self._history[self._durable] if is_begun else None

    def _is_whole(self, event: Event) -> bool:
        found = self._applied.get((event.commit_lsn, event.ordinal))
        if found is None:
            return False
        return event.op != "t" or len(found) == self._partition_count(event.relation_id)

    def _partition_count(self, relation_id: int) -> int:
        return next(self.broker.partition_counts[t] for t, each in self._topics.items() if each == relation_id)

    # -- the reader --------------------------------------------------------------------------

    def on_commit(self, done: Committed) -> None:
        """A transaction became readable."""
        for entry in done.get(self._cuts, ()):
            self._read_cut(decode_cut(entry.value))
        if self._may_be_torn:
            return
        for entry in done.get(self._boundaries, ()):
            self._read_boundary(entry)
        for place, entries in done.items():
            if place[0] in self._topics and entries and self._last_offset(place) < entries[-1].offset:
                raise Violation(f"I7: records of {place} that no cut names")
        if self._cuts not in done:
            self._check_progress_alone(done)

    def _check_progress_alone(self, done: Committed) -> None:
        """Why a stream is lost is kept so; where the pipeline stands, a cut tells."""
        if done.keys() != {(self._progress, 0)}:
            raise Violation("a commit without a cut")
        key, previous = progress_key(SLOT), self._previous
        stands = (0, CONSISTENT_POINT) if previous is None else (previous.cut_id, previous.end_lsn)
        for entry in done[self._progress, 0]:
            if entry.key == key and entry.value is not None:
                progress = decode_progress(entry.value)
                if (progress.cut_id, progress.end_lsn) != stands:
                    raise Violation("progress moves without a cut")

    def _last_offset(self, place: Place) -> int:
        return self._ends.get(place, 0) - 1

    def _read_cut(self, cut: Cut) -> None:
        broken = chain_break(self._previous, cut)
        if broken is None and self._previous is None and cut.previous_end_lsn != CONSISTENT_POINT:
            broken = "the first cut does not begin where the copy ended"
        if broken is None and count_mismatch(cut) is not None:
            broken = "a range whose length is not its count"
        if broken is not None:
            self._stop(f"I7: {broken}")
        self._read_metadata(cut)
        found = [self._read_range(part) for part in cut.partitions]
        self._check_tables(cut, found)
        self._truncates.clear()
        for part, entries in zip(cut.partitions, found, strict=True):
            for entry in entries:
                self._apply((part.topic, part.partition), entry)
        self._check_barriers(cut)
        if self.copied is not None:
            kinds = [b.kind for table in cut.tables if table.relation_id == COPIED for b in table.barriers]
            self.copied.end_cut(cut, kinds)
        if cut.complete:
            self._check_complete(cut)
        elif cut.end_lsn != cut.previous_end_lsn:
            raise Violation(f"I8: incomplete cut {cut.cut_id} moves the LSN")
        self._previous = cut

    def _read_boundary(self, entry: Entry) -> None:
        """BEGIN is told once, with or before the first part of a transaction that is told later; END once, and counts
        the events of the history, whatever was split or came again (I4)."""
        told = json.loads(entry.value)
        n = self._numbers[int(told["id"].rpartition(":")[2])]
        if told["status"] == "BEGIN":
            if n in self._told_begins:
                raise Violation(f"I4: {told} comes twice")
            self._told_begins.add(n)
            return
        counts: dict[str, int] = {}
        for event in self._events(n):
            name = f"public.{NAMES[event.relation_id]}"
            counts[name] = counts.get(name, 0) + 1
        wanted = [{"data_collection": name, "event_count": count} for name, count in counts.items()]
        if n not in self._told_begins or n in self._told_ends or told["data_collections"] != wanted:
            raise Violation(f"I4: {told}, not once behind its BEGIN with {wanted}")
        self._told_ends.add(n)

    def _stop(self, why: str) -> None:
        if self._may_be_torn:
            self._world.note(f"the reader stops: {why}")
            raise Finished
        raise Violation(why)

    def _read_range(self, part: PartitionRange) -> list[Entry]:
        place = part.topic, part.partition
        if part.start_offset < self._ends.get(place, 0):
            self._stop(f"I3: {place} goes back to {part.start_offset}")
        entries = self.broker.log(*place).entries[part.start_offset : part.end_offset]
        readable = [entry for entry in entries if entry.state == COMMITTED]
        if len(readable) != part.records:
            self._stop(f"I7: {len(readable)} of {part.records} records of {place} are readable")
        self._ends[place] = part.end_offset
        return readable

    def _read_metadata(self, cut: Cut) -> None:
        log = self.broker.log(self._metadata, 0)
        if self._previous is not None and cut.metadata_end_offset < self._previous.metadata_end_offset:
            raise Violation(f"I2: cut {cut.cut_id} does not know of metadata that the cut before it named")
        while self._metadata_read < cut.metadata_end_offset:
            entry = log.entries[self._metadata_read]
            record = _relation(entry.value)
            self._relations[bytes.fromhex(record.schema_id)] = record
            self._metadata_read += 1

    def _check_tables(self, cut: Cut, found: list[list[Entry]]) -> None:
        counts = dict.fromkeys((table.topic for table in cut.tables), 0)
        for part, entries in zip(cut.partitions, found, strict=True):
            counts[part.topic] = counts.get(part.topic, 0) + len(entries)
        if counts != {table.topic: table.row_count for table in cut.tables}:
            raise Violation(f"I7: cut {cut.cut_id} counts its tables otherwise than its partitions")

    def _is_tombstone(self, place: Place, entry: Entry) -> bool:
        """It stands right behind the delete of its key, if at all."""
        due = self._tombstones_due.pop(place, None)
        if (due is None) == bool(entry.value) and (due is None or due == entry.key):
            return due is not None
        raise Violation(f"offset {entry.offset} of {place} is a tombstone where none is due, or none where one is")

    def _apply(self, place: Place, entry: Entry) -> None:
        if self._is_tombstone(place, entry):
            return
        relation = self._relations.get(entry.value[SCHEMA_ID])
        if relation is None:
            raise Violation("I2: a schema that the metadata up to the cut's end does not hold")
        envelope = decode_body(entry.value, _parsed(relation.value_schema))
        source = envelope["source"]
        position = Position(source["commit_lsn"], source["ordinal"])
        if self._told.tombstones and envelope["op"] == "d" and entry.key is not None:
            self._tombstones_due[place] = entry.key
        if self.copied is not None and self._topics[place[0]] == COPIED:
            self.copied.take(position, place, envelope)
        if position.ordinal < 0:
            self._check_order(place, entry, position)
            return
        event = self._expected(position)
        if event is None:
            raise Violation(f"I4: nothing stands at {position}")
        self._check_content(event, place, relation, envelope)
        self._check_block(event, envelope)
        partitions = self._applied.setdefault((position.commit_lsn, position.ordinal), set())
        if partitions and (event.op != "t" or place[1] in partitions):
            raise Violation(f"doubled: {position} in {place}")
        if event.op == "t" and not partitions:
            self._truncates.append((event.relation_id, event.commit_lsn, event.ordinal))
        partitions.add(place[1])
        if self._last.get(place) == position:
            raise Violation(f"I3: {position} twice in {place}")
        self._check_order(place, entry, position)
        self.records_read += 1

    def _expected(self, position: Position) -> Event | None:
        n = self._numbers.get(position.commit_lsn)
        events = [] if n is None else self._events(n)
        return events[position.ordinal] if position.ordinal < len(events) else None

    def _check_order(self, place: Place, entry: Entry, position: Position) -> None:
        if self._last.get(place, (-1, -1)) > position:
            raise Violation(f"I3: {position} after {self._last[place]} in {place}")
        self._last[place] = position
        if entry.key is not None and self._homes.setdefault((place[0], entry.key), place[1]) != place[1]:
            raise Violation("I3: one key in two partitions")

    def _check_content(self, event: Event, place: Place, relation: RelationRecord, envelope: dict[str, Any]) -> None:
        found = (
            self._topics[place[0]],
            envelope["op"],
            envelope["before"],
            envelope["after"],
            tuple(envelope["unchanged"] or ()),
        )
        wanted = (event.relation_id, event.op, event.before, event.after, event.unchanged)
        if found != wanted:
            raise Violation(f"event at {event.commit_lsn}/{event.ordinal} is {found}, not {wanted}")

    def _check_block(self, event: Event, envelope: dict[str, Any]) -> None:
        """Debezium's ``transaction``: whatever was split or came again, it numbers the events of the history."""
        wanted = None
        if self._told.transaction_block:
            n = self._numbers[event.commit_lsn]
            before = self._events(n)[: event.ordinal]
            number = sum(each.relation_id == event.relation_id for each in before) + 1
            an_id = f"{self._history[n].xid}:{event.commit_lsn}"
            wanted = {"id": an_id, "total_order": event.ordinal + 1, "data_collection_order": number}
        if envelope["transaction"] != wanted:
            raise Violation(f"I4: {event} tells {envelope['transaction']}, not {wanted}")

    def _check_barriers(self, cut: Cut) -> None:
        marked = [
            (table.relation_id, barrier.position.commit_lsn, barrier.position.ordinal)
            for table in cut.tables
            for barrier in table.barriers
            if barrier.kind == "truncate"
        ]
        if sorted(marked) != sorted(self._truncates):
            raise Violation(f"I8: cut {cut.cut_id} has truncate barriers {marked}, but truncates {self._truncates}")

    def _check_complete(self, cut: Cut) -> None:
        for n, transaction in enumerate(self._history):
            is_below = transaction.commit_lsn < cut.end_lsn
            for event in self._events(n):
                if is_below and not self._is_whole(event):
                    raise Violation(f"lost: {event} is not in cut {cut.cut_id}, complete at {cut.end_lsn}")
                if not is_below and (event.commit_lsn, event.ordinal) in self._applied:
                    raise Violation(f"I8: cut {cut.cut_id}, complete at {cut.end_lsn}, already holds {event}")

    def check_drained(self) -> None:
        """At the end everything is there."""
        ended = {n for n in range(len(self._history)) if self._told.transaction_topic and self._events(n)}
        if self._told_ends != ended and not self._may_be_torn:
            raise Violation(f"I4: other transactions are told than {sorted(ended)}: {sorted(self._told_ends)}")
        if self.durable_lsn() != 1 << 62:
            raise Violation(f"lost: {self._history[self._durable]}")


def _left_out(transaction: Transaction) -> list[Event]:
    rest = [event for event in transaction.events if event.relation_id != COPIED]
    return [replace(event, ordinal=n) for n, event in enumerate(rest)]
