"""Looks at the slot many times a second: never is more confirmed than Kafka holds (I1).

Each sample reads the slot first and then how far the cuts topic reaches, so whatever is committed
between the two only raises the bound. A cut counts if it lay in the log at that moment and was
committed: read_committed readers saw it later. While the broker is away the reach is that of its
return. Both connections are the watch's own, and are made again when a server has died.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.faults.campaign.ledger import Ledger, reader_of
from tests.fix_postgres import Database
from walbridge.schemas.position import format_lsn, parse_lsn
from walbridge.schemas.topics import cuts_topic

INTERVAL_S = 0.03
SLOT = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"


class SlotWatch:
    """Samples in a thread of its own. A context manager."""

    def __init__(self, database: Database, bootstrap_servers: str, pipeline: str, slot: str) -> None:
        self._database, self._slot = database, slot
        self._cuts = TopicPartition(cuts_topic(pipeline), 0)
        self._reader: Consumer = reader_of(bootstrap_servers, "read_uncommitted")
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._unreached: list[int] = []
        self._reached: list[tuple[int, int]] = []
        self._failure: BaseException | None = None
        self.samples = 0
        self._thread = threading.Thread(target=self._run, name="slot watch")

    def __enter__(self) -> SlotWatch:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()
        self._reader.close()

    def check(self, ledger: Ledger, *, is_whole: bool = False) -> None:
        """Judge every sample whose reach the ledger has read; all of them, if it has read the topic to its end."""
        if self._failure is not None:
            raise self._failure
        with self._lock:
            samples, self._reached = self._reached, []
        later = []
        for confirmed, reach in samples:
            bound = ledger.end_lsn_before(reach)
            if bound is None and is_whole:
                bound = ledger.cuts[-1].end_lsn
            if bound is None:
                later.append((confirmed, reach))
                continue
            assert confirmed <= bound, f"confirmed {format_lsn(confirmed)}, Kafka held {format_lsn(bound)}"
        with self._lock:
            self._reached = later + self._reached

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                try:
                    with self._database.connect(connect_timeout=5) as connection:
                        self._sample(connection)
                except psycopg.OperationalError:
                    self._end.wait(INTERVAL_S)
        except BaseException as error:
            self._failure = error

    def _sample(self, connection: psycopg.Connection[Any]) -> None:
        while not self._end.wait(INTERVAL_S):
            row = connection.execute(SLOT, (self._slot,)).fetchone()
            assert row is not None, "the slot is gone"
            self._unreached.append(parse_lsn(row[0]))
            self.samples += 1
            self._reach()

    def _reach(self) -> None:
        try:
            # Not the last stable offset: a commit is certain before its marker is everywhere.
            found: Any = self._reader.get_watermark_offsets(self._cuts, timeout=0.05)
        except KafkaException:
            found = None
        if found is None:
            return
        with self._lock:
            self._reached += [(confirmed, found[1]) for confirmed in self._unreached]
        self._unreached.clear()
