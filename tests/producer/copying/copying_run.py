"""One run of a source and the producer that copies its table, step by step in an order that is drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.producer.copying.copying_session import Producer
from tests.producer.copying.small_postgres import KEYS, SmallPostgres, Transaction
from walbridge.schemas.control import table_progress as states

OPEN_MAX = 4


class Run:
    """Every step takes its choices as numbers, so that whoever draws them can draw fewer."""

    def __init__(self, *, has_full_identity: bool, chunk_rows: int, window_bytes_max: int) -> None:
        self.source = SmallPostgres(has_full_identity=has_full_identity)
        self.producer = Producer(self.source, chunk_rows, window_bytes_max)

    def statement(self, which: int, kind: int, key: int, to: int) -> None:
        """In one of the open transactions, or in a new one."""
        source = self.source
        at = self._open(which)
        match kind:
            case 0 | 1:
                source.insert(at, key)
            case 2 | 3:
                source.update(at, key, key, writes_big=kind == 3)
            case 4 | 5 | 6:
                source.update(at, key, to, writes_big=kind == 6)
            case 7 | 8:
                source.delete(at, key)
            case _:
                source.truncate(at)

    def log_commit(self, which: int) -> None:
        if running := self.source.running:
            self.source.log_commit(running[which % len(running)])

    def end(self, which: int) -> None:
        if running := self.source.running:
            self.source.end(running[which % len(running)])

    def write(self, kind: int, key: int, to: int) -> None:
        """A transaction of one statement that is visible at once."""
        at = self.source.begin()
        self.statement(len(self.source.running) - 1, kind, key, to)
        self.source.log_commit(at)
        self.source.end(at)

    def _open(self, which: int) -> Transaction:
        running = self.source.running
        if which >= len(running) and len(running) < OPEN_MAX:
            return self.source.begin()
        return running[which % len(running)]

    def finish(self) -> None:
        """Everything ends, the copy too, and what is published is what the source has."""
        while self.source.running:
            self.log_commit(0)
            self.end(0)
        producer = self.producer
        for _ in range(100):
            while producer.session.received_lsn < self.source.wal_end:
                producer.receive()
            producer.enter()
            producer.end_copy()
            if producer.session.table.state == states.CURRENT:
                break
            for step in (producer.begin_copy, producer.open_window, producer.read, producer.show):
                step()
        assert producer.session.table.state == states.CURRENT, "the copy does not come to its end"
        producer.commit()


PRODUCER_STEPS = (
    "receive", "receive", "receive", "commit", "look", "begin_copy", "open_window", "open_window", "read", "read",
    "show", "show", "enter", "enter", "end_copy",
)  # fmt: skip


KINDS = (range(9), (0, 2, 2, 4, 4, 4, 5, 7), (0, 4, 4, 4, 5, 7))
"""Of ``Run.statement``."""


def run_seed(seed: int, steps: int = 80) -> Run:
    """A run whose order a seed draws: the copy ends, the table is written on, and perhaps copied again."""
    draw = random.Random(seed)
    window_bytes_max = 2_000 if seed % 5 == 4 else 2**20
    run = Run(has_full_identity=seed % 4 == 3, chunk_rows=1 + min(seed % 3, 1), window_bytes_max=window_bytes_max)
    # Runs that do few things often come to places that a mixture of all hardly comes to.
    kinds, keys = draw.choice(KINDS), KEYS[: draw.randrange(3, len(KEYS) + 1)]
    run.producer.begin_copy()
    for _ in range(2):
        for _ in range(steps):
            _draw_step(draw, run, kinds, keys)
        run.finish()
    return run


def _draw_step(draw: random.Random, run: Run, kinds: Sequence[int], keys: Sequence[int]) -> None:
    dice = draw.random()
    which, key, to = draw.randrange(OPEN_MAX), draw.choice(keys), draw.choice(keys)
    # Few are truncates: they void, and leave nothing to copy.
    kind = 9 if draw.random() < 0.02 else draw.choice(kinds)
    if dice < 0.17:
        run.statement(which, kind, key, to)
    elif dice < 0.26:
        run.log_commit(which)
    elif dice < 0.31:
        run.end(which)
    elif dice < 0.33:
        run.source.write_wal()
    elif dice < 0.45:
        run.write(kind, key, to)
    elif dice < 0.465:
        run.producer.kill()
    else:
        getattr(run.producer, draw.choice(PRODUCER_STEPS))()
