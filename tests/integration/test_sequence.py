"""What events tell only by setting: ``source.sequence``, against what another slot of the server says of the same
changes, ``transaction``, and the topic of transactions."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest

from tests.fix_producer import ProducerUnderTest
from tests.integration.test_logical_messages import seen
from walbridge.schemas.position import parse_lsn
from walbridge.schemas.topics import transaction_topic

TABLE = "CREATE TABLE t (id int PRIMARY KEY, note text)"
CHANGES = (
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "UPDATE t SET note = 'c' WHERE id = 1",
    "UPDATE t SET id = 3 WHERE id = 2; DELETE FROM t WHERE id = 1",
    "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(100, 400) i",
    "TRUNCATE t",
    "INSERT INTO t VALUES (5, 'e')",
)


@pytest.fixture
def telling(producer: ProducerUnderTest) -> ProducerUnderTest:
    """It tells the sequence, and gets large transactions before their commit."""
    database = producer.database
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    database.execute(f"{TABLE}; INSERT INTO t VALUES (0, 'copied')")
    producer.publish("t")
    producer.settings["topics"] = {"source_sequence": True}
    return producer


def told(producer: ProducerUnderTest) -> list[tuple[int | None, int]]:
    """Both LSNs of the sequence of each event, in the order of positions."""
    with producer.topics() as topics:
        producer.caught_up(topics)
        events = [event for cut in topics.cuts() for event in topics.events(cut)]
    pairs = [json.loads(event.source["sequence"]) for event in sorted(events, key=lambda event: event.position)]
    return [(None if last is None else int(last), int(own)) for last, own in pairs]


def test_sequence_has_the_lsns_that_the_server_tells_of_commit_and_change_also_after_a_restart(
    telling: ProducerUnderTest,
) -> None:
    """As Debezium has it: a text of two LSNs, the end of the commit before and the place of the change. Where a session
    begins, the first is how far the one before had come."""
    telling.start_streaming()
    oracle = f"{telling.slot}_oracle"
    telling.database.rows(f"SELECT pg_create_logical_replication_slot('{oracle}', 'pgoutput')")
    for number, change in enumerate(CHANGES):
        telling.database.execute(change)
        if number == 2:
            told(telling)
            telling.kill_all()
            telling.start()
    found = told(telling)
    sent = telling.database.rows(
        "SELECT lsn::text, chr(get_byte(data, 0)) FROM pg_logical_slot_get_binary_changes("
        f"'{oracle}', NULL, NULL, 'proto_version', '1', 'publication_names', 'walbridge')"
    )
    telling.database.rows(f"SELECT pg_drop_replication_slot('{oracle}')")

    streamed = [each for each in found if each[0] is not None]
    assert len(found) - len(streamed) == 2  # the truncate that the first copy begins with, and its row
    # A key that changes is two events of one change.
    streamed = [each for before, each in pairwise([(None, 0), *streamed]) if each != before]
    places = [(parse_lsn(str(lsn)), tag) for lsn, tag in sent]
    assert [own for _, own in streamed] == [lsn for lsn, tag in places if tag in "IUDT"]
    ends = [lsn for lsn, tag in places if tag == "C"]
    before = sorted({last for last, _ in streamed if last is not None})
    assert len(before) == len(ends)
    assert len(set(before) - set(ends)) <= 2  # of two sessions
    assert all(lower < end <= upper for lower, end, upper in zip(before, ends, before[1:], strict=False))


def test_events_are_counted_in_their_transaction_and_table_also_behind_a_kill_inside_it(
    telling: ProducerUnderTest,
) -> None:
    """I4: the parts of a transaction that several batches hold are numbered as one."""
    database = telling.database
    telling.settings["topics"] = {"transaction_block": True, "transaction_topic": True, "partitions": 2}
    telling.settings["producer"] = {"batch_rows_max": 50}
    database.execute("CREATE TABLE u (id int PRIMARY KEY)")
    telling.publish("u", name="more")
    telling.settings["postgres"] = {"publications": ["walbridge", "more"]}
    telling.start_streaming().stop()
    database.execute(
        "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 60) i; INSERT INTO u SELECT generate_series(1, 40);"
        "UPDATE t SET id = -id WHERE id <= 30; DELETE FROM u WHERE id > 20; INSERT INTO t VALUES (100, 'y')"
    )
    telling.run_until_killed("produce:split:2")
    telling.start()
    database.execute("INSERT INTO u VALUES (1000)")

    with telling.topics() as topics:
        telling.caught_up(topics)
        events = [each for each in seen(topics) if each[0].position.ordinal >= 0]
        boundaries = topics.reader(transaction_topic(telling.name)).read_to_end()
    counted: Counter[tuple[str, str]] = Counter()
    for event, envelope in events:
        told, table = envelope["transaction"], event.relation.table.name
        an_id = f"{event.source['txId']}:{event.source['commit_lsn']}"
        counted[an_id, table] += 1
        assert told == {
            "id": an_id,
            "total_order": event.position.ordinal + 1,
            "data_collection_order": counted[an_id, table],
        }
    assert sorted(counted.values()) == [1, 60, 122]
    found = [(json.loads(each.key() or b""), json.loads(each.value() or b"")) for each in boundaries]
    large, small = dict.fromkeys(an_id for an_id, _ in counted)
    assert [(key["id"], told["id"], told["status"], told["event_count"]) for key, told in found] == [
        (large, large, "BEGIN", None),
        (large, large, "END", 182),
        (small, small, "BEGIN", None),
        (small, small, "END", 1),
    ]
    assert found[1][1]["data_collections"] == [
        {"data_collection": "public.t", "event_count": 122},
        {"data_collection": "public.u", "event_count": 60},
    ]
