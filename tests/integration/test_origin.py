"""Where a replicated transaction comes from is told; with ``origin = "none"`` what came once does not go on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.fix_postgres import Database, new_database
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_variants
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.pgoutput.decoder import decode_message, decode_tuple
from walbridge.producer.pgoutput.messages import Insert
from walbridge.producer.pgoutput.options import StreamWishes, start_options
from walbridge.schemas.position import format_lsn

TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text)"
ROUNDS = 4


def replicate(database: Database, origin: str, rows: list[int], origin_lsn: int | None, at: str = "now") -> None:
    """Write rows as a subscriber does that got them from elsewhere, where they were committed at ``at``."""
    with database.connect() as connection:
        connection.execute("SELECT pg_replication_origin_create(%s)", (origin,))
        connection.execute("SELECT pg_replication_origin_session_setup(%s)", (origin,))
        with connection.transaction():
            if origin_lsn is not None:
                connection.execute("SELECT pg_replication_origin_xact_setup(%s, %s)", (format_lsn(origin_lsn), at))
            connection.cursor().executemany("INSERT INTO t VALUES (%s, %s)", [(row, origin) for row in rows])
        connection.execute("SELECT pg_replication_origin_session_reset()")
        connection.execute("SELECT pg_replication_origin_drop(%s)", (origin,))


def prepare_replicated(database: Database, gid: str, row: int) -> None:
    """As a subscriber with two_phase does."""
    origin = f"{database.name}_{gid}"
    with database.connect() as connection:
        connection.execute("SELECT pg_replication_origin_create(%s)", (origin,))
        connection.execute("SELECT pg_replication_origin_session_setup(%s)", (origin,))
        prepare(connection, gid, row)
        connection.execute("SELECT pg_replication_origin_session_reset()")
        connection.execute("SELECT pg_replication_origin_drop(%s)", (origin,))


def prepare(connection: psycopg.Connection[Any], gid: str, row: int) -> None:
    for statement in ("BEGIN", f"INSERT INTO t VALUES ({row}, '{gid}')", f"PREPARE TRANSACTION '{gid}'"):
        connection.execute(statement.encode())


def moment(us: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=us)


def test_name_and_place_of_a_replicated_transaction_are_in_its_source(producer: ProducerUnderTest) -> None:
    """And of no other: neither the one before nor the one after it in the same batch, on both ways of a row."""
    producer.database.execute(TABLE)
    producer.publish("t")
    producer.start_streaming()
    origin_lsn = 0xA_0000_1234
    producer.database.execute("INSERT INTO t VALUES (1, 'here')")
    replicate(producer.database, producer.name, [2, 3, 4], origin_lsn)
    producer.database.execute("INSERT INTO t VALUES (5, 'here'); UPDATE t SET id = 6 WHERE id = 5")
    replicate(producer.database, producer.name, [7], None)

    with producer.topics() as topics:
        producer.caught_up(topics)
        events = [event for cut in topics.cuts() for event in topics.events(cut) if event.position.ordinal >= 0]
        progress = topics.progress()
    found = {(event.after or event.before or {})["id"]: event.source for event in events}
    assert [(found[n]["origin"], found[n]["origin_lsn"]) for n in (2, 3, 4)] == [(producer.name, origin_lsn)] * 3
    assert [(found[n]["origin"], found[n]["origin_lsn"]) for n in (1, 5, 6)] == [(None, None)] * 3
    assert (found[7]["origin"], found[7]["origin_lsn"]) == (producer.name, None)
    assert progress is not None
    producer.check_equal()


@pytest.mark.variant(of="test_name_and_place_of_a_replicated_transaction_are_in_its_source")
def test_clock_of_an_origin_may_say_anything(producer: ProducerUnderTest) -> None:
    """I7: who replicates sets the commit time, also to what no date of Avro's readers can be."""
    producer.database.execute(TABLE)
    producer.publish("t")
    producer.start_streaming()
    for number, at in enumerate(("infinity", "-infinity", "200000-01-01", "4713-01-01 BC")):
        replicate(producer.database, producer.name, [number], 0x1000, at)

    with producer.topics() as topics:
        producer.caught_up(topics)
        cuts = topics.cuts()
        events = [event for cut in cuts for event in topics.events(cut) if event.position.ordinal >= 0]
    assert {cut.commit_time_us for cut in cuts if cut.transactions} <= {event.source["ts_us"] for event in events}
    assert [moment(event.source["ts_us"]).year for event in events] == [9999, 1, 9999, 1]


def test_producer_that_asks_for_no_origin_leaves_out_what_was_replicated(producer: ProducerUnderTest) -> None:
    """Its position is passed all the same: the slot holds no WAL back for it."""
    producer.settings["postgres"] = {"origin": "none"}
    producer.database.execute(TABLE)
    producer.publish("t")
    producer.start_streaming()
    replicate(producer.database, producer.name, [1, 2], 0x1000)
    producer.database.execute("INSERT INTO t VALUES (3, 'here')")
    replicate(producer.database, producer.name, [4], 0x2000)

    with producer.topics() as topics:
        producer.caught_up(topics)
        events = [event for cut in topics.cuts() for event in topics.events(cut) if event.position.ordinal >= 0]
    assert [(event.after or {})["id"] for event in events] == [3]


@pytest.mark.parametrize("major", [in_variants(16), pytest.param(17, marks=pytest.mark.soak), 18])
def test_replicated_prepare_that_is_committed_by_hand_is_left_out_and_ends_no_session(
    producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    """The server leaves out the prepare by its origin, and sends the commit, which has none: in the session in which it
    was prepared, and in one that begins behind it. What was prepared here comes."""
    producer = producer_on(major)
    database = producer.database
    producer.settings["postgres"] = {"origin": "none", "two_phase": True}
    database.execute(TABLE)
    producer.publish("t")
    running = producer.start_streaming()
    for row, gid in enumerate(("in one session", "while stopped", "in the next", "void")):
        prepare_replicated(database, gid, row)
    with database.connect() as connection:
        prepare(connection, "here", 10)
    database.execute("COMMIT PREPARED 'in one session'")
    with producer.topics() as topics:
        producer.caught_up(topics)
    running.stop()
    first = running.log
    database.execute("COMMIT PREPARED 'while stopped'")
    running = producer.start_streaming()
    database.execute("COMMIT PREPARED 'in the next'")
    database.execute("ROLLBACK PREPARED 'void'")
    database.execute("COMMIT PREPARED 'here'")
    database.execute("INSERT INTO t VALUES (11, 'here')")

    with producer.topics() as topics:
        producer.caught_up(topics)
        events = [event for cut in topics.cuts() for event in topics.events(cut) if event.position.ordinal >= 0]
    assert [(event.after or {})["id"] for event in events] == [10, 11]
    told = "that replication brought was committed here"
    assert (first.count(told), running.log.count(told)) == (1, 2)


@pytest.mark.parametrize("major", [16, 18])
def test_ring_of_two_servers_comes_to_rest(postgres_version: Callable[[int], PostgresServer], major: int) -> None:
    """Each row crosses once: what one side got from the other does not go back."""
    server = postgres_version(major)
    with new_database(server) as one, new_database(server) as other:
        ring = (one, other), (other, one)
        for number, database in enumerate((one, other)):
            database.execute(f"{TABLE}; CREATE PUBLICATION pub FOR TABLE t")
            database.value("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (database.name,))
            database.execute(f"INSERT INTO t SELECT n, 'own' FROM generate_series({10 * number}, {10 * number + 4}) n")
        crossed = []
        for _ in range(ROUNDS):
            for source, target in ring:
                rows = new_rows(source)
                crossed.append(len(rows))
                if rows:
                    replicate(target, f"from_{source.name}", rows, 0x1000)

        assert crossed == [5, 5, *[0] * (2 * ROUNDS - 2)]
        assert one.rows("SELECT id FROM t ORDER BY id") == other.rows("SELECT id FROM t ORDER BY id")


def new_rows(database: Database) -> list[int]:
    """Ids of the rows that the slot's session has not seen yet."""
    with database.connect() as connection:
        options = start_options(["pub"], connection.info.server_version, StreamWishes(origin="none"))
        pairs = [part for pair in options.items() for part in pair]
        query = "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, VARIADIC %s)"
        messages = [decode_message(data) for (data,) in connection.execute(query.encode(), (database.name, pairs))]
    return [int(str(decode_tuple(each.new)[0], "ascii")) for each in messages if isinstance(each, Insert)]  # type: ignore[arg-type]
