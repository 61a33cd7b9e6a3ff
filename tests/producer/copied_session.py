"""A session beside whose stream tables are copied, between kept peers: the test answers for the copies' reader."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.producer.copy_lines import line_of
from tests.producer.kept import INT4, ITEMS, ORDERS, TEXT, catalogue, relation
from tests.producer.kept_session import OPTIONS, Streamed
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.streaming_progress import STREAMING, current
from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.encoding.copied_rows import CopiedBlock, RowFormat
from walbridge.producer.encoding.transcoder import make_line_encoder
from walbridge.producer.pgoutput.messages import Begin, Change, Commit, Insert, Relation, RelationColumn, Unsent, Update
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    Answer,
    ChunkRead,
    ChunkShown,
    ChunkWanted,
    TableFound,
    TablesFound,
    TablesWanted,
    TableWanted,
    Wanted,
)
from walbridge.producer.postgres.copy_beside.copy_reader import CopyReader
from walbridge.producer.postgres.facts import ColumnFacts, PublishedTable, TableFacts
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.postgres.table_reads.row_spool import RowSpool
from walbridge.producer.session.copies import arrival, whole_steps
from walbridge.producer.session.copies.state import copied_table, reading, tables_to_copy, waits, whole_copy
from walbridge.producer.session.copies.table_copies import TableCopies
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import COPYING, TableCopy, TableProgress
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings_sections import Topics

LATE, LATER = 16_400, 16_410
"""Tables that came after the copy."""
NAMES = {LATE: "late", LATER: "later"}
COPIED = replace(STREAMING, tables=current(ORDERS, ITEMS), options=OPTIONS)
XID = 1_000
"""No transaction had it, or one above it, when the first question was asked."""
KEPT = Unsent.UNCHANGED_TOAST


class Reader:
    """Stands for the reader of copies: what it is asked for, and the answers that have come."""

    def __init__(self) -> None:
        self.asked: list[Wanted] = []
        self.wanted: Wanted | None = None
        """None: nothing, or what was asked for was let go."""
        self.given_back = 0
        self._answers: deque[Answer] = deque()

    def ask(self, wanted: Wanted) -> None:
        self.cancel()
        self.asked.append(wanted)
        self.wanted = wanted

    def cancel(self) -> None:
        self.wanted = None
        _close(self._answers)
        self._answers.clear()

    def give_back(self, size_bytes: int) -> None:
        self.given_back += size_bytes

    def answer(self) -> Answer | None:
        if not self._answers:
            return None
        if isinstance(self._answers[0], TablesFound):
            self.wanted = None
        return self._answers.popleft()

    def tell(self, *answers: Answer) -> None:
        """To what was asked for last; if that was let go, nobody hears it."""
        if self.wanted is None:
            _close(answers)
        else:
            self._answers.extend(answers)


def _close(answers: Iterable[Answer]) -> None:
    for answer in answers:
        if isinstance(answer, ChunkRead):
            answer.rows.close()


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


def published(relation_id: int = LATE) -> PublishedTable:
    return PublishedTable(relation_id, "public", NAMES[relation_id], "d", ("id", "note"), None, False)


def found(
    relation_id: int = LATE,
    *,
    lsn: int = 600,
    shape: str = "first",
    more: Sequence[str] = (),
    key_names: tuple[str, ...] | None = ("id",),
) -> TableFound:
    """The table as the reader describes it; ``more``: columns of text that it has by now."""
    has_key = key_names is not None
    columns = (
        ColumnFacts("id", INT4, -1, 1, False, has_key, has_key, None),
        *(ColumnFacts(name, TEXT, -1, 2 + n, True, False, False, None) for n, name in enumerate(("note", *more))),
    )
    facts = TableFacts("d", columns, len(columns), "public", NAMES[relation_id])
    table = replace(published(relation_id), column_names=tuple(column.name for column in columns))
    return TableFound(table, facts, {}, shape, key_names, Lsn(lsn), membership="of its own")


def shown(xmin: int = XID + 500, *in_progress: int, xmax: int | None = None) -> ChunkShown:
    """The snapshot with which rows are read: it contains what is below ``xmin``."""
    snapshot = Snapshot(xmin, max(xmin, xmax or 0), frozenset(in_progress))
    return ChunkShown(snapshot, is_read=True)


def read(
    *rows: tuple[int, str],
    lsn: int = 0,
    bound: int | None = None,
    is_last: bool = False,
    asked: bool = False,
    row_format: RowFormat | None = None,
) -> ChunkRead:
    """The rows that were read; those of listed keys have no bound. ``row_format``: they are encoded."""
    spool, encoded = RowSpool(tempfile.gettempdir()), [row(*each) for each in rows]
    lines = [line_of(b"%d" % id_, note.encode()) for id_, note in rows]
    spool.append(CopiedBlock([None] * len(rows), lines) if row_format is None else _encoded(lines, row_format))
    spool.finish()
    last = bound if bound is not None else max((id_ for id_, _ in rows), default=None)
    place = None if asked or last is None else Bound((str(last),))
    return ChunkRead(spool, Lsn(lsn), len(rows), sum(map(len, encoded)), place, is_last)


def _encoded(lines: list[bytes], row_format: RowFormat) -> CopiedBlock:
    encode = make_line_encoder(row_format.record)
    return CopiedBlock([encode(line, row_format.part) for line in lines], lines)


def row(id_: int, note: str | Unsent) -> bytes:
    return tuple_data(b"%d" % id_, note.encode() if isinstance(note, str) else note)


def insert(id_: int, note: str, relation_id: int = LATE) -> Insert:
    return Insert(relation_id, row(id_, note))


def moved(old: int, new: int, note: str | Unsent = KEPT, relation_id: int = LATE) -> Update:
    """A row goes to another key; what it holds is not said unless told."""
    return Update(relation_id, tuple_data(b"%d" % old, Unsent.NULL), None, row(new, note))


def announcement(relation_id: int = LATE, *more: str) -> Relation:
    """``more``: columns of text that the table has by now."""
    columns = (RelationColumn(False, name, TEXT, -1) for name in more)
    return relation(relation_id, *columns, name=NAMES[relation_id])


def copying(*rows_until: str, shape: str = "first", **more: object) -> dict[int, TableProgress]:
    """Progress of a session that had copied up to a key."""
    copy = replace(TableCopy(Lsn(150), rows_until or None, len(rows_until), 10, 1, shape=shape), **more)  # type: ignore[arg-type]
    known = TableProgress(LATE, COPYING, "p.public.late", "one-13", "of its own", Lsn(150), None, copy, "public.late")
    return {**COPIED.tables, LATE: known}


class Copied(Streamed):
    """Use by ``copied``. LSNs and xids count up as transactions are received."""

    def __init__(self, progress: Progress, clock: Clock, row_bytes_max: int, topics: Topics | None) -> None:
        self.reader, self.whole_reader, self.clock = Reader(), Reader(), clock
        super().__init__(
            progress,
            1000,
            2**20,
            messages=False,
            unknown="refuse",
            readers=(cast(CopyReader, self.reader), cast(CopyReader, self.whole_reader)),
            row_bytes_max=row_bytes_max,
            topics=topics,
        )
        self.kept_watch.xid = XID
        self.facts = {each: found(each).facts for each in NAMES}
        self._xid = XID

    @property
    def copies(self) -> TableCopies:
        assert self.session._copies is not None
        return self.session._copies

    def step(self) -> Wanted | None:
        """Between transactions; what is wanted of a reader then."""
        with catalogue(self.facts):
            self.copies.step()
        return self._asked.wanted

    @property
    def _asked(self) -> Reader:
        """The reader of chunks, if anything is wanted of it."""
        return self.whole_reader if self.reader.wanted is None else self.reader

    def answer(self, *answers: Answer) -> Wanted | None:
        """The reader answers; what is wanted next."""
        self._asked.tell(*answers)
        return self.step()

    def answer_whole(self, *answers: Answer) -> None:
        """The reader of tables that no key orders answers."""
        self.whole_reader.tell(*answers)
        self.step()

    def pass_s(self, seconds: float) -> Wanted | None:
        self.clock.now_s += seconds
        return self.step()

    def transaction(self, *changes: Change | Relation, xid: int | None = None, at: int | None = None) -> int:
        """One of the stream; its commit LSN. It ends 40 bytes behind that."""
        self._xid = xid or self._xid + 1
        lsn = Lsn(at or self.kept_stream.received + 10)
        self.feed(Begin(lsn, 7, self._xid), *changes, Commit(lsn, Lsn(lsn + 40), 7))
        return lsn

    def find(self, *relation_ids: int) -> Wanted | None:
        """Tables came, and are listed."""
        self.kept_watch.appeared |= set(relation_ids)
        assert self.step() == TablesWanted()
        return self.answer(TablesFound(tuple(map(published, relation_ids))))

    def begin(self, relation_id: int = LATE) -> ChunkWanted:
        """The table's copy begins; the first chunk that is asked for."""
        wanted = self.find(relation_id)
        assert isinstance(wanted, TableWanted)
        self.answer(found(relation_id, lsn=self.kept_stream.received))
        return self.chunk_wanted()

    def chunk_wanted(self) -> ChunkWanted:
        wanted = self.step()
        assert isinstance(wanted, ChunkWanted)
        return wanted

    def chunk(self, *rows: tuple[int, str], is_last: bool = False, asked: bool = False) -> Wanted | None:
        """A chunk whose snapshot contains all that was received is read at once."""
        lsn = self.kept_stream.received
        return self.answer(shown(), read(*rows, lsn=lsn, is_last=is_last, asked=asked))

    @property
    def schema_ids(self) -> list[str]:
        """Of each committed record of a table that came, markers among them."""
        rows = [row for batch in self.kafka.batches for row in batch.rows if row.topic.endswith("late")]
        return [frame_of(row.value).frame_id for row in rows]

    def told(self, relation_id: int = LATE) -> list[tuple[str, int | None, str | None]]:
        """Op, id and note of each committed record of the table, one of each marker."""
        name = f"public.{NAMES[relation_id]}"
        events = [event for topic, event in self._read() if topic.endswith(name)]
        images = [(event["op"], event["after"] or event["before"] or {}) for event in events]
        return [(op, image.get("id"), image.get("note")) for op, image in images]

    @property
    def kinds(self) -> list[str]:
        """Of all barriers of tables that came, in order."""
        cuts = [batch.cut for batch in self.kafka.batches if batch.cut is not None]
        return [b.kind for cut in cuts for table in cut.tables if table.relation_id in NAMES for b in table.barriers]

    def table(self, relation_id: int = LATE) -> TableProgress:
        """As Kafka holds it."""
        return self.last.progress.tables[relation_id]

    def copy(self, relation_id: int = LATE) -> TableCopy:
        copy = self.table(relation_id).copy
        assert copy is not None
        return copy


@contextmanager
def copied(
    tables: Mapping[int, TableProgress] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    row_bytes_max: int = 2**24,
    topics: Topics | None = None,
) -> Iterator[Copied]:
    """A session at rest; ``tables``, ``options``: as an earlier one left them."""
    progress = replace(
        COPIED, tables=dict(COPIED.tables if tables is None else tables), options={**COPIED.options, **(options or {})}
    )
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        for module in (arrival, copied_table, reading, tables_to_copy, waits, whole_copy, whole_steps):
            patch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic, time_ns=time.time_ns))
        made = Copied(progress, clock, row_bytes_max, topics)
        try:
            made.feed(Begin(Lsn(210), 7, 70), relation(ORDERS), relation(ITEMS), Commit(Lsn(210), Lsn(220), 7))
            yield made
        finally:
            made.copies._reading.end_whole()
            made.copies._reading.end()
            for table in made.copies._reading.copied.values():
                table.close_chunks()
            made.spool.close()
