"""One read of a table: its lock, its snapshot, its shape, where it ends, and what goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.fix_postgres import Database
from tests.wait import wait_until
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.table_reads import chunk_reader
from walbridge.producer.postgres.table_reads.chunk_reader import ChunkReader
from walbridge.producer.postgres.table_reads.key_order import Bound, KeyUnreadable, key_order, printed_keys
from walbridge.producer.postgres.table_reads.key_range import KeyRange
from walbridge.schemas.errors import OperatorError, RetryableError, TableLocked

NO_LIMIT = 10**9


@pytest.fixture
def filled(database: Database) -> Database:
    database.execute(
        "CREATE TABLE t (a int PRIMARY KEY, v text); "
        "INSERT INTO t SELECT i, repeat('v', 100) FROM generate_series(1, 9) i"
    )
    return database


@pytest.fixture
def reader(database: Database) -> Iterator[ChunkReader]:
    with ChunkReader(database.dsn) as made:
        yield made


def table_t(database: Database, **facts: object) -> PublishedTable:
    names = [name for (name,) in database.rows("SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass "
                                               "AND attnum > 0 AND NOT attisdropped ORDER BY attnum")]  # fmt: skip
    known: dict[str, object] = {
        "relation_id": database.value("SELECT 't'::regclass::oid"), "namespace": "public", "name": "t",
        "replica_identity": "d", "column_names": tuple(names), "row_filter": None, "is_partitioned": False,
    }  # fmt: skip
    return PublishedTable(**(known | facts))  # type: ignore[arg-type]


def first_fields(rows: Iterator[bytes | None] | KeyRange) -> list[object]:
    return [decode_tuple(row)[0] for row in rows if row is not None]


def bound_of(value: str) -> Bound:
    return Bound((value,))


def test_range_ends_with_its_rows_and_the_next_one_goes_on_behind_the_last(
    filled: Database, reader: ChunkReader
) -> None:
    with reader.read(table_t(filled)) as read:
        first = read.range_after(None, 4, NO_LIMIT)
        rows = [first_fields(first)]
        second = read.range_after(first.bound, 5, NO_LIMIT)
        rows.append(first_fields(second))
        third = read.range_after(second.bound, 5, NO_LIMIT)
        rows.append(first_fields(third))

    assert rows == [[b"1", b"2", b"3", b"4"], [b"5", b"6", b"7", b"8", b"9"], []]
    assert [first.is_end, second.is_end, third.is_end] == [False, False, True]
    assert third.bound == second.bound == bound_of("9")


def test_range_ends_after_the_row_that_reaches_its_bytes_and_its_connection_stays_good(
    filled: Database, reader: ChunkReader
) -> None:
    """Rows may have megabytes: their number alone bounds nothing."""
    filled.execute("INSERT INTO t SELECT i, repeat('v', 100) FROM generate_series(10, 100000) i")
    with reader.read(table_t(filled)) as read:
        backend = read.connection.info.backend_pid
        cut = read.range_after(None, NO_LIMIT, 300)
        rows = first_fields(cut)
    with reader.read(table_t(filled)) as read:
        assert backend == read.connection.info.backend_pid
        following = first_fields(read.range_after(cut.bound, 2, NO_LIMIT))

    assert rows == [b"1", b"2", b"3"]
    assert not cut.is_end
    assert following == [b"4", b"5"]


def test_read_whose_range_ended_by_its_bytes_holds_its_lock_and_its_snapshot(
    filled: Database, reader: ChunkReader
) -> None:
    """I8: another part of the chunk is read there, and the lock is asked for behind the last one."""
    filled.execute("INSERT INTO t SELECT i, repeat('v', 100) FROM generate_series(10, 100000) i")
    with reader.read(table_t(filled)) as read:
        cut = read.range_after(None, NO_LIMIT, 300)
        assert first_fields(cut) == [b"1", b"2", b"3"]
        filled.execute("UPDATE t SET a = -a WHERE a = 4")
        assert read.export()
        assert first_fields(read.range_after(cut.bound, 2, NO_LIMIT)) == [b"4", b"5"]
        with pytest.raises(psycopg.errors.LockNotAvailable):
            filled.execute("SET lock_timeout = 1; TRUNCATE t")
        read.refuse_lost()


def test_read_of_a_table_whose_schema_is_renamed_does_not_count(filled: Database, reader: ChunkReader) -> None:
    """I8: its parts may be of two tables."""
    with reader.read(table_t(filled)) as read:
        cut = read.range_after(None, 3, NO_LIMIT)
        assert len(first_fields(cut)) == 3
        filled.execute("ALTER SCHEMA public RENAME TO old; CREATE SCHEMA public; CREATE TABLE t (LIKE old.t)")
        assert first_fields(read.whole()) == []
        with pytest.raises(RetryableError, match=r"public\.t is another one"):
            read.refuse_lost()


def test_row_larger_than_the_bytes_of_a_range_is_a_range_of_its_own(filled: Database, reader: ChunkReader) -> None:
    with reader.read(table_t(filled)) as read:
        assert first_fields(read.range_after(bound_of("3"), 100, 1)) == [b"4"]


def test_who_leaves_in_the_middle_of_a_range_leaves_no_transaction_behind(
    filled: Database, reader: ChunkReader
) -> None:
    """I8: an open snapshot would hold vacuum back."""
    with reader.read(table_t(filled)) as read:
        left = read.range_after(None, 9, NO_LIMIT)
        first = next(row for row in left if row is not None)

    assert decode_tuple(first)[0] == b"1"
    assert left.bound == bound_of("1")
    wait_until(lambda: not _transactions(filled), "the transaction to end")
    with reader.read(table_t(filled)) as read:
        assert len(first_fields(read.range_after(left.bound, 100, NO_LIMIT))) == 8


def _transactions(database: Database) -> list[tuple[object, ...]]:
    return database.rows(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'walbridge copy' AND xact_start IS NOT NULL "
        "AND datname = current_database()"
    )


def test_listed_keys_are_read_in_batches(
    filled: Database, reader: ChunkReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_reader, "LISTED_MAX", 2)
    with reader.read(table_t(filled)) as read:
        found = first_fields(read.listed([bound_of(key) for key in ("9", "77", "2", "4", "5")]))

    assert sorted(found, key=str) == [b"2", b"4", b"5", b"9"]


def test_only_what_is_published_is_read(filled: Database, reader: ChunkReader) -> None:
    """I8: column list and row filter, whose words may be an OR."""
    table = table_t(filled, column_names=("a",), row_filter="(a = 5) OR (a > 7)")
    with reader.read(table) as read:
        assert first_fields(read.range_after(bound_of("5"), 9, NO_LIMIT)) == [b"8", b"9"]
        assert first_fields(read.listed([bound_of("1"), bound_of("5")])) == [b"5"]
        assert first_fields(read.whole()) == [b"5", b"8", b"9"]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (a) DEFERRABLE",
        "ALTER TABLE t DROP a, ADD a int4range, ADD b int4range DEFAULT '[1,2)'; UPDATE t SET a = '[1,2)'; TRUNCATE t; "
        "CREATE EXTENSION btree_gist; ALTER TABLE t ADD PRIMARY KEY (b, a WITHOUT OVERLAPS)",
        "ALTER TABLE t ADD b int NOT NULL DEFAULT 1; CREATE UNIQUE INDEX i ON t (b, a); "
        "ALTER TABLE t REPLICA IDENTITY USING INDEX i",
    ],
    ids=["none", "deferrable", "temporal", "not published"],
)
def test_table_without_an_ordered_key_among_its_published_columns_is_read_in_one_piece(
    filled: Database, reader: ChunkReader, statement: str
) -> None:
    """What is no key of the stream, or has no order, is no key of a chunk."""
    filled.execute(statement)
    with reader.read(table_t(filled, column_names=("a", "v"))) as read:
        assert read.key is None
        assert filled.value("SELECT count(*) FROM t") == len(first_fields(read.whole()))


def test_key_under_replica_identity_full_is_the_primary_key(filled: Database, reader: ChunkReader) -> None:
    filled.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    with reader.read(table_t(filled, replica_identity="f")) as read:
        assert read.key is not None
        assert read.key.names == ("a",)


def test_rows_that_a_truncate_brings_while_the_lock_is_waited_for_are_read(
    filled: Database, reader: ChunkReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: TRUNCATE empties a table for snapshots of before, so the lock comes first."""
    table, seen = table_t(filled), []

    def read() -> None:
        with reader.read(table) as chunk:
            seen.extend(first_fields(chunk.range_after(None, 100, NO_LIMIT)))

    reading = threading.Thread(target=read)
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessShareLock'"
    monkeypatch.setattr(chunk_reader, "_BEGIN", chunk_reader._BEGIN.replace("= 1000", "= 0"))
    with filled.connect() as connection, connection.transaction():
        connection.execute("TRUNCATE t")
        connection.execute("INSERT INTO t VALUES (77, 'new')")
        reading.start()
        wait_until(lambda: bool(filled.rows(waiting)), "the reader to wait")
    reading.join()

    assert seen == [b"77"]


def test_lock_that_is_not_granted_soon_is_asked_for_later(
    filled: Database, reader: ChunkReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stands in the queue behind an ALTER for long stops every reader of the table that comes after."""
    monkeypatch.setattr(chunk_reader, "_BEGIN", chunk_reader._BEGIN.replace("= 1000", "= 10"))
    table = table_t(filled)
    with filled.connect() as connection, connection.transaction():
        connection.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TableLocked), reader.read(table):
            raise AssertionError("it is locked")
    with reader.read(table) as read:
        assert len(first_fields(read.whole())) == 9


def test_snapshot_tells_which_transactions_the_rows_hold_and_their_commits_are_below_its_position(
    filled: Database, reader: ChunkReader
) -> None:
    """I8: membership is by transaction id, and the position says how far the stream must have come."""
    with filled.connect() as early, filled.connect() as late:
        (committed,) = early.execute("INSERT INTO t VALUES (10) RETURNING txid_current()").fetchone()  # type: ignore[misc]
        flushed = filled.value("SELECT pg_current_wal_flush_lsn() - '0/0'")
        with late.transaction():
            (running,) = late.execute("INSERT INTO t VALUES (11) RETURNING txid_current()").fetchone()  # type: ignore[misc]
            with reader.read(table_t(filled)) as read:
                keys = first_fields(read.range_after(bound_of("9"), 9, NO_LIMIT))
                snapshot = read.snapshot

    shown = "SELECT txid_visible_in_snapshot(%s, %s::text::txid_snapshot)"
    assert keys == [b"10"]
    assert filled.value(shown, (committed, snapshot))
    assert not filled.value(shown, (running, snapshot))
    assert flushed <= read.insert_lsn


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE t",
        "ALTER TABLE t ADD w int",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (a)",
        "ALTER TABLE t RENAME v TO w",
    ],
)
def test_storage_differs_after_what_a_copy_must_not_run_across(
    filled: Database, reader: ChunkReader, statement: str
) -> None:
    """I8: chunks of before and after are not of one table."""
    with reader.read(table_t(filled)) as read:
        before = read.storage
    filled.execute("UPDATE t SET v = 'w'")
    with reader.read(table_t(filled)) as read:
        quiet = read.storage
    filled.execute(statement)
    with reader.read(table_t(filled)) as read:
        after = read.storage

    assert before == quiet
    assert before != after


def test_table_that_is_gone_or_was_made_again_is_told_from_the_one_that_was_looked_up(
    filled: Database, reader: ChunkReader
) -> None:
    """I8: rows of another table of the same name are none of this one."""
    table = table_t(filled)
    filled.execute("DROP TABLE t")
    with pytest.raises(RetryableError, match=r"public\.t is gone"), reader.read(table):
        raise AssertionError("it is gone")
    filled.execute("CREATE TABLE t (a int PRIMARY KEY, v text)")
    with pytest.raises(RetryableError, match=r"public\.t is another one"), reader.read(table):
        raise AssertionError("it is another one")


@pytest.mark.parametrize("hides", ["REVOKE ALL ON t FROM {role}", "ALTER TABLE t ENABLE ROW LEVEL SECURITY"])
def test_table_that_the_role_may_not_read_whole_is_refused(filled: Database, hides: str) -> None:
    """I8: the stream sends the rows that the copy would lack."""
    role = f"reads_{filled.name}"
    filled.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'; GRANT SELECT ON t TO {role}")
    filled.execute(hides.format(role=role))
    with (
        ChunkReader(make_conninfo(filled.dsn, user=role, password="x")) as reader,
        pytest.raises(OperatorError, match="may not read"),
        reader.read(table_t(filled)) as read,
    ):
        list(read.range_after(None, 9, NO_LIMIT))


def test_connection_that_ends_is_told_and_the_next_read_has_another_one(filled: Database, reader: ChunkReader) -> None:
    table = table_t(filled)

    def read_while_it_ends() -> None:
        with reader.read(table) as read:
            filled.execute("SELECT pg_terminate_backend(%s)", (read.connection.info.backend_pid,))
            list(read.range_after(None, 9, NO_LIMIT))

    with pytest.raises(RetryableError):
        read_while_it_ends()
    with reader.read(table) as read:
        assert len(first_fields(read.whole())) == 9


def test_bounds_are_in_no_statement_and_in_nothing_that_prints_them(database: Database, reader: ChunkReader) -> None:
    """I10: they are values of rows."""
    database.execute("CREATE TABLE t (a text PRIMARY KEY); INSERT INTO t VALUES ('secret 1'), ('secret 2')")
    statements: list[str] = []
    with reader.read(table_t(database)) as read:
        chunk = read.range_after(bound_of("secret 1"), 1, NO_LIMIT)
        for _ in chunk:
            statements.append(_running(database, read.connection))
        for _ in read.listed([bound_of("secret 2")]):
            statements.append(_running(database, read.connection))

    assert chunk.bound == bound_of("secret 2")
    assert len(statements) >= 2
    assert "secret" not in repr(chunk.bound) + "".join(statements)


def test_bound_that_its_type_refuses_is_not_quoted(filled: Database, reader: ChunkReader) -> None:
    """I10: the server's own words would quote it."""
    with pytest.raises(OperatorError) as refused, reader.read(table_t(filled)) as read:
        list(read.range_after(bound_of("secret"), 9, NO_LIMIT))

    assert "secret" not in str(refused.value)


def test_key_that_postgres_cannot_read_again_ends_the_copy_and_is_not_read_past(
    database: Database, reader: ChunkReader
) -> None:
    """I8: this one was rounded up beyond the last timestamp that there is."""
    database.execute(
        "CREATE TABLE t (a timestamp(0) PRIMARY KEY); "
        "INSERT INTO t VALUES ('294276-12-31 23:59:59.999999'), ('2024-01-01')"
    )
    with reader.read(table_t(database)) as read:
        first = read.range_after(None, 2, NO_LIMIT)
        assert len(first_fields(first)) == 2
        with pytest.raises(OperatorError, match=r"public\.t has a row whose key Postgres does not read"):
            first_fields(read.range_after(first.bound, 2, NO_LIMIT))


def _running(database: Database, connection: psycopg.Connection[object]) -> str:
    return str(database.value("SELECT query FROM pg_stat_activity WHERE pid = %s", (connection.info.backend_pid,)))


KEYS = {
    "int": ([" 07 ", "-0", "2147483647"], ["7", "0", "2147483647"]),
    "numeric": (["1e1", "1.50", "NaN"], ["10", "1.50", "NaN"]),
    "numeric(8,3)": (["1.5", "-2", "NaN"], ["1.500", "-2.000", "NaN"]),
    "price": (["1.5"], ["1.50"]),
    "char(4)": (["a", "a  "], ["a   ", "a   "]),
    "timestamp(0)": (["2024-02-29 12:00"], ["2024-02-29 12:00:00"]),
    "timestamptz": (["2024-02-29 12:00+02", "infinity"], ["2024-02-29 10:00:00+00", "infinity"]),
    "text": ["', \\ \" {}", "", "ä%s", "two\nlines"],
    "uuid": (["{A0EEBC99-9C0B4EF8-BB6D6BB9-BD380A11}"], ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
}


@pytest.mark.parametrize("key_type", KEYS)
def test_keys_of_an_operator_are_those_that_rows_print(database: Database, reader: ChunkReader, key_type: str) -> None:
    found = KEYS[key_type]
    given, printed = found if isinstance(found, tuple) else (found, found)
    database.execute("CREATE DOMAIN cost AS numeric(9,2); CREATE DOMAIN price AS cost")
    database.execute(f"CREATE TABLE t (id {key_type}, n int, PRIMARY KEY (n, id))")
    with reader.read(table_t(database)) as of:
        assert of.key is not None
        asked = [Bound((str(number), key)) for number, key in enumerate(given)]
        assert [bound.values[1] for bound in printed_keys(of.connection, of.key, asked)] == printed


@pytest.mark.parametrize("key", ["two", "", "1.5", "99999999999"])
def test_text_that_is_no_key_is_refused_without_a_word_of_it(filled: Database, reader: ChunkReader, key: str) -> None:
    """I10"""
    connection = reader._connected()
    order = key_order(connection, table_t(filled).relation_id, ("a", "v"))
    assert order is not None
    with pytest.raises(KeyUnreadable) as refused:
        printed_keys(connection, order, [bound_of("1"), bound_of(key)])
    assert str(refused.value) == ""
    assert refused.value.__cause__ is None
