"""A session frame by frame between kept peers: what it is fed, and what it commits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from tests.producer.avro_reader import envelope
from tests.producer.kept import ITEMS, ORDERS, Batch, Kept, catalogue, relation
from tests.producer.pgoutput.encoder import encode_message, keepalive, tuple_data, xlog_data
from tests.producer.streaming_progress import STREAMING, current
from walbridge.producer.pgoutput.messages import Begin, Commit, Insert, Message
from walbridge.producer.postgres.copy_beside.copy_reader import CopyReader
from walbridge.producer.postgres.facts import TableFacts
from walbridge.producer.session.loop import Session
from walbridge.producer.session.parts import SessionParts
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Postgres, Producer, Topics

Unknown = Literal["refuse", "stale"]
OPTIONS = {"proto_version": "3", "streaming": "on", "two_phase": "true", "messages": "true"}
COPIED = replace(STREAMING, tables=current(ORDERS, ITEMS), options=OPTIONS)
SERVER = 180006
BEGIN = Begin(Lsn(500), 7, 77)
COMMIT = Commit(Lsn(500), Lsn(540), 7)


def insert(id_: int, relation_id: int = ORDERS) -> Insert:
    return Insert(relation_id, tuple_data(b"%d" % id_, b"note"))


class Streamed(Kept):
    """A session between kept peers. Use as a context manager."""

    def __init__(
        self,
        progress: Progress,
        rows_max: int,
        bytes_max: int,
        messages: bool,
        unknown: Unknown,
        readers: tuple[CopyReader, CopyReader] | None = None,
        row_bytes_max: int = 2**24,
        topics: Topics | None = None,
    ) -> None:
        limits = Producer(
            row_bytes_max=row_bytes_max,
            batch_rows_max=rows_max,
            batch_bytes_max=bytes_max,
            batch_ms_max=10**9,
            idle_cut_interval_ms=10**9,
            on_unknown_value=unknown,
        )
        postgres = Postgres(messages=messages)
        settings = Settings(name="p", postgres=postgres, producer=limits, topics=topics or Topics())
        super().__init__(settings=settings, progress=progress)
        self.spool = Spool(self.settings)
        self.facts: dict[int, TableFacts] = {}
        """What the catalogue knows of tables."""
        with catalogue():
            parts = SessionParts(self.settings, self.stream, self.tables, self.out, self.watch, self.spool, SERVER)
            if readers is not None:
                parts.copy_with(readers, None)
            self.session = Session(parts)

    def feed(self, *messages: Message | bytes) -> None:
        """Frames arrive, and all of them are taken."""
        payloads = [each if isinstance(each, bytes) else encode_message(each) for each in messages]
        self.kept_stream.frames.extend(xlog_data(payload) for payload in payloads)
        self.take()

    def hear(self, wal_end: int, *, reply_requested: bool = False) -> None:
        self.kept_stream.frames.append(keepalive(wal_end, reply_requested=reply_requested))
        self.take()

    def take(self) -> None:
        with catalogue(self.facts):
            while (data := self.session._read()) is not None or self.session._replay.is_open:
                if data is None:
                    self.session._end_replay()
                else:
                    self.session.receive(data)

    def stall(self, silent_s: float, *then: Message) -> None:
        """Nothing arrives for so long, then this."""
        self.out.batch.opened_s -= silent_s
        later = self.kept_stream.later
        later.extend(xlog_data(encode_message(each)) for each in then)
        with catalogue(self.facts):
            while later or self.kept_stream.frames:
                self.session.run(lambda: not later and not self.kept_stream.frames)

    def rest(self) -> None:
        """Nothing more arrives: the session ends what it may end, and stops if it may."""
        with catalogue(self.facts):
            self.session.run(lambda: True)

    @property
    def events(self) -> list[tuple[str, str, int | None, int, int]]:
        """Table, op, id, commit LSN and ordinal of each committed row, in order."""
        found = []
        for topic, event in self._read():
            image = event["after"] or event["before"] or {}
            at = event["source"]["commit_lsn"], event["source"]["ordinal"]
            found.append((topic.rpartition(".")[2], event["op"], image.get("id"), *at))
        return found

    @property
    def origins(self) -> list[tuple[str | None, int | None]]:
        """Of each committed row: where it was written first."""
        return [(source["origin"], source["origin_lsn"]) for source in (event["source"] for _, event in self._read())]

    @property
    def transactions(self) -> list[dict[str, Any] | None]:
        """What each committed row tells of its transaction."""
        return [event["transaction"] for _, event in self._read()]

    @property
    def boundaries(self) -> list[dict[str, Any]]:
        """What is told of begins and ends of transactions; the key of each is its id."""
        told = [each for batch in self.kafka.batches for each in batch.told]
        values = [json.loads(value) for _, value in told]
        assert [json.loads(key) for key, _ in told] == [{"id": value["id"]} for value in values]
        return values

    def _read(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Topic and envelope of each committed row."""
        for batch in self.kafka.batches:
            yield from self.read_of(batch)

    def read_of(self, batch: Batch) -> Iterator[tuple[str, dict[str, Any]]]:
        """Likewise, of one batch."""
        schemas = {record.schema_id: record for record in self.kafka.expected}
        for row in batch.rows:
            yield row.topic, envelope(schemas[frame_of(row.value).frame_id], row.value)

    @property
    def cut(self) -> Cut:
        assert self.last.cut is not None
        return self.last.cut


@contextmanager
def streamed(
    progress: Progress = COPIED,
    *,
    rows_max: int = 1000,
    bytes_max: int = 2**20,
    messages: bool = False,
    unknown: Unknown = "refuse",
    row_bytes_max: int = 2**24,
    partitions: Mapping[str, int] = MappingProxyType({}),
    topics: Topics | None = None,
) -> Iterator[Streamed]:
    """A session to which both tables were announced, in a transaction without changes.

    Args:
        partitions: of topics that are there.
    """
    made = Streamed(progress, rows_max, bytes_max, messages, unknown, row_bytes_max=row_bytes_max, topics=topics)
    made.admin.counts |= partitions
    try:
        made.feed(Begin(Lsn(210), 7, 70), relation(ORDERS), relation(ITEMS), Commit(Lsn(210), Lsn(220), 7))
        yield made
    finally:
        made.spool.close()
