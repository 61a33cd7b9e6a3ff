"""Logical messages on ``<p>.messages``: in their transaction's order, or at once, each once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fix_producer import ProducerUnderTest
from tests.replay import Event
from tests.topic_reader import Topics
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.position import parse_lsn

TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text)"


@pytest.fixture
def talking(producer: ProducerUnderTest) -> ProducerUnderTest:
    """A producer that publishes messages, over an empty table."""
    producer.settings["postgres"] = {"messages": True}
    producer.database.execute(TABLE)
    producer.publish("t")
    return producer


def emit(producer: ProducerUnderTest, content: str, *, transactional: bool, prefix: str = "app") -> int:
    """Its LSN."""
    query = "SELECT pg_logical_emit_message(%s, %s, %s)::text"
    return parse_lsn(producer.database.value(query, (transactional, prefix, content)))


def seen(topics: Topics) -> list[tuple[Event, dict[str, Any]]]:
    """Every event of the stream with its envelope, in the order of positions."""
    found = []
    for cut in topics.cuts():
        for part in cut.partitions:
            for message in topics.reader(part.topic).read_range(part):
                event = topics.decode(message)
                if event.position.ordinal >= 0 or event.op == "m":
                    found.append((event, topics.envelope(message.value() or b"")[1]))
    return sorted(found, key=lambda each: each[0].position)


def told(topics: Topics) -> list[tuple[str, Any]]:
    """Operation, and content or id."""
    return [
        (event.op, envelope["message"]["content"].decode() if event.op == "m" else (event.after or {}).get("id"))
        for event, envelope in seen(topics)
    ]


@pytest.mark.variant(of="test_each_message_is_published_once_and_counted_whatever_is_killed")
def test_message_of_a_transaction_takes_its_ordinal_in_it(talking: ProducerUnderTest) -> None:
    """A published message is one event of its transaction; one of another prefix is none."""
    talking.settings["postgres"]["message_prefixes"] = ["app"]
    talking.start_streaming()
    with talking.database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute(
            "SELECT pg_logical_emit_message(true, 'app', 'one'), pg_logical_emit_message(true, 'x', 'no')"
        )
        connection.execute("INSERT INTO t VALUES (2)")
        connection.execute("SAVEPOINT s")
        connection.execute("SELECT pg_logical_emit_message(true, 'app', 'rolled back')")
        connection.execute("ROLLBACK TO s")
        connection.execute("SELECT pg_logical_emit_message(true, 'app', '\\xff00'::bytea)")
        (xid,) = connection.execute("SELECT txid_current()").fetchone() or (None,)
    with talking.database.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute("SELECT pg_logical_emit_message(true, 'app', 'rolled back')")

    with talking.topics() as topics:
        talking.caught_up(topics)
        events = seen(topics)
        topics.check_nothing_else()
    assert [(event.op, event.position.ordinal) for event, _ in events] == [("c", 0), ("m", 1), ("c", 2), ("m", 3)]
    assert len({event.position.commit_lsn for event, _ in events}) == 1
    message = events[3][1]
    assert message["message"] == {"prefix": "app", "content": b"\xff\x00"}
    assert (message["before"], message["after"]) == (None, None)
    source = message["source"]
    assert (source["schema"], source["table"], source["txId"]) == ("", "", xid)
    talking.check_equal()


def test_message_of_no_transaction_comes_at_once_and_stands_at_the_end_of_its_record(
    talking: ProducerUnderTest,
) -> None:
    """Also from one that is rolled back, and before that one's end; the slot moves on behind it (I1)."""
    talking.start_streaming()
    with talking.database.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute("INSERT INTO t VALUES (1)")
        lsn = parse_lsn(
            connection.execute("SELECT pg_logical_emit_message(false, 'app', 'now')::text").fetchall()[0][0]
        )
        emit(talking, "flushed", transactional=True)
        with talking.topics() as topics:
            cut = topics.wait_for_cut(lambda cut: any(map(_is_of_messages, cut.tables)), "with a message")
            ((event, envelope), *_) = seen(topics)
    assert (event.op, event.position) == ("m", (lsn, -1))
    assert (envelope["source"]["txId"], envelope["message"]["content"]) == (None, b"now")
    assert cut.end_lsn >= lsn
    assert cut.complete


def _is_of_messages(table: Any) -> bool:
    return bool(table.relation_id == MESSAGES_RELATION_ID)


def test_each_message_is_published_once_and_counted_whatever_is_killed(talking: ProducerUnderTest) -> None:
    """I4, I7: those that come again after a restart are known by the last one's LSN."""
    talking.settings["producer"] = {"batch_rows_max": 10}
    talking.start_streaming().stop()
    for round_, point in enumerate(("produce:rows-acknowledged", "produce:committed", None)):
        running = talking.start_streaming(point)
        for n in range(8):
            emit(talking, f"{round_} outside {n}", transactional=False)
            with talking.database.connect() as connection, connection.transaction():
                connection.execute("INSERT INTO t VALUES (%s)", (100 * round_ + n,))
                connection.execute("SELECT pg_logical_emit_message(true, 'app', %s)", (f"{round_} inside {n}",))
        if point is not None:
            assert running.exit_code() == 137

    with talking.topics() as topics:
        talking.caught_up(topics)
        topics.check_nothing_else()
        found = told(topics)
        progress = topics.progress()
    expected: list[tuple[str, Any]] = []
    for round_ in range(3):
        for n in range(8):
            expected += [("m", f"{round_} outside {n}"), ("c", 100 * round_ + n), ("m", f"{round_} inside {n}")]
    assert found == expected
    assert progress is not None
    assert progress.last_message_lsn is not None


@pytest.mark.variant(of="test_half_published_transaction_that_reads_otherwise_is_refused")
def test_message_filter_may_not_change_while_a_transaction_is_half_published(talking: ProducerUnderTest) -> None:
    """I4: its messages are counted and hashed with its rows; a message before it is not published twice."""
    talking.settings["producer"] = {"batch_rows_max": 10}
    talking.start_streaming().stop()
    emit(talking, "before", transactional=False)
    with talking.database.connect() as connection, connection.transaction():
        connection.execute(
            "INSERT INTO t SELECT n, pg_logical_emit_message(true, 'app', n::text)::text FROM generate_series(1, 30) n"
        )
    talking.run_until_killed("produce:split")

    talking.settings["postgres"]["message_prefixes"] = ["other"]
    words = talking.refusal()
    assert "message_prefixes changed while a transaction is half published" in words

    talking.settings["postgres"]["message_prefixes"] = []
    talking.start_streaming()
    with talking.topics() as topics:
        cut: Cut = talking.caught_up(topics)
        topics.check_nothing_else()
        found = told(topics)
    assert cut.complete
    assert found[0] == ("m", "before")
    assert sorted(found[1:], key=str) == sorted(
        [("m", str(n)) for n in range(1, 31)] + [("c", n) for n in range(1, 31)], key=str
    )


@pytest.mark.variant(of="test_each_message_is_published_once_and_counted_whatever_is_killed")
def test_message_of_a_prepared_transaction_comes_with_its_commit(talking: ProducerUnderTest) -> None:
    """Behind what was said at once before that commit; one of a transaction that is rolled back never."""
    talking.settings["postgres"]["two_phase"] = True
    talking.start_streaming()
    for gid in ("kept", "dropped"):
        with talking.database.connect() as connection:
            connection.execute("BEGIN")
            connection.execute(f"INSERT INTO t VALUES ({len(gid)})".encode())
            connection.execute("SELECT pg_logical_emit_message(true, 'app', %s)", (gid,))
            connection.execute(f"PREPARE TRANSACTION '{talking.name}_{gid}'".encode())
    emit(talking, "meanwhile", transactional=False)
    talking.database.execute(f"ROLLBACK PREPARED '{talking.name}_dropped'")
    talking.database.execute(f"COMMIT PREPARED '{talking.name}_kept'")

    with talking.topics() as topics:
        talking.caught_up(topics)
        topics.check_nothing_else()
        assert told(topics) == [("m", "meanwhile"), ("c", len("kept")), ("m", "kept")]
