"""What chunks of a table hold, on every version: together each row of it once, through the key's index."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from tests.fix_postgres import Database, new_database
from tests.in_soak import others_in_variants
from tests.integration.key_columns import TYPES_SQL, KeyedTable, drawn_table
from tests.postgres_versions import MAJORS
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.table_reads.chunk_reader import ChunkReader, TableRead
from walbridge.producer.postgres.table_reads.key_order import Bound, set_bound, set_listed
from walbridge.producer.postgres.table_reads.snapshot import copy_statement
from walbridge.schemas.errors import OperatorError

NO_LIMIT = 10**9
on_a_shared_database = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=others_in_variants(MAJORS, MAJORS[-1:]))
def versioned(postgres_version: Callable[[int], PostgresServer], request: pytest.FixtureRequest) -> Iterator[Database]:
    with new_database(postgres_version(request.param)) as database:
        database.execute(TYPES_SQL)
        yield database


def in_chunks(
    reader: ChunkReader, table: PublishedTable, rows_max: int, bytes_max: int = NO_LIMIT
) -> Iterator[list[bytes]]:
    """The rows of each chunk, each read in a transaction of its own."""
    bound, is_end = None, False
    while not is_end:
        with reader.read(table) as read:
            chunk = read.range_after(bound, rows_max, bytes_max)
            yield [row for row in chunk if row is not None]
            bound, is_end = chunk.bound, chunk.is_end


def whole(reader: ChunkReader, table: PublishedTable) -> Counter[bytes]:
    with reader.read(table) as read:
        return Counter(row for row in read.whole() if row is not None)


@given(seed=st.integers(0, 2**32), rows=st.sampled_from((0, 1, 7, 40)), rows_max=st.sampled_from((1, 3, 7, 100)))
@on_a_shared_database
def test_chunks_of_a_quiet_table_are_its_rows_each_once(
    versioned: Database, seed: int, rows: int, rows_max: int
) -> None:
    """I8: whatever the key's types, collations, operator classes and directions are."""
    random = Random(seed)
    drawn = drawn_table(versioned, random, rows, partitioned=random.random() < 0.2)
    with ChunkReader(versioned.dsn) as reader:
        chunks = list(in_chunks(reader, drawn.published, rows_max))

        assert whole(reader, drawn.published) == Counter(row for chunk in chunks for row in chunk), drawn.definition
    assert all(len(chunk) == rows_max for chunk in chunks[:-1])


@pytest.mark.variant(of="test_chunks_of_a_quiet_table_are_its_rows_each_once")
@given(seed=st.integers(0, 2**32), bytes_max=st.sampled_from((1, 300, 2000)))
@on_a_shared_database
def test_chunks_that_end_by_their_bytes_are_its_rows_each_once(versioned: Database, seed: int, bytes_max: int) -> None:
    """I8: the last row read is the bound, whether the server has sent more of them or not."""
    drawn = drawn_table(versioned, Random(seed), 20)
    with ChunkReader(versioned.dsn) as reader:
        chunks = list(in_chunks(reader, drawn.published, 1000, bytes_max))

        assert whole(reader, drawn.published) == Counter(row for chunk in chunks for row in chunk), drawn.definition
    assert all(sum(map(len, chunk[:-1])) < bytes_max for chunk in chunks)


@pytest.mark.variant(of="test_chunks_of_a_quiet_table_are_its_rows_each_once")
@given(
    seed=st.integers(0, 2**32), rows=st.sampled_from((1, 7, 40)), counts=st.sampled_from(([1], [3, 6], [10, 20, 39]))
)
@on_a_shared_database
def test_parts_of_a_chunk_follow_one_another_without_a_gap(
    versioned: Database, seed: int, rows: int, counts: list[int]
) -> None:
    """I8: each begins behind the key at which the one before it ends, whatever the key's columns and their order."""
    drawn = drawn_table(versioned, Random(seed), rows)
    with ChunkReader(versioned.dsn) as reader, reader.read(drawn.published) as read:
        first = read.range_after(None, 2, NO_LIMIT)
        list(first)
        for after in (None, first.bound):
            expected = list(read.range_after(after, 40, NO_LIMIT))
            bounds = read.bounds_after(after, counts)
            assert len(bounds) == sum(1 for count in counts if count <= len(expected))
            ends = [*counts[: len(bounds)], 40]
            found: list[bytes | None] = []
            for begin, end, bound in zip([0, *ends], ends, [after, *bounds], strict=False):
                part = read.range_after(bound, end - begin, NO_LIMIT)
                found += list(part)
                assert end == 40 or part.bound == bounds[ends.index(end)]
            assert [row for row in found if row is not None] == [row for row in expected if row is not None]


@given(seed=st.integers(0, 2**32))
@on_a_shared_database
def test_listed_keys_are_found_and_those_that_are_not_there_are_not(versioned: Database, seed: int) -> None:
    """I8: a key comes as the text that the table's rows have."""
    random = Random(seed)
    drawn = drawn_table(versioned, random, 40)
    with ChunkReader(versioned.dsn) as reader, reader.read(drawn.published) as read:
        rows = [row for row in read.whole() if row is not None]
        wanted = [row for row in rows if random.random() < 0.5]
        gone = [row for row in wanted if random.random() < 0.3]
        keys = [_key_of(read, row) for row in wanted]
    versioned.execute("DELETE FROM t WHERE v = ANY (%s)", ([_fields(drawn, row)["v"] for row in gone],))
    with ChunkReader(versioned.dsn) as reader, reader.read(drawn.published) as read:
        found = [row for row in read.listed(keys) if row is not None]

    assert Counter(wanted) - Counter(gone) == Counter(found), drawn.definition


def test_rows_that_stay_are_read_once_while_all_around_them_changes(versioned: Database) -> None:
    """I8: a chunk is read in a transaction of its own, and others write between two of them and meanwhile."""
    versioned.execute(
        "CREATE TABLE w (a int, b text, n int, PRIMARY KEY (b, a)); "
        "INSERT INTO w SELECT i, 'b' || i % 10, 0 FROM generate_series(1, 3000) i"
    )
    table = published_table(versioned, "w")
    stop = threading.Event()

    def write() -> None:
        random = Random(1)
        with versioned.connect() as connection:
            while not stop.is_set():
                stays, goes = random.randrange(0, 3000, 2), random.randrange(1, 3000, 2)
                connection.execute("UPDATE w SET n = n + 1 WHERE a = %s", (stays,))
                connection.execute("DELETE FROM w WHERE a = %s", (goes,))
                connection.execute("UPDATE w SET b = 'b' || %s WHERE a = %s", (goes % 7, (goes * 7) % 3000 | 1))
                connection.execute(
                    "INSERT INTO w VALUES (%s, 'b' || %s, 1) ON CONFLICT DO NOTHING", (goes, random.randrange(10))
                )

    writing = threading.Thread(target=write)
    writing.start()
    try:
        with ChunkReader(versioned.dsn) as reader:
            read = Counter(decode_tuple(row)[:2] for chunk in in_chunks(reader, table, 100) for row in chunk)
    finally:
        stop.set()
        writing.join()

    stayed = {(b"%d" % i, b"b%d" % (i % 10)): 1 for i in range(2, 3001, 2)}
    assert stayed == {key: count for key, count in read.items() if key in stayed}


PLANNED = """
    CREATE TABLE few (a int PRIMARY KEY, v text);
    INSERT INTO few SELECT i, i FROM generate_series(1, 10) i;
    CREATE TABLE mixed (a varchar(9) NOT NULL, b int NOT NULL, c numeric NOT NULL, v text);
    CREATE UNIQUE INDEX mixed_key ON mixed (a COLLATE "C" text_pattern_ops DESC NULLS LAST, b, c DESC);
    ALTER TABLE mixed REPLICA IDENTITY USING INDEX mixed_key;
    INSERT INTO mixed SELECT 'k' || i % 3, i % 100, i, repeat('v', 50) FROM generate_series(1, 20000) i;
    CREATE TABLE root (a int, b text, v text, PRIMARY KEY (b, a)) PARTITION BY HASH (a);
    CREATE TABLE leaf_0 PARTITION OF root FOR VALUES WITH (modulus 2, remainder 0);
    CREATE TABLE leaf_1 PARTITION OF root FOR VALUES WITH (modulus 2, remainder 1);
    INSERT INTO root SELECT i, 'b' || i % 5, repeat('v', 50) FROM generate_series(1, 20000) i;
"""


@pytest.mark.parametrize("analyzed", [False, True], ids=["no statistics", "statistics"])
def test_no_range_is_sorted_or_read_by_another_way_than_the_key(versioned: Database, analyzed: bool) -> None:
    """A sort would read all that is left of the table for each chunk."""
    versioned.execute(PLANNED)
    if analyzed:
        versioned.execute("ANALYZE")
    plans = [
        plan
        for table in (
            published_table(versioned, "few"),
            published_table(versioned, "mixed", replica_identity="i"),
            published_table(versioned, "root", is_partitioned=True),
        )
        for plan in plans_of(versioned, table)
    ]

    assert len(plans) == (1 + 1 + 1) + (1 + 3 + 1) + (1 + 2 + 1)
    assert [plan for plan in plans if "Seq Scan" in plan or "Sort  (" in plan or "Bitmap" in plan] == []
    assert all("Index Scan using" in plan for plan in plans)


UNREADABLE = """
    CREATE TYPE odd;
    CREATE FUNCTION odd_in(cstring) RETURNS odd LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
    CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'oidout';
    CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, LIKE = int4);
    CREATE FUNCTION odd_cmp(odd, odd) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
    CREATE FUNCTION odd_lt(odd, odd) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4lt';
    CREATE FUNCTION odd_eq(odd, odd) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4eq';
    CREATE FUNCTION odd_gt(odd, odd) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4gt';
    CREATE OPERATOR < (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_lt, COMMUTATOR = >);
    CREATE OPERATOR = (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_eq, COMMUTATOR = =);
    CREATE OPERATOR > (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_gt, COMMUTATOR = <);
    CREATE OPERATOR CLASS odd_ops DEFAULT FOR TYPE odd USING btree
        AS OPERATOR 1 <, OPERATOR 3 =, OPERATOR 5 >, FUNCTION 1 odd_cmp(odd, odd);
    CREATE TABLE k (id odd PRIMARY KEY, v int);
    INSERT INTO k VALUES ('-7', 1), ('5', 2)
"""
"""A type prints what lies below zero as another number, which it does not read."""


def test_key_that_postgres_does_not_read_is_told_and_the_copy_goes_on_once_it_is_corrected(database: Database) -> None:
    """I8"""
    database.execute(UNREADABLE)
    table = published_table(database, "k")
    with ChunkReader(database.dsn) as reader:
        with pytest.raises(OperatorError, match=r"public\.k has a row whose key Postgres does not read as") as told:
            list(in_chunks(reader, table, 1))
        assert told.value.remedy == "correct the key of that row, which pg_dump could not restore either"
        database.execute("UPDATE k SET id = '7' WHERE v = 1")
        assert sum(map(len, in_chunks(reader, table, 1))) == 2


def plans_of(database: Database, table: PublishedTable) -> Iterator[str]:
    """Of the first range, of the ranges behind its last row, and of that row as a listed key."""
    with ChunkReader(database.dsn) as reader, reader.read(table) as read:
        chunk = read.range_after(None, 5, NO_LIMIT)
        assert len(list(chunk)) == 5
        assert read.key is not None
        assert chunk.bound is not None
        set_bound(read.connection, table, read.key, chunk.bound)
        for condition in [None, *read.key.ranges_after()]:
            yield explained(read, condition, read.key.order_by)
        set_listed(read.connection, [chunk.bound])
        yield explained(read, read.key.is_listed(), None)


def explained(read: TableRead, condition: sql.Composable | None, order_by: sql.Composable | None) -> str:
    copy = copy_statement(read.table, condition, order_by, None if order_by is None else 100).as_string(None)
    query = copy.removeprefix("COPY (").removesuffix(") TO STDOUT")
    return "\n".join(line for (line,) in read.connection.execute(f"EXPLAIN {query}".encode()).fetchall())


def published_table(
    database: Database, name: str, *, replica_identity: str = "d", is_partitioned: bool = False
) -> PublishedTable:
    columns = database.rows(
        "SELECT attrelid, attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        (name,),
    )
    names = tuple(column for _, column in columns)
    return PublishedTable(columns[0][0], "public", name, replica_identity, names, None, is_partitioned)


def _fields(drawn: KeyedTable, row: bytes) -> dict[str, str]:
    texts = (field.decode() for field in decode_tuple(row) if isinstance(field, bytes))
    return dict(zip(drawn.published.column_names, texts, strict=True))


def _key_of(read: TableRead, row: bytes) -> Bound:
    assert read.key is not None
    fields = dict(zip(read.table.column_names, decode_tuple(row), strict=True))
    return Bound(tuple(field.decode() for name in read.key.names if isinstance(field := fields[name], bytes)))
