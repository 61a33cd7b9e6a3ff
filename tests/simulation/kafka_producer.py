"""``confluent_kafka.Producer`` as the producer sees it, of the simulated broker.

Stands below the real ``Publisher`` and ``MetadataWriter``. Delivery callbacks
keep the order of their partition and no other; commits and aborts may time out, fail though they
were applied, or be held back by the network and arrive later.
"""

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException

from tests.simulation.broker import Broker, Entry, Fenced, NotInTransaction, Place
from tests.simulation.kafka_message import Delivered, failure
from tests.simulation.world import World

OnDelivery = Callable[[KafkaError | None, Delivered], None]
QUEUE_MAX = 40
LOST_BATCH = "first batch of a partition lost, and acknowledged"


class Producer:
    """Transactional with ``transactional.id``, else plain."""

    def __init__(self, world: World, broker: Broker, config: dict[str, Any]) -> None:
        self._world, self._broker = world, broker
        self._is_transactional = "transactional.id" in config
        self._on_error: Callable[[KafkaError], None] = config.get("error_cb") or (lambda error: None)
        self._queue: dict[Place, deque[tuple[Entry, OnDelivery | None]]] = {}
        self._queued = 0
        self._added: set[Place] = set()
        self._written: set[Place] = set()
        self._sends_ahead = config.get("max.in.flight.requests.per.connection") != 1
        self._epoch = 0
        self._state_error: KafkaException | None = None
        self._in_transaction = False
        world.on_death.append(self._die)

    def _die(self) -> None:
        """What was on the wire when the process died still arrives."""
        if self._world.chance(0.5) and self._is_transactional:
            self._send(lambda: self._world.chance(0.7), answers=False)
        self._queue.clear()

    # -- transactions ------------------------------------------------------------------------

    def init_transactions(self, timeout: float = -1) -> None:
        self._world.step("init_transactions")
        if self._world.strikes("init slow"):
            self._world.now_s += timeout
            raise failure(KafkaError._TIMED_OUT, retriable=True)
        self._epoch = self._broker.init()
        self._world.step(f"epoch {self._epoch}")

    def begin_transaction(self) -> None:
        self._world.step("begin_transaction")
        self._raise_state()
        if self._in_transaction:
            raise failure(KafkaError._STATE)
        self._in_transaction = True
        self._added.clear()

    def commit_transaction(self, timeout: float = -1) -> None:
        world = self._world
        world.step("commit_transaction")
        self._raise_state()
        if not self._in_transaction:
            raise failure(KafkaError._STATE)
        self._send(lambda: True)
        self._raise_state()
        if world.armed:
            self._commit_badly(timeout)
        self._end(True)
        self._in_transaction = False
        if world.armed and world.strikes("taken over in doubt"):
            self._on_error(KafkaError(KafkaError._TRANSPORT, "simulated"))
            self._broker.rival()
        world.step("commit_transaction returns")

    def _commit_badly(self, timeout: float) -> None:
        """Every way in which a commit goes wrong; returns where it goes well after all."""
        world = self._world
        late_commit = self._late(True)
        if world.strikes("commit slow"):
            world.now_s += timeout
            raise failure(KafkaError._TIMED_OUT, retriable=True)
        if world.strikes("commit retried after a long wait"):
            world.now_s += 6
            world.later(late_commit)
        if world.strikes("commit retried on a new connection"):
            self._on_error(KafkaError(KafkaError._TRANSPORT, "simulated"))
            world.later(late_commit)
        if world.strikes("hidden late commit"):
            world.later(late_commit)
        if world.strikes("hidden late abort"):
            world.later(self._late(False))
        if world.strikes("commit done, answer lost"):
            self._end(True)
            self._fail(failure(KafkaError._TRANSPORT))
        if world.strikes("commit lost"):
            self._fail(failure(KafkaError._TRANSPORT))
        if world.strikes("commit on its way"):
            world.later(late_commit, 8)
            self._fail(failure(KafkaError._TRANSPORT))
        if world.strikes("commit refused"):
            self._fail(failure(KafkaError.COORDINATOR_NOT_AVAILABLE, abort=True))

    def abort_transaction(self, timeout: float = -1) -> None:
        world = self._world
        world.step("abort_transaction")
        if self._state_error is not None and self._state_error.args[0].fatal():
            raise self._state_error
        if not self._in_transaction:
            raise failure(KafkaError._STATE)
        self._in_transaction, self._state_error = False, None
        self._drop()
        if world.strikes("abort on its way"):
            world.later(self._late(False))
            world.now_s += timeout
            raise failure(KafkaError._TIMED_OUT, retriable=True)
        if self._added:
            self._end(False)
        world.step("abort_transaction returns")

    def _late(self, commits: bool) -> Callable[[], None]:
        epoch, broker = self._epoch, self._broker
        return lambda: broker.end_late(epoch, commits)

    def _end(self, commits: bool) -> None:
        try:
            self._broker.end(self._epoch, commits)
        except Fenced:
            self._fail(failure(KafkaError._FENCED, fatal=True))
        except NotInTransaction:
            self._fail(failure(KafkaError.INVALID_TXN_STATE, fatal=True))

    def _fail(self, error: KafkaException) -> NoReturn:
        self._state_error = error
        raise error

    def _raise_state(self) -> None:
        if self._state_error is not None:
            raise self._state_error

    # -- records -----------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        self._world.step("produce")
        self._raise_fatal()
        if self._state_error is not None:  # the client says only that, and the reason to a second begin
            raise failure(KafkaError._STATE)
        if self._is_transactional and not self._in_transaction:
            raise failure(KafkaError._STATE)
        if self._is_transactional and (self._queued >= QUEUE_MAX or self._world.strikes("queue full")):
            raise BufferError("simulated: queue full")
        if partition < 0:
            count = self._broker.partition_counts[topic]
            partition = crc32(key) % count if key is not None else self._world.random.randrange(count)
        self._queued += 1
        entry = Entry(-1001, key, value or b"", headers)
        self._queue.setdefault((topic, partition), deque()).append((entry, on_delivery))

    def poll(self, timeout: float = -1) -> int:
        self._world.step("poll")
        self._world.now_s += max(timeout, 0)
        self._send(lambda: self._world.chance(0.6))
        self._raise_fatal()
        return 0

    def flush(self, timeout: float = -1) -> int:
        world = self._world
        world.step("flush")
        if world.armed:
            if world.strikes("rival"):
                self._broker.rival()
            if world.strikes("transaction timeout"):
                world.now_s += 400
                self._broker.fence()
        if world.chance(0.2):
            world.now_s += max(timeout, 0)
            self._send(lambda: world.chance(0.6))
        else:
            self._send(lambda: True)
        self._raise_fatal()
        return self._queued

    def _raise_fatal(self) -> None:
        if self._state_error is not None and self._state_error.args[0].fatal():
            raise self._state_error

    def _send(self, goes: Callable[[], bool], *, answers: bool = True) -> None:
        """Partitions in any order, records of one partition in theirs."""
        places = list(self._queue)
        self._world.random.shuffle(places)
        for place in places:
            queue = self._queue[place]
            while queue and goes():
                entry, on_delivery = queue.popleft()
                self._queued -= 1
                error = self._send_one(place, entry)
                if on_delivery is not None and answers:
                    on_delivery(error, Delivered(place, entry))

    def _send_one(self, place: Place, entry: Entry) -> KafkaError | None:
        if self._world.armed and self._world.strikes("delivery failure"):
            return self._undelivered(KafkaError(KafkaError._MSG_TIMED_OUT, "simulated"), fatal=False)
        if self._state_error is not None:
            return KafkaError(KafkaError._PURGE_QUEUE, "simulated")
        if self._is_held_for_written(place):
            return None
        if not self._is_transactional:
            entry.offset = self._broker.append_plain(place, entry.key, entry.value)
            self._broker.schema_ids.update(_schema_ids(entry))
            return None
        try:
            if place not in self._added:
                self._broker.add_partition(self._epoch, place)
                self._added.add(place)
            entry.offset = self._broker.append(self._epoch, place, entry.key, entry.value, entry.headers)
        except Fenced:
            return self._undelivered(KafkaError(KafkaError._FENCED, "simulated", True), fatal=True)
        except NotInTransaction:
            return self._undelivered(KafkaError(KafkaError.INVALID_TXN_STATE, "simulated"), fatal=False)
        return None

    def _is_held_for_written(self, place: Place) -> bool:
        """A first batch that the broker refused, since a second one was taken (confluent-kafka-go#921)."""
        is_first = place not in self._written
        self._written.add(place)
        world = self._world
        return bool(is_first and self._sends_ahead and self._queue[place] and world.armed and world.strikes(LOST_BATCH))

    def _undelivered(self, error: KafkaError, *, fatal: bool) -> KafkaError:
        if self._is_transactional:
            self._state_error = failure(error.code(), fatal=fatal, abort=not fatal)
        return error

    def _drop(self) -> None:
        """What was not sent is answered with an error."""
        for place, queue in self._queue.items():
            for entry, on_delivery in queue:
                self._queued -= 1
                if on_delivery is not None:
                    on_delivery(KafkaError(KafkaError._PURGE_QUEUE, "simulated"), Delivered(place, entry))
        self._queue.clear()

    def purge(self, *_: Any, **__: Any) -> None:
        self._drop()

    def list_topics(self, topic: str, timeout: float = -1) -> Any:
        self._world.step("list_topics")
        counts = self._broker.partition_counts
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=dict.fromkeys(range(counts.get(topic, 1))))})


def _schema_ids(entry: Entry) -> list[bytes]:
    """I2 is checked against the ids that metadata keys name: ``relation/<id>/<schema id>``."""
    kind, _, rest = (entry.key or b"").partition(b"/")
    return [bytes.fromhex(rest.rpartition(b"/")[2].decode())] if kind == b"relation" else []
