"""Values of every type: copy and stream both hold what SELECT says, or say exactly what they cannot hold.

Postgres is the oracle. Its defaults are set to what would change the bytes, so that only the
pinned settings make copy and stream print alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fix_postgres import Database, having_vector, new_database
from tests.integration.both_ways import PUBLICATION, copied, relation_record, slot_of, streamed
from tests.integration.every_type import COLUMNS, TYPES_SQL, create_statements, edge_rows, insert, random_rows
from tests.integration.oracle import Expected, expected_values, rendered
from tests.integration.typed_columns import TypedColumn, array_of
from tests.producer.avro_reader import envelope
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.pgoutput.messages import Delete, Insert, Relation
from walbridge.schemas.control.metadata_record import RelationRecord

RANDOM_ROWS = 2_000
SEED = 20_250_102
SOURCE = TransactionSource.of(1, 1, 1, None)
TS_MS = b"\x00"
ODD_DEFAULTS = """
    ALTER DATABASE {name} SET datestyle = 'SQL, DMY';
    ALTER DATABASE {name} SET timezone = 'America/St_Johns';
    ALTER DATABASE {name} SET bytea_output = 'escape';
    ALTER DATABASE {name} SET intervalstyle = 'iso_8601';
    ALTER DATABASE {name} SET extra_float_digits = -5;
"""


@dataclass(frozen=True)
class Seen:
    """``after`` and exceptional texts of every row by id, by both ways, beside what SELECT says."""

    copied: dict[int, dict[str, Any]]
    streamed: dict[int, dict[str, Any]]
    expected: dict[int, list[Expected]]
    copy_version: RelationRecord
    stream_version: RelationRecord


@pytest.fixture(scope="module")
def postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """One that has pgvector."""
    with having_vector(postgres) as server:
        yield server


@pytest.fixture(scope="module")
def seen(postgres: PostgresServer) -> Iterator[Seen]:
    with new_database(postgres) as database:
        database.execute(create_statements())
        database.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE every_type")
        database.execute(ODD_DEFAULTS.format(name=database.name))
        with slot_of(database) as start:
            with database.connect(options="-c datestyle=ISO,YMD -c timezone=UTC") as connection:
                next_id = insert(connection, edge_rows())
                insert(connection, random_rows(SEED, RANDOM_ROWS), next_id)
            yield _seen(database, start)


def _seen(database: Database, start: Any) -> Seen:
    ((table, tuples),) = copied(database).items()
    messages = streamed(database, start, transactions=2)
    (relation,) = (message for message in messages if isinstance(message, Relation))
    copy_version, stream_version = (relation_record(database, of) for of in (table, relation))
    copy_writer, stream_writer = (RecordWriter(version, "p", "db") for version in (copy_version, stream_version))
    copies = (copy_writer.copied(row, SOURCE, copy_writer.snapshot_source, TS_MS) for row in tuples)
    inserts = (message for message in messages if isinstance(message, Insert))
    changes = (record for message in inserts for record in stream_writer.insert(message, SOURCE, 0, TS_MS))
    return Seen(
        _by_id(envelope(copy_version, record.value or b"") for record in copies),
        _by_id(envelope(stream_version, record.value or b"") for record in changes),
        dict(expected_values(database.dsn, COLUMNS)),
        copy_version,
        stream_version,
    )


def _by_id(events: Iterator[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {event["after"]["id"]: event for event in events}


def test_every_row_came_both_ways(seen: Seen) -> None:
    assert len(seen.expected) == len(edge_rows()) + RANDOM_ROWS
    assert seen.expected.keys() == seen.copied.keys() == seen.streamed.keys()


def test_copy_and_stream_describe_the_table_alike(seen: Seen) -> None:
    assert seen.copy_version == seen.stream_version


def test_copy_and_stream_of_a_row_are_identical(seen: Seen) -> None:
    # By their text, in which NaN equals NaN and -0 is not 0.
    for row_id, event in seen.copied.items():
        streamed_event = seen.streamed[row_id]
        assert repr(event["after"]) == repr(streamed_event["after"])
        assert event["exceptional"] == streamed_event["exceptional"]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_value_is_what_select_says_or_its_exact_text_is_exceptional(seen: Seen, column: TypedColumn) -> None:
    """Nothing is raised, rounded, clamped or changed: what a type cannot hold is null, and told."""
    place = COLUMNS.index(column)
    (avro,) = (each.column_type.avro for each in seen.copy_version.table.columns if each.name == column.name)
    held = 0
    for row_id, expected_row in seen.expected.items():
        expected, event = expected_row[place], seen.streamed[row_id]
        found = rendered(event["after"][column.name], avro)
        kept = (event["exceptional"] or {}).get(column.name)

        if expected.is_exceptional:
            assert (found, kept) == (None, expected.text)
        else:
            assert (found, kept) == (expected.compared, None)
            held += found is not None
    assert held > len(seen.expected) // 3


CAN_BE_EXCEPTIONAL = [column for column in COLUMNS if column.under in ("date", "timestamp", "timestamptz")]


@pytest.mark.parametrize("column", CAN_BE_EXCEPTIONAL, ids=lambda column: column.name)
def test_rows_hold_exceptional_values_too(seen: Seen, column: TypedColumn) -> None:
    texts = {event["exceptional"][column.name] for event in seen.streamed.values() if _is_exceptional(event, column)}

    assert {"infinity", "-infinity"} <= texts
    assert any(text.endswith("BC") for text in texts)
    assert any(text.startswith("10000-01-01") for text in texts)


def _is_exceptional(event: dict[str, Any], column: TypedColumn) -> bool:
    return column.name in (event["exceptional"] or {})


def test_no_column_is_exceptional_that_is_not_of_the_table(seen: Seen) -> None:
    names = {name for event in seen.streamed.values() for name in event["exceptional"] or {}}

    assert names <= {column.name for column in COLUMNS}


KEY_TYPES = [
    column for column in COLUMNS
    if column.name.startswith(("a_", "n_", "d_", "e_")) and column.sql_type != "json"
]  # fmt: skip
KEYS = [*KEY_TYPES, array_of(next(column for column in COLUMNS if column.sql_type == "date"))]


def test_key_of_any_type_is_the_same_in_an_insert_and_in_the_delete_of_its_row(database: Database) -> None:
    """I3: the delete knows the key only, and must reach the partition of the insert; no two keys meet."""
    database.execute(TYPES_SQL)
    for column in KEYS:
        database.execute(f"CREATE TABLE {column.name} (k {column.sql_type} PRIMARY KEY)")
    database.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
    with slot_of(database) as start:
        with database.connect() as connection, connection.transaction():
            for column in KEYS:
                # What a btree takes for equal (0 and -0) is one key; what no index entry holds is left out.
                values = [(edge,) for edge in column.edges if len(edge) < 2000]
                statement = f"INSERT INTO {column.name} VALUES (%s::{column.sql_type}) ON CONFLICT DO NOTHING"
                connection.cursor().executemany(statement, values)
                connection.execute(f"DELETE FROM {column.name}".encode())
        messages = streamed(database, start, transactions=1)

    writers: dict[int, RecordWriter] = {}
    inserted: dict[int, list[bytes | None]] = {}
    deleted: dict[int, list[bytes | None]] = {}
    for message in messages:
        if isinstance(message, Relation):
            writers[message.relation_id] = RecordWriter(relation_record(database, message), "p", "db")
        elif isinstance(message, Insert):
            (record,) = writers[message.relation_id].insert(message, SOURCE, 0, TS_MS)
            inserted.setdefault(message.relation_id, []).append(record.key)
        elif isinstance(message, Delete):
            (record,) = writers[message.relation_id].delete(message, SOURCE, 0, TS_MS)
            deleted.setdefault(message.relation_id, []).append(record.key)
    assert len(inserted) == len(KEYS)
    assert inserted == deleted
    for keys in inserted.values():
        assert None not in keys
        assert len(set(keys)) == len(keys)
