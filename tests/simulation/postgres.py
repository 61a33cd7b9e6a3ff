"""A Postgres server for one slot: its WAL, its slot, and the walsender's end of the connection.

Fakes ``pq.PGconn`` below the real ``ReplicationStream``, so that the bytes of every status update
are read here as the server reads them. Faithful in what loses data:
START behind ``confirmed_flush_lsn`` is moved forward without a word, feedback beyond the end of
WAL is taken, a crash forgets acknowledgements that were not saved, keepalives come between any two
messages, and their ``wal_end`` may stand anywhere up to the next commit record.
"""

import re
from collections.abc import Callable
from random import Random
from struct import unpack

import psycopg
from psycopg import pq

from tests.producer.pgoutput.encoder import encode_message, keepalive, xlog_data
from tests.simulation.early import Early
from tests.simulation.history import CONSISTENT_POINT, Transaction, pieces_of, relation
from tests.simulation.world import Violation, World
from walbridge.producer.postgres.facts import ServerIdentity, SlotState
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.position import Lsn, parse_lsn

DATABASE, SYSTEM_ID, TIMELINE, VERSION = "app", "7000000000000000001", 1, 180006
_START = re.compile(rb"START_REPLICATION SLOT \S+ LOGICAL (\S+) ")


class Server:
    """The primary. ``visible`` of its transactions are committed so far."""

    def __init__(
        self,
        world: World,
        history: list[Transaction],
        durable_lsn: Callable[[], int],
        half_published: Callable[[], Transaction | None],
    ) -> None:
        self._world = world
        self.history = history
        self._durable_lsn = durable_lsn
        self._half_published = half_published
        self.visible = 0
        self.confirmed = self.saved = int(CONSISTENT_POINT)
        self.reported = int(CONSISTENT_POINT)
        """The highest LSN that it has sent to anybody."""
        self.must_be_refused: str | None = None
        """Somebody meddled: words that the refusal must hold."""
        self.system_id, self.slot_exists = SYSTEM_ID, True
        self.confirmations = 0
        self.pause_share, self.keepalive_share = 0.04, 0.1
        """How often nothing has arrived yet, and how often a keepalive comes where one may come."""
        self.stream_share = 0.0
        """How often a transaction comes in blocks."""
        self.two_phase = False
        self.work_share = 0.5
        """How often the application commits where it may."""
        self._walsender: Walsender | None = None

    @property
    def end_lsn(self) -> int:
        """Of everything that will ever be committed."""
        return self.history[-1].end_lsn if self.history else int(CONSISTENT_POINT)

    @property
    def wal_end(self) -> int:
        """Of the WAL that is there now."""
        return max(self.history[self.visible - 1].end_lsn if self.visible else 0, self.confirmed, CONSISTENT_POINT)

    def work(self) -> None:
        """The application commits."""
        if self.visible < len(self.history) and self._world.chance(self.work_share):
            self.visible += 1

    def identify(self) -> ServerIdentity:
        """IDENTIFY_SYSTEM."""
        self.connect("identify")
        return ServerIdentity(self.system_id, TIMELINE, Lsn(self.wal_end), DATABASE, VERSION)

    def inspect(self) -> SlotState | None:
        """Its row of pg_replication_slots. While it is in use nobody else moves it."""
        if self._walsender is None or self._walsender.is_closed:
            self._world.step("inspect slot")
            if self._world.armed and self.must_be_refused is None:
                self._be_meddled_with()
        if not self.slot_exists:
            return None
        return SlotState("pgoutput", DATABASE, None, "reserved", Lsn(self.confirmed), self.two_phase)

    def _be_meddled_with(self) -> None:
        unpublished = [each for each in self.history[: self.visible] if each.commit_lsn >= self._durable_lsn()]
        if unpublished and self._world.strikes("slot moved"):
            self.confirmed = unpublished[0].end_lsn
            self.must_be_refused = "a gap"
            return
        half = self._half_published()
        if half is not None and self._world.strikes("publication changed"):
            pieces = pieces_of(half)
            at = next(n for n, piece in enumerate(pieces) if piece.relation_ids)
            other = pieces[at].payload[:-1] + bytes([pieces[at].payload[-1] ^ 1])
            pieces[at] = pieces[at]._replace(payload=other)
            self.must_be_refused = "reads otherwise"

    def connect(self, what: str) -> None:
        """A new connection, of whatever kind."""
        self._world.step(f"connect: {what}")
        if self._world.strikes("postgres away"):
            raise RetryableError("Postgres cannot be reached: simulated")

    def give_slot(self, walsender: "Walsender") -> None:
        """The slot has one walsender: an operator who hands it over ends the one before."""
        if self._walsender is not None:
            self._walsender.is_terminated = True
        self._walsender = walsender

    def crash(self) -> None:
        """``kill -9`` and recovery: acknowledgements that were not saved are forgotten."""
        self._world.note(f"Postgres crashes, slot {self.confirmed} -> {self.saved}")
        self.confirmed = self.saved

    def feedback(self, received: int, confirmed: int) -> None:
        """A standby status update."""
        world = self._world
        world.note(f"status: received {received} confirmed {confirmed}")
        if max(received, confirmed) > self.reported:
            raise Violation(f"I1: feedback {received}, {confirmed}; the server reported {self.reported}")
        if confirmed > self._durable_lsn():
            raise Violation(f"I1: {confirmed} confirmed, but Kafka lacks changes from {self._durable_lsn()} on")
        if confirmed > self.confirmed:
            self.confirmed = confirmed
            self.confirmations += 1
        if world.chance(0.3):
            self.saved = self.confirmed


class _Result:
    status = pq.ExecStatus.COPY_BOTH


class Walsender:
    """One connection in replication mode, as ``pq.PGconn`` shows it."""

    def __init__(self, server: Server, world: World) -> None:
        self._server, self._world = server, world
        self.socket = self
        self.backend_pid = 1
        self.nonblocking = 0
        self._frames: list[tuple[int, bytes]] = []
        """(highest LSN it reports, frame), the next one last."""
        self._announced: dict[int, int] = {}
        self._next = 0
        self._low = 0
        self._is_broken = False
        self.is_terminated = False
        """Ended by the server; what it sent before is still read, and what it is told goes nowhere."""

    @property
    def is_closed(self) -> bool:
        """The slot is nobody's, or the next walsender's."""
        return self._is_broken or self.is_terminated

    def exec_(self, command: bytes) -> _Result:
        """START_REPLICATION."""
        match = _START.match(command)
        assert match is not None, command
        asked = parse_lsn(match[1].decode())
        self._server.connect(f"start at {asked}, slot at {self._server.confirmed}")
        self._server.give_slot(self)
        start = max(asked, self._server.confirmed)
        history = self._server.history
        while self._next < len(history) and history[self._next].commit_lsn < start:
            self._next += 1
        # Decoding begins at restart_lsn, before the slot's place: the first keepalives may speak of it.
        self._low = start if self._world.chance(0.7) else max(start - 64, int(CONSISTENT_POINT))
        dice = Random(f"{start} {self._world.step_count}")
        server = self._server
        stream_share = server.stream_share if b"streaming" in command else 0.0
        self._early = Early(history, self._announced, start, dice, stream_share, two_phase=server.two_phase)
        return _Result()

    def finish(self) -> None:
        """The connection is closed."""
        self._is_broken = True

    def get_copy_data(self, _: int) -> tuple[int, bytes]:
        """The next frame; length 0 when nothing has arrived, or, so it seems, now and then."""
        world = self._world
        world.step("read")
        self._fail("disconnect", world.strikes("disconnect"))
        if world.armed and world.strikes("Postgres crash"):
            self._server.crash()
            self._fail("crash", True)
        self._fail("termination", self.is_terminated and not self._frames)
        if not self._frames and not self._decode():
            return 0, b""
        if world.random.random() < self._server.pause_share:
            return 0, b""
        reported, frame = self._frames.pop()
        if reported > self._server.reported:
            self._server.reported = reported
        if world.trace is not None:
            world.note(f"frame {frame[:1].decode()} {frame[25:26]!r} {reported or ''}")
        return len(frame), frame

    def _fail(self, why: str, is_due: bool) -> None:
        if is_due or self._is_broken:
            self._is_broken = True
            raise psycopg.OperationalError(f"simulated {why}")

    def consume_input(self) -> None:
        """What the socket holds goes to libpq's buffer: here it is there already."""

    def flush(self) -> int:
        """All of it is sent at once."""
        return 0

    def put_copy_data(self, status: bytes) -> int:
        """A status update, which a broken connection may swallow."""
        self._world.step("status")
        if self._is_broken or self._world.strikes("status lost"):
            self._fail("connection", True)
        tag, received, confirmed, _, _, _ = unpack(">cQQQqB", status)
        assert tag == b"r"
        if not self.is_terminated:
            self._server.feedback(received, confirmed)
        return 1

    def has_input(self) -> bool:
        """Whether a read would find something."""
        return bool(self._frames) or self._next < self._server.visible or self.is_terminated

    def wait(self, timeout_s: float) -> None:
        """The producer is idle; the application is not, and the walsender pings now and then."""
        self._world.step("wait")
        self._world.now_s += timeout_s
        self._server.work()
        if not self.has_input() and self._world.chance(0.6):
            upper = self._upper()
            self._frames = [*self._early.prepares(upper), self._keepalive(upper)][::-1]

    def _upper(self) -> int:
        """Where decoding may stand: at the next commit record, or at the end of WAL."""
        server = self._server
        if self._next < server.visible:
            return server.history[self._next].commit_lsn
        return max(server.wal_end, self._low)

    def _keepalive(self, upper: int) -> tuple[int, bytes]:
        random = self._world.random
        wal_end = upper if random.random() < 0.6 else random.randint(min(self._low, upper), upper)
        return wal_end, keepalive(wal_end, reply_requested=random.random() < 0.3)

    def _decode(self) -> bool:
        """The frames of the next transaction, with what comes between them."""
        server, random, share = self._server, self._world.random, self._server.keepalive_share
        if random.random() < 0.3:
            server.work()
        if self._next >= server.visible:
            return False
        transaction = server.history[self._next]
        frames = [*self._early.blocks(self._next, server.visible), *self._early.prepares(transaction.commit_lsn)]
        frames += [self._keepalive(transaction.commit_lsn)] if random.random() < share else []
        end = self._early.end(self._next)
        frames += self._whole(transaction) if end is None else end
        frames[-1] = (transaction.end_lsn, frames[-1][1])
        self._low = transaction.end_lsn
        self._next += 1
        if random.random() < 2 * share:
            upper = self._upper()
            frames += [*self._early.prepares(upper), self._keepalive(upper)]
        frames.reverse()
        self._frames = frames
        return True

    def _whole(self, transaction: Transaction) -> list[tuple[int, bytes]]:
        random, share = self._world.random, self._server.keepalive_share
        frames = []
        for piece in pieces_of(transaction):
            for relation_id in piece.relation_ids:
                if self._announced.get(relation_id) != piece.version or random.random() < 0.02:
                    self._announced[relation_id] = piece.version
                    frames.append((0, xlog_data(encode_message(relation(relation_id, piece.version)))))
            if piece.relation_ids and random.random() < share / 2:
                frames.append(self._keepalive(transaction.commit_lsn))
            frames.append((0, xlog_data(piece.payload, piece.lsn, piece.lsn)))
        return frames


class Select:
    """Stands for the ``select`` module under ``ReplicationStream``."""

    def __init__(self, world: World) -> None:
        self._world = world

    def select(
        self, readable: list[Walsender], writable: list[Walsender], _: list[object], timeout_s: float
    ) -> tuple[list[Walsender], list[Walsender], list[object]]:
        """Waits for the walsender; writing is always possible."""
        if timeout_s and readable and not writable:
            readable[0].wait(timeout_s)
        return [each for each in readable if each.has_input()], writable, []
