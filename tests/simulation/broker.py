"""A Kafka broker for one transactional id: logs with offsets, and a coordinator that ends transactions.

Transactions V1, as librdkafka speaks it: EndTxn names the producer epoch and nothing else, so one
that the network held back ends whatever that epoch has open when it arrives. A new epoch
(``InitProducerId``) aborts what is open and fences everything older.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.world import Violation, World

Place = tuple[str, int]
OPEN, COMMITTED, ABORTED, MARKER = range(4)
SCHEMA_ID = slice(2, 10)


@dataclass(slots=True)
class Entry:
    """One offset of a log."""

    offset: int
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]] | None = None
    state: int = OPEN


@dataclass(slots=True)
class Log:
    """One partition."""

    entries: list[Entry] = field(default_factory=list)
    unresolved: list[Entry] = field(default_factory=list)
    """Written, but its marker has not come yet."""

    def append(self, key: bytes | None, value: bytes, headers: list[tuple[str, bytes]] | None, state: int) -> Entry:
        """The next offset."""
        entry = Entry(len(self.entries), key, value, headers, state)
        self.entries.append(entry)
        if state == OPEN:
            self.unresolved.append(entry)
        return entry

    def resolve(self, state: int) -> list[Entry]:
        """A marker: what came before it is committed or aborted."""
        done, self.unresolved = self.unresolved, []
        for entry in done:
            entry.state = state
        self.append(None, b"", None, MARKER)
        return done

    @property
    def stable_end(self) -> int:
        """The last stable offset: nothing from the first open record on is told to a reader."""
        return self.unresolved[0].offset if self.unresolved else len(self.entries)

    def committed(self) -> list[Entry]:
        """What a read_committed reader sees."""
        return [entry for entry in self.entries[: self.stable_end] if entry.state == COMMITTED]


Committed = dict[Place, list[Entry]]


class Fenced(Exception):
    """A newer epoch exists."""


class NotInTransaction(Exception):
    """The broker has no transaction open, or not on this partition."""


class Broker:
    """Topics and the coordinator.

    Args:
        verifies: KIP-890 part 1: a write to a partition that is in no transaction is refused.
        on_commit: sees what each commit made readable, before anybody else does.
    """

    def __init__(self, world: World, verifies: bool, on_commit: Callable[[Committed], None]) -> None:
        self._world = world
        self._verifies = verifies
        self.on_commit = on_commit
        self.partition_counts: dict[str, int] = {}
        self.logs: dict[Place, Log] = {}
        self.epoch = 0
        self._added: set[Place] = set()
        self.schema_ids: set[bytes] = set()
        self.rival: Callable[[], None] = self.fence
        """Another producer of the same transactional id opens an instance, and may publish."""

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition."""
        return self.logs.setdefault((topic, partition), Log())

    def init(self) -> int:
        """InitProducerId: the new epoch."""
        self._end(ABORTED)
        self.epoch += 1
        return self.epoch

    def fence(self) -> None:
        """Somebody else, or the coordinator itself, ends the transaction and bumps the epoch."""
        self.init()

    def add_partition(self, epoch: int, place: Place) -> None:
        """AddPartitionsToTxn: opens a transaction where none is open."""
        self._refuse_old(epoch)
        self._added.add(place)

    def append(
        self, epoch: int, place: Place, key: bytes | None, value: bytes, headers: list[tuple[str, bytes]] | None
    ) -> int:
        """Produce; the offset."""
        self._refuse_old(epoch)
        if self._verifies and place not in self._added:
            raise NotInTransaction
        return self.log(*place).append(key, value, headers, OPEN).offset

    def append_plain(self, place: Place, key: bytes | None, value: bytes) -> int:
        """Produce outside any transaction: readable at once."""
        return self.log(*place).append(key, value, None, COMMITTED).offset

    def end(self, epoch: int, commits: bool) -> None:
        """EndTxn."""
        self._refuse_old(epoch)
        if not self._added:
            raise NotInTransaction
        self._end(COMMITTED if commits else ABORTED)

    def end_late(self, epoch: int, commits: bool) -> None:
        """An EndTxn that nobody waits for any more."""
        what = "commit" if commits else "abort"
        self._world.note(f"late EndTxn({what}) of epoch {epoch} at {self.epoch}, open: {sorted(self._added)}")
        if epoch == self.epoch and self._added:
            self._end(COMMITTED if commits else ABORTED)

    def _end(self, state: int) -> None:
        places, self._added = sorted(self._added), set()
        done = {place: self.log(*place).resolve(state) for place in places}
        if self._world.trace is not None and places:
            self._world.note(f"broker {'commits' if state == COMMITTED else 'aborts'} {places}")
        if state == COMMITTED:
            self.on_commit(done)

    def _refuse_old(self, epoch: int) -> None:
        if epoch > self.epoch:
            raise Violation("an epoch that was never given")
        if epoch < self.epoch:
            raise Fenced
