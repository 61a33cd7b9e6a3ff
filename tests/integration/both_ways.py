"""Rows of a real server by both ways into the producer: COPY of a snapshot, and the stream.

In: a database with a publication. Out: messages as a walsender sends them, tuples as the copy
makes them, record writers as the session has them. No Kafka: what is compared are bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.fix_postgres import Database
from tests.producer.pgoutput.frames import XLogData, decode_frame
from tests.wait import wait_until
from walbridge.producer.pgoutput.copy_text import tuple_of_line
from walbridge.producer.pgoutput.decoder import decode_message
from walbridge.producer.pgoutput.messages import Commit, Message, Relation
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import connect_sql, connect_walsender
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.table_reads.snapshot import Snapshot
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.relations.table_description import announced, describe
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.position import Lsn

PUBLICATION = "everything"
WAIT_S = 60.0


@contextmanager
def slot_of(database: Database) -> Iterator[Lsn]:
    """A slot that exists from here on; where its stream begins."""
    walsender = connect_walsender(database.dsn)
    try:
        created = slot.create(walsender, database.name, lambda: None)
    finally:
        walsender.finish()
    with connect_sql(database.dsn) as connection:
        try:
            yield created.consistent_point
        finally:
            slot.drop(connection, database.name)


def streamed(database: Database, start: Lsn, transactions: int, **options: str) -> list[Message]:
    """The messages of so many transactions; a slot that confirms nothing gives them again."""
    wait_until_free(database, database.name)
    stream = ReplicationStream(connect_walsender(database.dsn), database.name, 10_000)
    messages: list[Message] = []
    deadline_s = time.monotonic() + WAIT_S
    with stream:
        stream.start(start, {"proto_version": "1", "publication_names": f'"{PUBLICATION}"'} | options)
        while transactions:
            data = stream.read()
            if data is None:
                assert time.monotonic() < deadline_s, f"{transactions} transactions did not come"
                stream.wait(1.0)
                continue
            frame = decode_frame(data)
            if isinstance(frame, XLogData):
                messages.append(decode_message(frame.payload))
                transactions -= isinstance(messages[-1], Commit)
    return messages


def wait_until_free(database: Database, slot_name: str) -> None:
    """A walsender holds its slot until it notices that its client left: the next session may be there before."""
    held = "SELECT FROM pg_replication_slots WHERE slot_name = %s AND active"
    wait_until(lambda: not database.rows(held, (slot_name,)), "the slot to be let go")


def copied(database: Database) -> dict[PublishedTable, list[bytes]]:
    """Every row of every published table, as TupleData."""
    with connect_sql(database.dsn) as exporter:
        exporter.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        ((name,),) = exporter.execute("SELECT pg_export_snapshot()").fetchall()
        with Snapshot(database.dsn, name) as snapshot:
            tables = catalog.published_tables(snapshot.connection, (PUBLICATION,))
            return {table: _tuples(table, snapshot.blocks(table)) for table in tables}


def _tuples(table: PublishedTable, blocks: Iterable[list[bytes]]) -> list[bytes]:
    return [tuple_of_line(line, len(table.column_names)) for block in blocks for line in block]


def relation_record(database: Database, of: PublishedTable | Relation) -> RelationRecord:
    """The version of a relation: as the copy announces it, or as the stream did."""
    with connect_sql(database.dsn) as connection:
        facts = catalog.table_facts(connection, of.relation_id)
        assert facts is not None
        relation = announced(of, facts) if isinstance(of, PublishedTable) else of
        types = catalog.type_facts(connection, {column.type_oid for column in relation.columns})
    table = describe(relation, facts, types)
    return RelationCache("p").version_of(table, DataTopic("p.public.t", 1))
