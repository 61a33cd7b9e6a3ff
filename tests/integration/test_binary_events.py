"""A session with ``binary`` makes the events of one without, byte for byte, whatever the types; or it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import pytest

from tests.fix_postgres import Database, having_vector, new_database
from tests.integration.both_ways import PUBLICATION, relation_record, slot_of, streamed
from tests.integration.every_type import COLUMNS, create_statements, edge_rows, insert, random_rows
from tests.integration.test_types import SOURCE, TS_MS
from tests.producer.avro_reader import record_of
from tests.producer.copy_lines import line_of
from tests.producer.encoding.columns.test_rows_by_column import by_column, by_line
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.encoding.binary.lines import binary_columns
from walbridge.producer.encoding.binary.types import TypeReaders
from walbridge.producer.encoding.interpreted import interpreting_transcoder
from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.encoding.transcoder import BinaryColumns, Transcoder, make_transcoder
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Binary, Insert, Relation, RelationColumn, Unsent
from walbridge.producer.pgoutput.tuple_data import encode_tuple
from walbridge.producer.postgres.binary_types import binary_facts
from walbridge.producer.postgres.connection import connect_sql
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, ProtocolError

RANDOM_ROWS = 400
SEED = 20_251_121
NAMED_BY_THE_SERVER = "regclass"
"""In binary it is a number, whose name only the server knows."""


@dataclass(frozen=True)
class Streamed:
    """The same rows from two sessions on one slot."""

    record: RelationRecord
    binary: BinaryColumns
    texts: list[bytes]
    binaries: list[bytes]

    def events(self, tuples: list[bytes], *, binary: bool) -> list[KafkaRecord]:
        writer = RecordWriter(self.record, "p", "db", self.binary if binary else None)
        changes = (Insert(self.record.table.relation_id, each) for each in tuples)
        return [event for change in changes for event in writer.insert(change, SOURCE, 0, TS_MS)]

    def plain_events(self, tuples: list[bytes], *, binary: bool) -> list[tuple[bytes | None, bytes] | None]:
        writer = RecordWriter(self.record, "p", "db", self.binary if binary else None)
        return [writer.plain(each, 0, writer.source, SOURCE.encoded, 0, b"") for each in tuples]


@pytest.fixture(scope="module")
def postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """One that has pgvector."""
    with having_vector(postgres) as server:
        yield server


@pytest.fixture(scope="module")
def seen(postgres: PostgresServer) -> Iterator[Streamed]:
    with new_database(postgres) as database:
        database.execute(create_statements())
        names = ", ".join(column.name for column in COLUMNS if column.sql_type != NAMED_BY_THE_SERVER)
        database.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE every_type (id, {names})")
        with slot_of(database) as start:
            with database.connect(options="-c datestyle=ISO,YMD -c timezone=UTC") as connection:
                insert(connection, random_rows(SEED, RANDOM_ROWS), insert(connection, edge_rows()))
            sessions = [streamed(database, start, 2), streamed(database, start, 2, binary="true")]
        (relation,) = (message for message in sessions[0] if isinstance(message, Relation))
        record = relation_record(database, relation)
        texts, binaries = ([each.new for each in messages if isinstance(each, Insert)] for messages in sessions)
        yield Streamed(record, columns_of(database, record), texts, binaries)


def columns_of(database: Database, record: RelationRecord) -> BinaryColumns:
    with connect_sql(database.dsn) as connection:
        readers = TypeReaders(lambda oids: binary_facts(connection, oids), connection.info.server_version)
        return binary_columns(record.table, readers)


def test_binary_session_makes_the_same_events(seen: Streamed) -> None:
    """Key and value, byte for byte."""
    assert any(isinstance(field, Binary) for field in decode_tuple(seen.binaries[-1]))
    assert seen.events(seen.texts, binary=False) == seen.events(seen.binaries, binary=True)
    assert len(seen.texts) == len(edge_rows()) + RANDOM_ROWS


def test_plain_rows_of_a_binary_session_are_the_same(seen: Streamed) -> None:
    """The short way of a row of which all is known."""
    plain = seen.plain_events(seen.texts, binary=False)

    assert plain == seen.plain_events(seen.binaries, binary=True)
    assert any(plain)


def test_row_whose_fields_come_partly_as_text_is_the_same(seen: Streamed) -> None:
    random = Random(SEED)
    mixed = [
        encode_tuple([random.choice(pair) for pair in zip(decode_tuple(text), decode_tuple(binary), strict=True)])
        for text, binary in zip(seen.texts, seen.binaries, strict=True)
    ]

    assert seen.events(mixed, binary=True) == seen.events(seen.texts, binary=False)


@pytest.mark.variant(of="test_binary_session_makes_the_same_events")
def test_copied_rows_are_the_same_column_by_column(seen: Streamed) -> None:
    """As the server prints every type, each alone: beside a bytea no row is plain."""
    table, rows = seen.record.table, [decode_tuple(each) for each in seen.texts]
    for column, fields in zip(table.columns, zip(*rows, strict=True), strict=True):
        record = record_of(of=replace(table, columns=(column,)))
        lines = [line_of(None if isinstance(field, Unsent) else bytes(field)) for field in fields]

        assert by_column(record, lines) == by_line(record, lines) != [], column.type_name


def test_copied_rows_which_are_text_are_the_same_in_a_binary_session(seen: Streamed) -> None:
    assert seen.events(seen.texts, binary=True) == seen.events(seen.texts, binary=False)


@pytest.mark.parametrize("is_binary", [False, True], ids=["text", "binary"])
def test_first_rows_are_read_without_generated_code_as_with_it(seen: Streamed, is_binary: bool) -> None:
    binary, rows = (seen.binary, seen.binaries) if is_binary else (None, seen.texts)
    generated, interpreting = make_transcoder(seen.record, binary), interpreting_transcoder(seen.record, binary)

    assert [generated(row, 0) for row in rows] == [interpreting(row, 0) for row in rows]


@pytest.mark.parametrize("make", [make_transcoder, interpreting_transcoder], ids=["generated", "first rows"])
def test_truncated_binary_row_is_refused_at_every_length(
    seen: Streamed, make: Callable[[RelationRecord, BinaryColumns], Transcoder]
) -> None:
    row = min(seen.binaries[1:], key=len)
    transcode = make(seen.record, seen.binary)
    transcode(row, 0)

    for length in range(len(row)):
        with pytest.raises(ProtocolError):
            transcode(row[:length], 0)


def test_binary_field_is_refused_by_a_session_that_did_not_ask_for_it(seen: Streamed) -> None:
    with pytest.raises(ProtocolError, match="unknown kind of field"):
        seen.events(seen.binaries[-1:], binary=False)


UNREADABLE = {
    "regclass": "type regclass, whose binary format walbridge does not know",
    "aclitem[]": "type aclitem, of which the server has no binary format",
    "holds_acl": "type aclitem, of which the server has no binary format",
    "domain_over_holds_acl[]": "type aclitem, of which the server has no binary format",
    "like_int": "type public.like_int, whose binary format walbridge does not know",
    "like_int_range": "type public.like_int, whose binary format walbridge does not know",
    "regtype[]": "type regtype, whose binary format walbridge does not know",
}
STRANGE_TYPES = """
CREATE TYPE holds_acl AS (a int, b aclitem[]);
CREATE DOMAIN domain_over_holds_acl AS holds_acl;
CREATE TYPE like_int;
CREATE FUNCTION like_int_in(cstring) RETURNS like_int LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION like_int_out(like_int) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE FUNCTION like_int_send(like_int) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int4send';
CREATE TYPE like_int (INPUT = like_int_in, OUTPUT = like_int_out, SEND = like_int_send, LIKE = int4);
CREATE FUNCTION like_int_cmp(like_int, like_int) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
CREATE FUNCTION like_int_lt(like_int, like_int) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4lt';
CREATE OPERATOR < (LEFTARG = like_int, RIGHTARG = like_int, FUNCTION = like_int_lt);
CREATE OPERATOR CLASS like_int_ops DEFAULT FOR TYPE like_int USING btree AS OPERATOR 1 <, FUNCTION 1 like_int_cmp(like_int, like_int);
CREATE TYPE like_int_range AS RANGE (subtype = like_int);
"""  # noqa: E501


@pytest.fixture(scope="module")
def strange(postgres: PostgresServer) -> Iterator[Callable[[str], BinaryColumns]]:
    """Readers of a table with a column of this type."""
    with new_database(postgres) as database:
        database.execute(STRANGE_TYPES)

        def columns(sql_type: str) -> BinaryColumns:
            database.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t (id int, odd {sql_type})")
            table_id = database.value("SELECT 't'::regclass::oid")
            type_id = database.value("SELECT atttypid FROM pg_attribute WHERE attrelid = %s AND attnum = 2", [table_id])
            relation = relation_record(database, announced_relation(table_id, type_id))
            return columns_of(database, relation)

        yield columns


def announced_relation(table_id: int, type_id: int) -> Relation:
    columns = (RelationColumn(False, "id", 23, -1), RelationColumn(False, "odd", type_id, -1))
    return Relation(table_id, "public", "t", "d", columns)


@pytest.mark.parametrize(("sql_type", "reason"), UNREADABLE.items(), ids=list(UNREADABLE))
def test_type_whose_binary_format_is_not_known_is_refused_with_table_and_column(
    strange: Callable[[str], BinaryColumns], sql_type: str, reason: str
) -> None:
    """I7: nothing is guessed. The server's own error would come in mid-stream and name neither."""
    with pytest.raises(OperatorError) as refusal:
        strange(sql_type)

    assert refusal.value.what == f"binary = true: column odd of table public.t is or holds {reason}"
    assert "binary = false" in refusal.value.remedy


@pytest.mark.parametrize("sql_type", ["aclitem", "gtsvector"])
def test_type_without_a_binary_format_comes_as_text(strange: Callable[[str], BinaryColumns], sql_type: str) -> None:
    columns = strange(sql_type)

    assert columns is not None
    assert [column is None for column in columns] == [False, True]


def test_composite_that_got_another_field_meanwhile_is_read_by_what_its_value_says(postgres: PostgresServer) -> None:
    """The catalogue says now, the WAL says then; a field's type that nobody asked about is looked up."""
    with new_database(postgres) as database:
        database.execute("CREATE TYPE mood AS ENUM ('sad'); CREATE TYPE pair AS (a int)")
        oid = database.value("SELECT 'pair'::regtype::oid")
        with connect_sql(database.dsn) as connection:
            readers = TypeReaders(lambda oids: binary_facts(connection, oids), connection.info.server_version)
            read = readers[oid]
            database.execute("ALTER TYPE pair ADD ATTRIBUTE m mood")
            row = connection.execute("SELECT '(1,sad)'::public.pair", binary=True)
            value = row.pgresult.get_value(0, 0) if row.pgresult else None

            assert read(value or b"") == b"(1,sad)"
