"""Lines of COPY's text format to the tuples that the stream would send."""

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.fix_postgres import Database
from tests.producer.copy_lines import line_of
from tests.producer.pgoutput.encoder import tuple_data
from walbridge.producer.pgoutput.copy_text import tuple_of_line
from walbridge.producer.pgoutput.messages import Field, Unsent
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.table_reads import snapshot
from walbridge.producer.postgres.table_reads.snapshot import SILENT_S, Snapshot, copy_statement
from walbridge.schemas.errors import OperatorError, ProtocolError, RetryableError

NULL = Unsent.NULL

LINES: dict[str, tuple[bytes, list[Field]]] = {
    "plain": (b"a\tb\n", [b"a", b"b"]),
    "null": (b"\\N\n", [NULL]),
    "text \\N": (b"\\\\N\n", [b"\\N"]),
    "null beside text \\N": (b"\\N\t\\\\N\t\\\\\\\\N\n", [NULL, b"\\N", b"\\\\N"]),
    "empty text": (b"\n", [b""]),
    "empty texts": (b"\t\t\n", [b"", b"", b""]),
    "no columns": (b"\n", []),
    "backspace": (b"\\b\n", [b"\b"]),
    "form feed": (b"\\f\n", [b"\f"]),
    "line feed": (b"\\n\n", [b"\n"]),
    "carriage return": (b"\\r\n", [b"\r"]),
    "tab": (b"\\t\n", [b"\t"]),
    "vertical tab": (b"\\v\n", [b"\v"]),
    "backslash": (b"\\\\\n", [b"\\"]),
    "backslash before n": (b"\\\\n\n", [b"\\n"]),
    "CR LF": (b"a\\r\\nb\tc\n", [b"a\r\nb", b"c"]),
    "carriage return that is not escaped": (b"a\rb\n", [b"a\rb"]),
    "octal": (b"\\101\\7\\0601\n", [b"A\x0701"]),
    "octal of nine bits": (b"\\777\n", [b"\xff"]),
    "hexadecimal": (b"\\x41\\xA\\x414\n", [b"A\nA4"]),
    "no hexadecimal": (b"\\xg\n", [b"xg"]),
    "no octal": (b"\\8\n", [b"8"]),
    "any other character": (b"\\a\\.\\N!\n", [b"a.N!"]),
    "end marker of older protocols": (b"\\\\.\n", [b"\\."]),
    "four bytes of UTF-8": ("é😀\t\\N\n".encode(), ["é😀".encode(), NULL]),
    "bytea": (b"\\\\x00ff\n", [b"\\x00ff"]),
}


@pytest.mark.parametrize(("line", "fields"), LINES.values(), ids=LINES)
def test_line_is_read_as_the_manual_lays_it_out(line: bytes, fields: list[Field]) -> None:
    assert tuple_data(*fields) == tuple_of_line(line, len(fields))


TEXTS = st.text(st.sampled_from("\\\b\f\n\r\t\vNnx0é."), max_size=10).map(str.encode)


@given(st.lists(st.none() | TEXTS | st.binary(max_size=20), max_size=6))
@example([b"\\N", None, b""])
def test_any_row_reads_back(fields: list[bytes | None]) -> None:
    expected = tuple_data(*(NULL if field is None else field for field in fields))

    assert expected == tuple_of_line(line_of(*fields), len(fields))


@pytest.mark.parametrize(
    ("line", "columns"),
    [(b"a\tb\n", 1), (b"a\tb\n", 3), (b"a\n", 0), (b"\t\n", 0), (b"a\tb", 2), (b"", 0), (b"", 1)],
)
def test_line_of_another_shape_than_the_table_is_refused(line: bytes, columns: int) -> None:
    with pytest.raises(ProtocolError):
        tuple_of_line(line, columns)


@given(st.binary(max_size=30), st.integers(0, 4))
def test_garbage_is_a_tuple_or_refused(line: bytes, columns: int) -> None:
    try:
        tuple_of_line(line, columns)
    except ProtocolError:
        return
    assert line.endswith(b"\n")


def published(**facts: object) -> PublishedTable:
    known: dict[str, object] = {
        "relation_id": 1, "namespace": "s", "name": "t", "replica_identity": "d", "column_names": ("a", "b"),
        "row_filter": None, "is_partitioned": False,
    }  # fmt: skip
    return PublishedTable(**(known | facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        (published(), 'COPY (SELECT "a", "b" FROM ONLY "s"."t") TO STDOUT'),
        (published(is_partitioned=True), 'COPY (SELECT "a", "b" FROM "s"."t") TO STDOUT'),
        (published(column_names=()), 'COPY (SELECT  FROM ONLY "s"."t") TO STDOUT'),
        (published(row_filter="(a > 1)"), 'COPY (SELECT "a", "b" FROM ONLY "s"."t" WHERE (a > 1)) TO STDOUT'),
        (
            published(namespace='o"dd', name="T {x}", column_names=('a "b"', "{}", "%s")),
            'COPY (SELECT "a ""b""", "{}", "%s" FROM ONLY "o""dd"."T {x}") TO STDOUT',
        ),
        (
            published(row_filter="((a)::text ~~ '%{0}'::text)"),
            """COPY (SELECT "a", "b" FROM ONLY "s"."t" WHERE ((a)::text ~~ '%{0}'::text)) TO STDOUT""",
        ),
    ],
    ids=["table", "partitioned root", "no columns", "row filter", "odd names", "row filter of odd text"],
)
def test_copy_selects_what_is_published(table: PublishedTable, statement: str) -> None:
    assert statement == copy_statement(table).as_string(None)


def test_copy_of_some_rows_has_their_condition_beside_the_row_filter() -> None:
    """I8: the filter's words bind less than AND."""
    table = published(row_filter="(a > 1) OR b")

    copy = copy_statement(table, sql.SQL('t."a" > 5'), sql.SQL('t."a"'), 7).as_string(None)

    assert copy == (
        'COPY (SELECT "a", "b" FROM ONLY "s"."t" AS t WHERE (t."a" > 5) AND ((a > 1) OR b) ORDER BY t."a" LIMIT 7) '
        "TO STDOUT"
    )


class Connection:
    """Keeps the statements that it is told. ``named``: the relation that a name is found to be of."""

    def __init__(self, named: int | None = 1) -> None:
        self.statements: list[str] = []
        self.named = named

    def execute(self, statement: str | sql.Composed, parameters: tuple[object, ...] = ()) -> "Connection":
        told = statement if isinstance(statement, str) else statement.as_string(None)
        self.statements.append(told % tuple(map(repr, parameters)))
        return self

    def fetchall(self) -> list[tuple[int | None]]:
        return [(self.named,)]


def test_snapshot_is_read_only_as_of_its_name_and_shows_rows_that_policies_hide() -> None:
    """I8: the stream knows no row security, so a copy with it would lack rows. Off, Postgres refuses what it hides."""
    connection = Connection()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "connect_sql", lambda *_: connection)
        Snapshot("dsn", "00000003-1")

    assert connection.statements == [
        "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "SET TRANSACTION SNAPSHOT '00000003-1'",
        "SET LOCAL row_security = off",
    ]


def test_lock_is_of_the_table_alone_but_of_all_partitions_of_a_root() -> None:
    """I8: their rows are those that the copy reads."""
    connection = Connection()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "connect_sql", lambda *_: connection)
        Snapshot("dsn", "1").lock([published(), published(name="root", is_partitioned=True)])

    assert [each for each in connection.statements if each.startswith("LOCK")] == [
        'LOCK TABLE ONLY "s"."t" IN ACCESS SHARE MODE',
        'LOCK TABLE "s"."root" IN ACCESS SHARE MODE',
    ]


@pytest.mark.parametrize("named", [2, None], ids=["another table's", "nobody's"])
def test_lock_of_a_name_that_is_another_tables_by_now_is_not_enough(named: int | None) -> None:
    """I8: the table that was meant could be truncated while it is copied."""
    connection = Connection(named)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "connect_sql", lambda *_: connection)
        with pytest.raises(RetryableError, match=r"table s\.t is another one"):
            Snapshot("dsn", "1").lock([published()])

    assert connection.statements[-2:] == [
        'LOCK TABLE ONLY "s"."t" IN ACCESS SHARE MODE',
        'SELECT to_regclass(\'"s"."t"\')::oid',
    ]


@pytest.mark.parametrize("renamed_at", [0, 2], ids=["before", "behind"])
def test_rows_do_not_count_where_the_name_is_another_tables_before_or_behind_them(renamed_at: int) -> None:
    """I8: a schema is renamed whatever locks its tables have."""
    connection = Connection()
    rows = iter([b"1", b"2"])

    def copied(*_: object) -> Iterator[list[bytes]]:
        for number, row in enumerate(rows, 1):
            yield [row]
            if number == renamed_at:
                connection.named = 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "connect_sql", lambda *_: connection)
        patch.setattr(snapshot, "copied_blocks", copied)
        seen = Snapshot("dsn", "1")
        connection.named = 2 if renamed_at == 0 else 1
        with pytest.raises(RetryableError, match="another one"):
            list(seen.blocks(published()))

    assert len(list(rows)) == (2 if renamed_at == 0 else 0)


SWAPPED = "ALTER SCHEMA live RENAME TO old; ALTER SCHEMA staging RENAME TO live"


@pytest.fixture
def in_live(database: Database) -> PublishedTable:
    """A table, and another one that waits to take its name."""
    for schema, value in (("live", 1), ("staging", 2)):
        database.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (a int PRIMARY KEY, v text)")
        database.execute(f"INSERT INTO {schema}.t SELECT {value} + i * 10, 'x' FROM generate_series(1, 500) i")
    relation_id = database.value("SELECT 'live.t'::regclass::oid")
    return published(relation_id=relation_id, namespace="live", column_names=("a", "v"))


def test_schema_that_is_renamed_begins_the_copy_again(database: Database, in_live: PublishedTable) -> None:
    """I8: LOCK and COPY take whatever table has the name, and renaming a schema waits for no lock."""
    with database.connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        (name,) = connection.execute("SELECT pg_export_snapshot()").fetchone()  # type: ignore[misc]
        with Snapshot(database.dsn, name) as seen:
            seen.lock([in_live])
            database.execute(SWAPPED)
            seen.connection.execute("SELECT FROM pg_language")  # a lock that is new to a backend has it hear the news
            with pytest.raises(RetryableError, match=r"live\.t is another one"):
                list(seen.blocks(in_live))
            with pytest.raises(RetryableError, match=r"live\.t is another one"):
                seen.lock([in_live])


def test_copy_that_finds_no_row_for_a_while_says_so(database: Database) -> None:
    """Whoever reads it may end a batch meanwhile, or stop."""
    database.execute("CREATE TABLE s (a int); INSERT INTO s VALUES (1), (2)")
    relation_id = database.value("SELECT 's'::regclass::oid")
    slow = published(
        relation_id=relation_id,
        namespace="public",
        name="s",
        column_names=("a",),
        row_filter=f"pg_sleep({2 * SILENT_S}) IS NOT NULL",
    )
    with database.connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        (name,) = connection.execute("SELECT pg_export_snapshot()").fetchone()  # type: ignore[misc]
        with Snapshot(database.dsn, name) as seen:
            blocks = [list(seen.blocks(slow)) for _ in range(2)]

    assert [[line for block in each for line in block] for each in blocks] == [[b"1\n", b"2\n"]] * 2
    assert all(each[0] == [] for each in blocks)


def test_table_whose_rows_a_policy_hides_from_the_role_is_refused_and_not_copied_in_part(database: Database) -> None:
    """I8: the stream sends the rows that the copy would lack."""
    role = f"reads_few_{database.name}"
    database.execute("CREATE TABLE s (a int); INSERT INTO s VALUES (1), (2); ALTER TABLE s ENABLE ROW LEVEL SECURITY")
    database.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'; GRANT SELECT ON s TO {role}")
    database.execute(f"CREATE POLICY one ON s FOR SELECT TO {role} USING (a = 1)")
    relation_id = database.value("SELECT 's'::regclass::oid")
    table = published(relation_id=relation_id, namespace="public", name="s", column_names=("a",))
    with database.connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        (name,) = connection.execute("SELECT pg_export_snapshot()").fetchone()  # type: ignore[misc]
        dsn = make_conninfo(database.dsn, user=role, password="x")
        with Snapshot(dsn, name) as seen, pytest.raises(OperatorError, match="may not read"):
            list(seen.blocks(table))


def test_snapshot_whose_slot_lost_its_connection_is_gone_and_the_copy_begins_again(database: Database) -> None:
    with pytest.raises(RetryableError, match="snapshot is gone"):
        Snapshot(database.dsn, "00000003-0000001B-1")
