"""What workers read of a copy, on a real server: pieces of one snapshot, together each of its rows once."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.fix_postgres import Database
from tests.producer.avro_reader import record_of
from tests.schemas.strategies import column, table
from tests.wait import wait_until
from walbridge.producer.copying.visibility import Before
from walbridge.producer.encoding.copied_rows import RowFormat
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkRead, ChunkShown, ChunkWanted
from walbridge.producer.postgres.copy_beside.encoded_chunk import chunk_answers, shape_of
from walbridge.producer.postgres.copy_workers import worker as copy_worker
from walbridge.producer.postgres.copy_workers.pool import Answered, CopyWorkers, worker_count
from walbridge.producer.postgres.copy_workers.process import DEATHS_MAX
from walbridge.producer.postgres.copy_workers.protocol import Beginning, PieceWanted
from walbridge.producer.postgres.copy_workers.worker import Worker
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.table_reads.chunk_reader import ChunkReader
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.postgres.table_reads.pieces import PIECE_BYTES, Piece, pieces_of, read_by_pages
from walbridge.producer.postgres.table_reads.snapshot import Snapshot, copy_statement
from walbridge.producer.postgres.table_reads.table_size import TablePages, table_pages
from walbridge.schemas.errors import OperatorError, RetryableError

RECORD = record_of(of=table(column("id", 23, is_key=True), column("v", 25)))
FORMAT = RowFormat(RECORD, b"part")
BACKENDS = "FROM pg_stat_activity WHERE application_name = 'walbridge copy worker' AND datname = current_database()"
FILTER = "(id % 3 = 0 OR v IS NULL)"
KINDS = {
    "table": "CREATE TABLE t (id int, v text) WITH (fillfactor = 20)",
    "partitioned": "CREATE TABLE t (id int, v text) PARTITION BY HASH (id); "
    + "; ".join(
        f"CREATE TABLE p{n} PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER {n}) WITH (fillfactor = 20)"
        for n in range(4)
    ),
    "table with an index that the filter could use": "CREATE TABLE t (id int, v text); CREATE INDEX ON t (id)",
}


def published(database: Database, row_filter: str | None = None) -> PublishedTable:
    relation_id, kind = database.rows("SELECT oid::int, relkind FROM pg_class WHERE oid = 'public.t'::regclass")[0]
    return PublishedTable(relation_id, "public", "t", "d", ("id", "v"), row_filter, kind == "p")


@contextmanager
def shown(database: Database) -> Iterator[Snapshot]:
    """A snapshot of now, as a slot would export it."""
    with database.connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        (name,) = connection.execute("SELECT pg_export_snapshot()").fetchone()  # type: ignore[misc]
        with Snapshot(database.dsn, name) as snapshot:
            yield snapshot


def cut(snapshot: Snapshot, of: PublishedTable, count: int) -> list[Piece]:
    """As if it were so large that it is to be so many pieces."""
    pages = table_pages(snapshot.connection, [of.relation_id])[of.relation_id]
    assert pages.is_heap
    as_large = TablePages(pages.pages, count * PIECE_BYTES, is_heap=True)
    return list(pieces_of([of], {of.relation_id: as_large}, snapshot.connection.info.server_version))


def read(worker: Worker, snapshot: Snapshot, piece: Piece) -> Counter[object]:
    """Rows, or lines of those that are not encoded."""
    spool, handed = worker.read(PieceWanted(snapshot.export(), piece, FORMAT))
    with closing(spool):
        found: Counter[object] = Counter(
            row or line for block in spool.blocks() for row, line in zip(block.rows, block.lines, strict=True)
        )
    assert found.total() == handed.row_count
    return found


@contextmanager
def worker_at(dsn: str) -> Iterator[Worker]:
    with closing(Worker(Beginning(dsn, tempfile.gettempdir()))) as worker:
        yield worker


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row_filter", [None, FILTER], ids=["all rows", "row filter"])
def test_pieces_hold_each_row_of_their_snapshot_once(database: Database, kind: str, row_filter: str | None) -> None:
    """I8: rows that move, come and go meanwhile are other rows' business."""
    database.execute(f"{KINDS[kind]}; INSERT INTO t SELECT i, repeat('x', 90) FROM generate_series(1, 3000) i")
    database.execute("DELETE FROM t WHERE id % 7 = 0; UPDATE t SET v = NULL WHERE id % 5 = 0")
    of = published(database, row_filter)
    expected = database.value(f"SELECT count(*) FROM t WHERE {row_filter or 'true'}")
    with shown(database) as snapshot, worker_at(database.dsn) as worker:
        pieces = cut(snapshot, of, 7)
        database.execute("UPDATE t SET v = 'new' WHERE id % 2 = 0; DELETE FROM t WHERE id % 11 = 0")
        database.execute("INSERT INTO t SELECT i, 'late' FROM generate_series(3001, 4000) i")
        found = [read(worker, snapshot, piece) for piece in pieces]
        whole = read(worker, snapshot, Piece(of))

    assert len(pieces) == 7
    assert sum(1 for each in found if each) > 1
    assert sum(found, Counter()) == whole
    assert whole.total() == expected
    assert set(whole.values()) == {1}


@pytest.mark.parametrize("kind", KINDS)
def test_range_of_pages_is_read_alone(database: Database, kind: str) -> None:
    """Every other plan reads the whole table for each piece."""
    database.execute(f"{KINDS[kind]}; INSERT INTO t SELECT i, repeat('x', 90) FROM generate_series(1, 3000) i")
    of = published(database, FILTER)
    with shown(database) as snapshot:
        read_by_pages(snapshot.connection)
        for piece in cut(snapshot, of, 7):
            copy = copy_statement(of, piece.condition).as_string(None)
            select = copy.removeprefix("COPY (").removesuffix(") TO STDOUT")
            plan = " ".join(row[0] for row in snapshot.connection.execute(f"EXPLAIN {select}".encode()))
            assert "Tid Range Scan" in plan
            assert "Seq Scan" not in plan
            assert "Index" not in plan


def test_piece_of_a_table_that_somebody_waits_to_alter_is_left_to_who_holds_it(database: Database) -> None:
    """Who waits for the producer's lock would be waited for by its worker, and all three for ever."""
    database.execute("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'x')")
    of = published(database)
    with shown(database) as snapshot, worker_at(database.dsn) as worker, database.connect() as waiting:
        snapshot.lock([of])
        altering = threading.Thread(target=_alter, args=(waiting,))
        altering.start()
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s"
        wait_until(lambda: bool(database.rows(waits, (of.relation_id,))), "ALTER that waits")
        try:
            with pytest.raises(RetryableError, match="lock"):
                worker.read(PieceWanted(snapshot.export(), Piece(of), FORMAT))
            rows = [line for block in snapshot.blocks(of) for line in block]
        finally:
            waiting.cancel_safe()
            altering.join()

    assert len(rows) == 1


def _alter(connection: psycopg.Connection[object]) -> None:
    with suppress(psycopg.errors.QueryCanceled):
        connection.execute("ALTER TABLE t ADD COLUMN w int")


def test_piece_cannot_be_begun_once_the_locks_are_gone(database: Database) -> None:
    """I8: a table that was altered or truncated since would be read as it is now."""
    database.execute("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'x')")
    with shown(database) as snapshot, worker_at(database.dsn) as worker:
        assert read(worker, snapshot, Piece(published(database)))
        wanted = PieceWanted(snapshot.export(), Piece(published(database)), FORMAT)
        backend = snapshot.connection.info.backend_pid
        snapshot.connection.close()
        wait_until(lambda: not database.rows("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (backend,)), "its end")
        with pytest.raises(RetryableError, match="snapshot is gone"):
            worker.read(wanted)
        with pytest.raises(RetryableError):
            snapshot.refuse_lost()


@pytest.mark.parametrize("step", ["lock", "copied_blocks"])
def test_piece_of_a_table_whose_schema_is_renamed_is_not_handed_over(database: Database, step: str) -> None:
    """I8: a worker would find another table by its name, also behind its lock."""
    database.execute("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'x')")
    database.execute("CREATE SCHEMA staging; CREATE TABLE staging.t (LIKE t); INSERT INTO staging.t VALUES (2, 'y')")
    of, meant = published(database), getattr(copy_worker, step)

    def step_after_the_swap(*arguments: object) -> object:
        database.execute("ALTER SCHEMA public RENAME TO old; ALTER SCHEMA staging RENAME TO public")
        return meant(*arguments)

    with shown(database) as snapshot, worker_at(database.dsn) as worker, pytest.MonkeyPatch.context() as patch:
        snapshot.lock([of])
        wanted = PieceWanted(snapshot.export(), Piece(of), FORMAT)
        patch.setattr(copy_worker, step, step_after_the_swap)
        with pytest.raises(RetryableError, match=r"public\.t is another one"):
            worker.read(wanted)


def test_worker_holds_nothing_between_two_pieces(database: Database) -> None:
    """Vacuum and ALTER wait for the producer alone."""
    database.execute("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'x')")
    with shown(database) as snapshot, worker_at(database.dsn) as worker:
        assert read(worker, snapshot, Piece(published(database)))
        found = database.rows(f"SELECT state, backend_xmin {BACKENDS}")

    assert found == [("idle", None)]


def children() -> list[int]:
    """Workers that live."""
    found = []
    for each in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "copy_workers" in " ".join(each.cmdline()):
                found.append(each.pid)
    return found


@contextmanager
def workers_of(database: Database, count: int = 2) -> Iterator[CopyWorkers]:
    before = children()
    with CopyWorkers(count, Beginning(database.dsn, tempfile.gettempdir())) as workers:
        yield workers
    assert children() == before


def taken(answers: Iterator[Answered | None]) -> list[tuple[Piece, int | None]]:
    """Pieces with their rows."""
    found: list[tuple[Piece, int | None]] = []
    for answered in answers:
        if answered is None:
            continue
        rows = None
        if answered.rows is not None:
            with closing(answered.rows) as spool:
                rows = sum(len(block.rows) for block in spool.blocks())
        assert isinstance(answered.wanted, PieceWanted)
        found.append((answered.wanted.piece, rows))
    return found


def test_processes_hand_over_each_piece_once_and_ignore_the_signals_of_a_terminal(database: Database) -> None:
    """Only the producer knows what to end; it has ended them all when it goes on."""
    database.execute(f"{KINDS['table']}; INSERT INTO t SELECT i, repeat('x', 90) FROM generate_series(1, 3000) i")
    with shown(database) as snapshot:
        pieces = cut(snapshot, published(database), 12)
        wanted = iter([PieceWanted(snapshot.export(), piece, FORMAT) for piece in pieces])
        with workers_of(database) as workers:
            answers = workers.read(wanted)
            found = taken(iter([next(each for each in answers if each is not None)]))
            for pid in children():
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGINT)
            found += taken(answers)

    assert sorted((piece.first or 0) for piece, _ in found) == [piece.first or 0 for piece in pieces]
    assert sum(rows or 0 for _, rows in found) == 3000
    assert all(rows is not None for _, rows in found)


def test_pieces_of_workers_that_die_are_told_and_others_take_their_place(database: Database) -> None:
    """I8: what they had read is nowhere."""
    database.execute(f"{KINDS['table']}; INSERT INTO t SELECT i, repeat('x', 90) FROM generate_series(1, 3000) i")
    with shown(database) as snapshot:
        pieces = cut(snapshot, published(database), 40)
        wanted = iter([PieceWanted(snapshot.export(), piece, FORMAT) for piece in pieces])
        with workers_of(database) as workers:
            found: list[tuple[Piece, int | None]] = []
            for death, answered in enumerate(workers.read(wanted)):
                found += taken(iter([answered]))
                if death <= DEATHS_MAX + 2 and (alive := children()):
                    os.kill(alive[0], signal.SIGKILL)

    assert sorted((piece.first or 0) for piece, _ in found) == [piece.first or 0 for piece in pieces]
    assert sum(1 for _, rows in found if rows is None) > 0


def test_worker_that_is_let_go_cancels_what_the_server_does_for_it(database: Database) -> None:
    """A server that finds no row does not notice that nobody listens: its snapshot would hold vacuum back."""
    database.execute("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'x')")
    of = published(database, "pg_sleep(600) IS NOT NULL")
    with shown(database) as snapshot:
        with workers_of(database, count=1) as workers:
            answers = workers.read(iter([PieceWanted(snapshot.export(), Piece(of), FORMAT)]))
            assert next(answers) is None
            wait_until(lambda: database.rows(f"SELECT 1 {BACKENDS} AND state = 'active'") != [], "a read")
        wait_until(lambda: not database.rows(f"SELECT 1 {BACKENDS}"), "the end of its connection")


def test_piece_that_is_too_large_to_wait_on_disk_is_left_to_the_producer(database: Database) -> None:
    """I9"""
    database.execute("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'x')")
    of = published(database)
    with shown(database) as snapshot, workers_of(database) as workers:
        wanted = [
            PieceWanted(snapshot.export(), each, FORMAT) for each in (Piece(of), Piece(of, is_large=True), Piece(of))
        ]
        found = taken(workers.read(iter(wanted)))

    assert Counter(rows for _, rows in found) == {1: 2, None: 1}


def test_piece_with_more_rows_than_its_pages_told_is_given_back(database: Database) -> None:
    """I9: values out of line are compressed, and all of them may lie in one piece."""
    database.execute("CREATE TABLE t (id int, v text)")
    database.execute("INSERT INTO t SELECT i, repeat('x', 20000) FROM generate_series(1, 100) i")
    of = published(database)
    with shown(database) as snapshot, worker_at(database.dsn) as worker, pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy_worker, "SPOOL_BYTES_MAX", 2**20)
        with pytest.raises(RetryableError, match="1 MiB on disk"):
            worker.read(PieceWanted(snapshot.export(), Piece(of), FORMAT))
        patch.setattr(copy_worker, "SPOOL_BYTES_MAX", 2**22)
        assert read(worker, snapshot, Piece(of)).total() == 100


@pytest.mark.parametrize(
    ("rows_max", "bytes_max", "count"), [(2000, 10**9, 2000), (9000, 10**9, 3000), (2000, 40_000, 0)]
)
def test_chunk_that_workers_read_in_parts_is_a_range_of_the_key(
    database: Database, rows_max: int, bytes_max: int, count: int
) -> None:
    """I8: also one whose first part ends before its rows are all, since they are large."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    database.execute("INSERT INTO t SELECT -i, repeat('x', 90) FROM generate_series(1, 3000) i")
    of = published(database)
    with workers_of(database) as workers, ChunkReader(database.dsn) as reader, reader.read(of) as read_of:
        database.execute("DELETE FROM t WHERE id % 2 = 0; INSERT INTO t VALUES (1, 'late')")
        before = Before(0, array("I"))
        wanted = ChunkWanted(of, shape_of(read_of), before, None, None, rows_max, bytes_max, FORMAT)
        shown, chunk = chunk_answers(read_of, wanted, tempfile.gettempdir(), lambda: True, workers)
        assert isinstance(shown, ChunkShown)
        assert isinstance(chunk, ChunkRead)
        with closing(chunk.rows) as rows:
            lines = [line for block in rows.blocks() for line in block.lines]
            encoded = [row for block in rows.blocks() for row in block.rows]

    ids = [int(line.split(b"\t")[0]) for line in lines]
    assert ids == list(range(-3000, len(ids) - 3000))
    assert len(ids) == chunk.row_count
    assert count in (0, len(ids))
    assert chunk.size_bytes == sum(map(len, lines)) <= bytes_max + 2 * 2**18
    assert chunk.bound == Bound((str(ids[-1]),))
    assert chunk.is_last == (rows_max > 3000)
    assert all(encoded)


def test_chunk_that_ends_by_its_bytes_is_read_though_no_worker_reads_any_of_it(database: Database) -> None:
    """What the end of its range cancels holds the lock that is asked for behind it."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    database.execute("INSERT INTO t SELECT i, repeat('x', 900) FROM generate_series(1, 9000) i")
    of = published(database)
    elsewhere = CopyWorkers(2, Beginning(make_conninfo(database.dsn, dbname="nowhere"), tempfile.gettempdir()))
    with elsewhere, ChunkReader(database.dsn) as reader, reader.read(of) as read_of:
        before = Before(0, array("I"))
        wanted = ChunkWanted(of, shape_of(read_of), before, None, None, 8000, 400_000, FORMAT)
        _, chunk = chunk_answers(read_of, wanted, tempfile.gettempdir(), lambda: True, elsewhere)
        assert isinstance(chunk, ChunkRead)
        chunk.rows.close()

    assert 0 < chunk.row_count < 4000
    assert chunk.bound == Bound((str(chunk.row_count),))
    assert not chunk.is_last


@pytest.mark.parametrize(
    ("asked", "pieces", "size_bytes", "count"),
    [(0, 9, 2**40, 0), (1, 9, 2**40, 1), (3, 9, 0, 3), (3, 2, 0, 2), (None, 9, 2**20, 0)],
)
def test_count_of_workers_is_what_was_asked_for_and_none_for_little(
    asked: int | None, pieces: int, size_bytes: int, count: int
) -> None:
    of = PublishedTable(1, "public", "t", "d", ("id",), None, False)
    assert worker_count(asked, [Piece(of)] * pieces, size_bytes) == count


def test_table_that_the_role_may_not_read_is_refused(database: Database) -> None:
    role = f"worker_of_{database.name}"
    database.execute("CREATE TABLE t (id int, v text)")
    database.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    dsn = make_conninfo(database.dsn, user=role, password="x")
    with shown(database) as snapshot, worker_at(dsn) as worker:
        wanted = PieceWanted(snapshot.export(), Piece(published(database)), FORMAT)
        with pytest.raises(OperatorError, match="may not read"):
            worker.read(wanted)
