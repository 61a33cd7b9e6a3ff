"""The first copy, without servers: what is refused, in which order it goes, and what its cuts say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
import structlog

from tests.producer.avro_reader import envelope
from tests.producer.kept import INT4, ITEMS, ORDERS, Kept, catalogue
from walbridge.producer import first_copy as copy
from walbridge.producer.begin_again import begin_first
from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.copying.next_epoch import Recorded, begins_again, next_epoch
from walbridge.producer.copying.read_faults import ReadFaults
from walbridge.producer.encoding.copied_rows import CopiedBlock, RowEncoder
from walbridge.producer.errors.tables import UnfitTable
from walbridge.producer.first_copy import first_copy
from walbridge.producer.guards.baseline import Baseline
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.copy_workers.pool import Answered
from walbridge.producer.postgres.copy_workers.protocol import PieceWanted, RowsHanded
from walbridge.producer.postgres.facts import ColumnFacts, CreatedSlot, PublishedTable, TableFacts
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.table_reads.pieces import Piece
from walbridge.producer.postgres.table_reads.row_spool import RowSpool
from walbridge.producer.start import Parts
from walbridge.producer.waits import Stopped
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import COPYING, CURRENT, QUARANTINED, STALE, TableProgress
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Postgres, Producer

AT = Lsn(700)
DATE = 1082
BASELINE = Baseline(
    frozenset({1}), {each: TableProgress(each, COPYING, membership="*") for each in (ORDERS, ITEMS)}, {}
)
ANEW = Progress("creating", "7", 1, "s", "shop")


def facts(*, key: bool = True) -> TableFacts:
    columns = (
        ColumnFacts("id", INT4, -1, 1, False, key, key, None),
        ColumnFacts("day", DATE, -1, 2, True, False, False, None),
    )
    return TableFacts("d", columns, 2, "public", "orders")


def published(relation_id: int, name: str) -> PublishedTable:
    return PublishedTable(relation_id, "public", name, "d", ("id", "day"), None, False)


HALVES = ((None, 5), (5, None))
OF_TABLE = "first_in_data_collection", "last_in_data_collection"
TABLES = [published(ORDERS, "orders"), published(ITEMS, "items")]


class Source:
    """The source's catalogue: as the snapshot shows it, and as it is now, and the rows of its tables."""

    def __init__(self, *rows: bytes | None) -> None:
        self.rows: dict[str, list[bytes | None]] = {"orders": list(rows), "items": []}
        self.snapshot = SimpleNamespace(published=TABLES, storage={ORDERS: (1,), ITEMS: (2,)})
        self.now = SimpleNamespace(published=TABLES, storage={ORDERS: (1,), ITEMS: (2,)})
        self.loses_locks = False
        self.workers: Workers | None = None


class Snapshot:
    """Stands for the snapshot's transaction."""

    def __init__(self, source: Source, happened: list[str]) -> None:
        self.connection = source.snapshot
        self._source, self._happened = source, happened

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *exception: Any) -> None:
        """It ends."""

    def lock(self, tables: list[PublishedTable]) -> None:
        self._happened.append(f"lock {len(tables)}")

    def refuse_lost(self) -> None:
        if self._source.loses_locks:
            raise RetryableError("the connection ended")

    def export(self) -> str:
        return "exported"

    def blocks(self, table: PublishedTable, among: object = None) -> Iterator[list[bytes]]:
        """Of five rows at most."""
        self._happened.append(f"read {table.name}" if among is None else f"read a part of {table.name}")
        block: list[bytes] = []
        for line in self._source.rows[table.name]:
            if line is None or len(block) == 5:
                yield block
                block = []
            block += [] if line is None else [line]
        if block:
            yield block


class Workers:
    """Stands for the processes: pieces come in another order than they are asked for. What is in ``lines`` is read;
    a piece for which there is None is left to the producer."""

    def __init__(self, lines: dict[tuple[str, int], list[bytes] | None]) -> None:
        self._lines = lines
        self.ended = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.ended = True

    def read(self, wanted: Iterator[PieceWanted]) -> Iterator[Answered | None]:
        for each in sorted(wanted, key=lambda one: (one.piece.first or 0, one.piece.table.name)):
            yield None
            lines = self._lines[each.piece.table.name, each.piece.first or 0]
            encoder = RowEncoder(each.row_format)
            handed = None if lines is None else RowsHanded(len(lines), sum(map(len, lines)))
            yield Answered(each, None if lines is None else self._spool(encoder.block(lines)), handed)

    @staticmethod
    def _spool(block: CopiedBlock) -> RowSpool:
        """With the lines that are still needed."""
        kept = [b"" if row is not None else line for row, line in zip(block.rows, block.lines, strict=True)]
        block = block._replace(lines=kept)
        return cast(RowSpool, SimpleNamespace(blocks=lambda: iter([block]), close=lambda: None))


class Copy(Kept):
    """One run of the copy; ``happened`` has the slot's part of it too."""

    def __init__(self, source: Source, settings: Settings) -> None:
        super().__init__(settings=settings, progress=ANEW)
        self.source, self.faults = source, ReadFaults()

    def baseline(self, tables: list[TableProgress], connection: object) -> Baseline:
        """Of what the connection sees; only the snapshot's is right."""
        assert tables == [TableProgress(ORDERS, COPYING), TableProgress(ITEMS, COPYING)]
        return BASELINE if connection is self.source.snapshot else Baseline(frozenset({2}), {}, {})

    def _create(self, walsender: object, name: str, *_: object, two_phase: bool, failover: bool) -> CreatedSlot:
        self.happened.append("create two-phase slot" if two_phase else "create slot")
        return CreatedSlot(AT, "snapshot")

    @contextmanager
    def peers(self) -> Iterator[None]:
        happened = self.happened
        seen = {"published_tables": lambda of, name: of.published, "storage_of": lambda of, ids: of.storage}
        known = {relation_id: facts() for relation_id in (ORDERS, ITEMS)}
        with catalogue(known, **seen), pytest.MonkeyPatch.context() as patch:
            patch.setattr(copy, "connect_walsender", lambda *_: SimpleNamespace(finish=lambda: happened.append("end")))
            patch.setattr(copy, "refuse_unfit_identities", lambda *_: happened.append("identities"))
            patch.setattr(copy, "Snapshot", lambda *_: Snapshot(self.source, happened))
            patch.setattr(copy, "table_pages", lambda *_: {})
            patch.setattr(copy, "table_sizes", lambda *_: {ORDERS: TableSize(20, 1000)})
            patch.setattr(copy, "pieces_of", lambda tables, *_: [Piece(t, *ends) for t in tables for ends in HALVES])
            patch.setattr(copy, "CopyWorkers", lambda *_: self.source.workers)
            patch.setattr(slot, "drop", lambda *_: happened.append("drop slot"))
            patch.setattr(slot, "create", self._create)
            yield

    def run(self, check_stop: Callable[[], None] = lambda: None) -> None:
        connection = cast(SqlConnection, self.source.now)
        self.source.now.info = self.source.snapshot.info = SimpleNamespace(server_version=180006)
        facts = SimpleNamespace(with_unused_partitions=lambda table: table)
        watch = cast(SourceWatch, SimpleNamespace(now=SimpleNamespace(baseline=self.baseline), stream_facts=facts))
        with self.peers():
            first_copy(self.settings, connection, ANEW, self.out, self.tables, watch, check_stop, self.faults)

    def begin_beside(self) -> None:
        with self.peers():
            parts = cast(Parts, SimpleNamespace(out=self.out, tables=self.tables))
            begin_first(self.settings, parts, cast(SqlConnection, self.source.now), ANEW)

    @property
    def barriers(self) -> list[tuple[str, str, Position]]:
        """Table, kind and place of all, in their order."""
        cuts = [batch.cut for batch in self.kafka.batches if batch.cut is not None]
        return [(t.topic, b.kind, b.position) for cut in cuts for t in cut.tables for b in t.barriers]

    def _events_of(self, topic: str) -> list[dict[str, Any]]:
        (record,) = [each for each in self.kafka.expected if each.topic == topic]
        rows = [row for batch in self.kafka.batches for row in batch.rows]
        return [envelope(record, row.value) for row in rows if row.topic == topic]

    def rows_of(self, topic: str) -> list[tuple[str, Any, int, int]]:
        """Op, row, commit LSN and ordinal of what went there."""
        events = self._events_of(topic)
        return [(e["op"], e["after"], e["source"]["commit_lsn"], e["source"]["ordinal"]) for e in events]

    def snapshots_of(self, topic: str) -> list[str]:
        """What each event says of the snapshot."""
        return [event["source"]["snapshot"] for event in self._events_of(topic)]


def copy_of(
    *rows: bytes | None,
    rows_max: int = 1000,
    bytes_max: int = 2**20,
    source: Source | None = None,
    two_phase: bool = False,
    row_bytes_max: int = 2**24,
    on_table_error: Literal["copy", "quarantine", "stop"] = "copy",
) -> Copy:
    limits = Producer(
        batch_rows_max=rows_max,
        batch_bytes_max=bytes_max,
        batch_ms_max=10**9,
        copy_workers=2 if source is not None and source.workers is not None else 0,
        row_bytes_max=row_bytes_max,
        on_table_error=on_table_error,
    )
    settings = Settings(name="p", postgres=Postgres(two_phase=two_phase), producer=limits)
    return Copy(source or Source(*rows), settings)


def copied(*rows: bytes | None, rows_max: int = 1000, bytes_max: int = 2**20) -> Copy:
    run = copy_of(*rows, rows_max=rows_max, bytes_max=bytes_max)
    run.run()
    return run


def test_table_that_was_truncated_or_altered_between_snapshot_and_lock_is_not_copied() -> None:
    """I8: no snapshot hides a TRUNCATE: its rows would be missing from a copy that says it is whole."""
    source = Source(b"1\t2020-01-01\n")
    source.now.storage = {ORDERS: (9,), ITEMS: (2,)}
    run = copy_of(source=source)

    with pytest.raises(RetryableError, match="altered or truncated"):
        run.run()

    assert "streaming" not in [batch.progress.state for batch in run.kafka.batches]
    assert run.happened[-1] == "end"


def test_publication_that_changed_before_the_snapshot_begins_the_copy_again() -> None:
    """I7: the slot sends changes of the tables that it publishes then."""
    source = Source()
    source.snapshot.published = TABLES[:1]

    with pytest.raises(RetryableError, match="publication was changed"):
        copy_of(source=source).run()


def test_order_of_a_copy_is_guards_progress_slot_lock_and_metadata() -> None:
    """A crash in between finds what it must begin again from; a slot holds WAL back, so guards come first."""
    happened = copied().happened
    steps = ["identities", "begin", "commit", "drop slot", "create slot", "begin", "commit", "lock 2", "metadata"]

    assert happened[: len(steps)] == steps
    assert happened[-2:] == ["end", "commit"]


def test_progress_goes_from_creating_over_copying_to_streaming_at_the_slots_place() -> None:
    run = copied(b"1\t2020-01-01\n")
    states = [(b.progress.state, b.progress.consistent_point, b.progress.relation_ids) for b in run.kafka.batches]

    assert states == [("creating", None, ()), ("copying", AT, ()), ("streaming", AT, (ORDERS, ITEMS))]
    assert [(b.progress.end_lsn, b.progress.done, b.progress.floor) for b in run.kafka.batches[1:]] == [(AT,) * 3] * 2


def test_first_epoch_beside_the_stream_begins_with_every_table_waiting_and_no_cut() -> None:
    """I7: a start that finds this makes slot and epoch, and asks for the copy of each, whatever came in between."""
    run = copy_of()
    run.begin_beside()

    progress = run.last.progress
    assert run.happened == ["identities", "begin", "commit"]
    assert (run.last.cut, begins_again(progress)) == (None, True)
    why = "its first copy has not begun"
    assert {(t.state, t.name, t.since, t.why) for t in progress.tables.values()} == {
        ("stale", "public.orders", None, why),
        ("stale", "public.items", None, why),
    }
    names = {ORDERS: "public.orders", ITEMS: "public.items"}
    assert next_epoch(progress, ANEW, why, (), 0, Recorded(names, {}, 0)).tables == progress.tables


def test_empty_publication_is_refused_before_a_first_epoch_beside_the_stream() -> None:
    run = copy_of()
    run.source.now.published = []

    with pytest.raises(OperatorError, match="holds no tables"):
        run.begin_beside()
    assert run.happened == []


def test_each_table_begins_with_a_barrier_and_a_truncate_and_ends_with_a_barrier() -> None:
    """I8: what an unfinished copy left in the topic is void, and the state counts only from the end on."""
    run = copied(b"1\t2020-01-01\n")

    assert run.barriers == [
        (f"p.public.{name}", kind, Position(AT, ordinal))
        for name in ("orders", "items")
        for kind, ordinal in (("copy_begin", -1), ("copy_end", 0))
    ]
    assert [row[0] for row in run.rows_of("p.public.orders")] == ["t", "r"]
    assert [row[0] for row in run.rows_of("p.public.items")] == ["t"]


def test_every_row_is_copied_before_every_change_also_one_that_its_type_cannot_hold() -> None:
    """I8: a year beyond Avro's goes another way to Kafka than the rest."""
    run = copied(b"1\t2020-01-01\n", b"2\tinfinity\n", b"3\t2020-01-03\n")
    rows = run.rows_of("p.public.orders")

    assert [row[2:] for row in rows] == [(AT, -1)] * 4
    assert [row[1]["id"] for row in rows[1:]] == [1, 2, 3]


@pytest.mark.parametrize(("rows_max", "bytes_max"), [(50, 2**20), (1000, 1024)], ids=["rows", "bytes"])
def test_cuts_inside_a_copy_are_incomplete_and_hold_each_row_once(rows_max: int, bytes_max: int) -> None:
    """I8, I9: nobody takes half a copy for a state of the source."""
    run = copied(*(b"%d\t2020-01-01\n" % n for n in range(250)), rows_max=rows_max, bytes_max=bytes_max)
    cuts = [batch.cut for batch in run.kafka.batches if batch.cut is not None]

    assert len(cuts) > 2
    assert [cut.complete for cut in cuts] == [False] * (len(cuts) - 1) + [True]
    assert [row[1]["id"] for row in run.rows_of("p.public.orders")[1:]] == list(range(250))
    assert {batch.progress.state for batch in run.kafka.batches[1:-1]} == {"copying"}


def test_everything_that_a_copy_writes_says_that_it_is_of_a_snapshot() -> None:
    """Also the row that goes the long way, and the truncate."""
    run = copied(b"1\t2020-01-01\n", b"2\tinfinity\n")

    assert run.snapshots_of("p.public.orders") == ["true", "first", "last"]


@pytest.mark.parametrize("rows_max", [1, 1000])
@pytest.mark.parametrize(
    ("orders", "items", "expected"),
    [
        ((), (), ([], [])),
        ((1,), (), (["last"], [])),
        ((1, 2, 3), (), (["first", "true", "last"], [])),
        ((), (1, 2), ([], ["first", "last"])),
        ((1,), (1,), (["first"], ["last"])),
        ((1, 2), (1, 2, 3), (["first", OF_TABLE[1]], [OF_TABLE[0], "true", "last"])),
    ],
)
def test_first_and_last_row_of_the_copy_and_of_each_table_say_so_in_debeziums_words(
    orders: tuple[int, ...], items: tuple[int, ...], expected: tuple[list[str], list[str]], rows_max: int
) -> None:
    """The last is told before its table ends, also where empty tables follow."""
    source = Source(*dates(*orders))
    source.rows["items"] = [*dates(*items)]
    run = copy_of(source=source, rows_max=rows_max)
    run.run()

    assert run.snapshots_of("p.public.orders")[1:] == expected[0]
    assert run.snapshots_of("p.public.items")[1:] == expected[1]
    for topic in ("p.public.orders", "p.public.items"):
        assert [kind for of, kind, _ in run.barriers if of == topic] == ["copy_begin", "copy_end"]
    assert [row[1]["id"] for row in run.rows_of("p.public.items")[1:]] == [*items]


def test_large_rows_are_bounded_by_bytes_before_the_clock_is_asked() -> None:
    """I9: a row may have megabytes, and the other limits are looked at once in a hundred rows."""
    run = copied(*(b"%d\t2020-01-01\n" % n for n in range(60)), bytes_max=1024)

    assert max(sum(len(row.value) for row in batch.rows) for batch in run.kafka.batches) < 2048


def test_batch_that_is_full_does_not_wait_for_a_row_that_is_long_in_coming() -> None:
    """I8: Kafka would abort it after a while, and every new copy would come to the same end."""
    silent = None
    run = copied(silent, b"1\t2020-01-01\n", silent, silent, b"2\t2020-01-01\n", silent, rows_max=1)

    rows = [[row for row in batch.rows if row.topic == "p.public.orders"] for batch in run.kafka.batches]
    assert [len(each) for each in rows if each] == [1, 1, 1]
    assert [kind for topic, kind, _ in run.barriers if topic == "p.public.orders"] == ["copy_begin", "copy_end"]
    assert [row[1]["id"] for row in run.rows_of("p.public.orders")[1:]] == [1, 2]


LARGE = b"2\t" + b"2" * 10**6 + b"\n"


@pytest.mark.parametrize("rows_max", [1, 1000])
def test_table_with_a_row_that_cannot_be_published_is_left_and_the_others_are_copied(rows_max: int) -> None:
    """I8: what was sent of it is void, and its rows are read to the end: to break off would end the snapshot."""
    source = Source(b"1\t2020-01-01\n", LARGE, b"3\t2020-01-03\n")
    source.rows["items"] = [b"1\t2020-01-01\n"]
    run = copy_of(source=source, rows_max=rows_max, row_bytes_max=1024)
    run.run()

    assert [row[0] for row in run.rows_of("p.public.orders")] == ["t", "r", "t"]
    assert [row[0] for row in run.rows_of("p.public.items")] == ["t", "r"]
    assert run.barriers == [
        ("p.public.orders", "copy_begin", Position(AT, -1)),
        ("p.public.orders", "truncate", Position(AT, 0)),
        ("p.public.orders", "dropped", Position(AT, 0)),
        ("p.public.items", "copy_begin", Position(AT, -1)),
        ("p.public.items", "copy_end", Position(AT, 0)),
    ]
    tables = run.last.progress.tables
    assert (tables[ORDERS].state, tables[ORDERS].since, tables[ITEMS].state) == (QUARANTINED, AT, CURRENT)
    assert tables[ORDERS].membership == "*"
    assert "a row of table public.orders (key: id) takes 1,000," in str(tables[ORDERS].why)


def by_workers(lines: dict[tuple[str, int], list[bytes] | None], *own: bytes, rows_max: int = 3) -> Copy:
    source = Source(*own)
    source.workers = Workers(lines)
    return copy_of(source=source, rows_max=rows_max, row_bytes_max=1024)


def dates(*ids: int) -> list[bytes]:
    return [b"%d\t2020-01-01\n" % each for each in ids]


def test_tables_whose_pieces_come_in_any_order_hold_each_row_once_between_their_barriers() -> None:
    """I8: also rows that no worker could encode, and pieces that none could read."""
    infinite = b"6\tinfinity\n"
    orders: dict[tuple[str, int], list[bytes] | None] = {
        ("orders", 0): None,
        ("orders", 5): [*dates(3, 4), infinite, *dates(5, 7)],
        ("items", 0): dates(1, 2),
        ("items", 5): [],
    }
    run = by_workers(orders, *dates(1, 2))
    run.run()

    assert sorted(row[1]["id"] for row in run.rows_of("p.public.orders") if row[0] == "r") == [1, 2, 3, 4, 5, 6, 7]
    assert [row[1]["id"] for row in run.rows_of("p.public.items") if row[0] == "r"] == [1, 2]
    assert {row[2:] for topic in ("orders", "items") for row in run.rows_of(f"p.public.{topic}")} == {(AT, -1)}
    told = [word for topic in ("orders", "items") for word in run.snapshots_of(f"p.public.{topic}") if word != "true"]
    assert sorted(told) == ["first", OF_TABLE[0], "last", OF_TABLE[1]]
    for topic in ("p.public.orders", "p.public.items"):
        assert run.rows_of(topic)[0][0] == "t"
        assert [kind for of, kind, _ in run.barriers if of == topic] == ["copy_begin", "copy_end"]
    assert "read a part of orders" in run.happened
    assert "read items" not in run.happened
    cuts = [batch.cut for batch in run.kafka.batches if batch.cut is not None]
    assert [cut.complete for cut in cuts] == [False] * (len(cuts) - 1) + [True]
    assert len(cuts) > 2
    assert run.source.workers is not None
    assert run.source.workers.ended


LINE = {"event": "copy of a table goes on", "log_level": "info", "table": "public.orders", "percent": 25}


@pytest.mark.parametrize("has_workers", [False, True])
def test_line_every_10_seconds_says_how_far_a_table_is(monkeypatch: pytest.MonkeyPatch, *, has_workers: bool) -> None:
    """Of five rows, of twenty by the server's word; the clock goes on by 5 s whenever it is asked."""
    clock = itertools.count(0.0, 5.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    rows = dates(1, 2, 3, 4, 5)
    orders: dict[tuple[str, int], list[bytes] | None] = {("orders", 0): rows, ("orders", 5): []}
    items: dict[tuple[str, int], list[bytes] | None] = {("items", 0): [], ("items", 5): []}
    run = by_workers(orders | items, rows_max=10) if has_workers else copy_of(*rows, None, None, None, None)
    with structlog.testing.capture_logs() as lines:
        run.run()

    told = [line for line in lines if line["event"] == LINE["event"] and line["table"] == LINE["table"]]
    assert told
    assert all({**line, **LINE} == line for line in told)
    assert {line["rows"] for line in told} == {5}
    assert all(line["bytes"] >= sum(map(len, rows)) for line in told)
    assert all(line["seconds_left"] > 0 and line["rows_per_s"] >= 0 for line in told)


@pytest.mark.parametrize("has_workers", [False, True])
def test_block_of_more_rows_than_a_batch_may_have_is_sent_in_several(*, has_workers: bool) -> None:
    """I9"""
    rows = dates(*range(1, 21))
    pieces: dict[tuple[str, int], list[bytes] | None] = {("items", 0): [], ("items", 5): [], ("orders", 5): []}
    run = by_workers(pieces | {("orders", 0): rows}) if has_workers else copy_of(*rows, rows_max=3)
    run.run()

    assert max(len(batch.rows) for batch in run.kafka.batches) <= 4  # the row that was held back
    assert [row[1]["id"] for row in run.rows_of("p.public.orders")[1:]] == [*range(1, 21)]


def test_table_with_a_row_that_cannot_be_published_is_left_whichever_worker_read_it() -> None:
    """I8: the pieces that come behind it are void, too."""
    large = [*dates(1, 2, 3, 4), LARGE]
    run = by_workers({("orders", 0): large, ("orders", 5): dates(6), ("items", 0): dates(1), ("items", 5): dates(2)})
    run.run()

    assert run.last.progress.tables[ORDERS].state == QUARANTINED
    assert run.last.progress.tables[ITEMS].state == CURRENT
    assert [row[0] for row in run.rows_of("p.public.orders")] == ["t", "r", "r", "r", "r", "t"]
    assert [kind for of, kind, _ in run.barriers if of == "p.public.orders"] == ["copy_begin", "truncate", "dropped"]
    assert [row[1]["id"] for row in run.rows_of("p.public.items") if row[0] == "r"] == [1, 2]


def test_copy_whose_locks_were_lost_on_the_way_is_not_whole() -> None:
    """I8: a table may have been altered or truncated between two of its pieces."""
    source = Source(b"1\t2020-01-01\n")
    source.loses_locks = True
    run = copy_of(source=source)

    with pytest.raises(RetryableError, match="connection ended"):
        run.run()

    assert "streaming" not in [batch.progress.state for batch in run.kafka.batches]


def test_row_that_cannot_be_published_ends_the_copy_where_settings_say_so() -> None:
    run = copy_of(LARGE, row_bytes_max=1024, on_table_error="stop")
    with pytest.raises(OperatorError, match="takes 1,000,"):
        run.run()


def test_stop_is_heard_while_a_copy_waits_for_a_row() -> None:
    def stop() -> None:
        raise Stopped

    run = copy_of(None, b"1\t2020-01-01\n")
    with pytest.raises(Stopped):
        run.run(stop)

    assert run.last.progress.state == "copying"


def test_stop_inside_a_copy_leaves_it_unfinished() -> None:
    def stop() -> None:
        raise Stopped

    run = copy_of(*(b"%d\t2020-01-01\n" % n for n in range(250)), rows_max=50)
    with pytest.raises(Stopped):
        run.run(stop)

    assert run.last.progress.state == "copying"
    assert sum(len(batch.rows) for batch in run.kafka.batches) == 1 + 49  # one is held back


def test_baseline_of_the_snapshot_rides_in_the_progress_that_ends_the_copy() -> None:
    """I7: what the stream will be compared with is what the copy was made of."""
    tables = {each: replace(table, state=CURRENT) for each, table in BASELINE.tables.items()}

    assert Baseline.of(copied().last.progress) == replace(BASELINE, tables=tables)


@pytest.mark.parametrize(("two_phase", "step"), [(False, "create slot"), (True, "create two-phase slot")])
def test_slot_is_made_for_what_the_session_will_ask_for(two_phase: bool, step: str) -> None:
    """I7: with two_phase set later, what was prepared before would be missing."""
    run = copy_of(two_phase=two_phase)
    run.run()

    assert step in run.happened


def test_publication_without_tables_is_refused_before_there_is_a_slot() -> None:
    source = Source()
    source.now.published = source.snapshot.published = []
    run = copy_of(source=source)

    with pytest.raises(OperatorError):
        run.run()

    assert run.happened == []


def test_schema_of_a_table_is_known_where_its_copy_begins() -> None:
    """I2"""
    run = copied()
    cut = run.last.cut
    assert cut is not None

    for table in cut.tables:
        (record,) = [each for each in run.kafka.expected if each.table.relation_id == table.relation_id]
        assert table.barriers[0] == Barrier("copy_begin", Position(AT, -1), record.schema_id)
    assert cut.metadata_end_offset == 2


@pytest.mark.parametrize(("policy", "state"), [("copy", STALE), ("quarantine", QUARANTINED)])
def test_table_of_which_nothing_can_be_published_is_left_and_all_others_are_copied(
    policy: Literal["copy", "quarantine"], state: str
) -> None:
    """I8: as the stream leaves it."""
    settings = Settings(producer=Producer(on_table_error=policy))
    left = copy._left(settings, TABLES, {ITEMS: UnfitTable("refused", "allow it")}, AT)
    assert left.keys() == {ITEMS}
    assert (left[ITEMS].state, left[ITEMS].name, left[ITEMS].since, left[ITEMS].why) == (
        state,
        "public.items",
        AT,
        "refused",
    )


def test_table_of_which_nothing_can_be_published_stops_the_copy_where_settings_say_so() -> None:
    settings = Settings(producer=Producer(on_table_error="stop"))
    with pytest.raises(UnfitTable, match="refused"):
        copy._left(settings, TABLES, {ITEMS: UnfitTable("refused", "allow it")}, AT)
