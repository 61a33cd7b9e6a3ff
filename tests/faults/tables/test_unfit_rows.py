"""A row that Kafka would not take, or with which nothing can be done, is its table's trouble: the others flow (I7, I8).

Each remedy is followed as it is told.
"""

from __future__ import annotations

import psycopg
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.faults.followed import settings_of
from tests.faults.tables.test_table_trouble import barriers_of, progress_of, table
from tests.fix_producer import ProducerUnderTest, Running
from tests.in_soak import in_soak
from tests.wait import wait_until
from walbridge.schemas.control.table_progress import CURRENT, QUARANTINED
from walbridge.schemas.topics import data_topic
from walbridge.tables.copy import copy

pytestmark = pytest.mark.fault

SMALL, RAISED = 100_000, 10_000_000
LARGE = "repeat('x', 1000000)"
HOW = {
    "plain": "INSERT INTO u VALUES (-1, 'before'), (4242424, {large}), (-2, 'left out')",
    "update": "UPDATE u SET v = {large} WHERE id = 1",
    "key change": "UPDATE u SET id = 4242424, v = {large} WHERE id = 1",
}


@pytest.fixture
def limited(producer: ProducerUnderTest) -> ProducerUnderTest:
    """``t`` and ``u`` are followed, and small rows pass."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id serial PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v text)")
    execute("INSERT INTO u SELECT i, 'v' || i FROM generate_series(1, 20) i")
    producer.publish("t", "u")
    producer.settings["producer"] = {"row_bytes_max": SMALL}
    return producer


def check_remedy(producer: ProducerUnderTest, running: Running) -> None:
    """``walbridge copy`` alone helps nobody; with a higher limit it does."""
    execute = producer.database.execute
    running.wait_for_log("table is quarantined")
    execute("INSERT INTO t (v) VALUES (7); INSERT INTO u VALUES (50000, 'left out')")
    left = table(producer, "u")
    assert left.state == QUARANTINED
    assert f"[producer] row_bytes_max is {SMALL:,}" in str(left.why)
    assert "xxxx" not in running.log
    assert "4242424" not in running.log
    with producer.topics() as topics:
        assert 7 in [row["v"] for row in topics.replay().rows("public", "t")]
    seen = running.log.count("table is quarantined")
    assert copy(settings_of(producer), ["public.u"], wait=False, say=print) == 0
    wait_until(lambda: running.log.count("table is quarantined") > seen, "the copy to meet the row")
    assert table(producer, "u").state == QUARANTINED
    running.stop()

    producer.settings["producer"]["row_bytes_max"] = RAISED
    again = producer.start_streaming()
    assert copy(settings_of(producer), ["public.u"], wait=True, say=print) == 0
    execute(f"INSERT INTO u VALUES (50001, 'copied'), (50002, {LARGE}); INSERT INTO t (v) VALUES (8)")
    producer.check_equal()
    assert {each.state for each in progress_of(producer).tables.values()} == {CURRENT}
    again.stop()


@pytest.mark.parametrize("how", ["plain", *(pytest.param(each, marks=pytest.mark.soak) for each in [*HOW][1:])])
def test_table_of_a_row_that_is_too_large_is_quarantined_until_the_limit_is_raised_and_it_is_copied(
    limited: ProducerUnderTest, how: str
) -> None:
    running = limited.start_streaming()
    limited.check_equal()
    limited.database.execute(HOW[how].format(large=LARGE))
    check_remedy(limited, running)


@pytest.mark.variant(
    of="test_table_of_a_row_that_is_too_large_is_quarantined_until_the_limit_is_raised_and_it_is_copied"
)
@pytest.mark.parametrize("key", ["keyed", in_soak("keyless")])
def test_table_whose_large_row_a_copy_meets_is_quarantined(limited: ProducerUnderTest, key: str) -> None:
    execute = limited.database.execute
    if key == "keyless":
        execute("ALTER TABLE u DROP CONSTRAINT u_pkey; ALTER TABLE u REPLICA IDENTITY FULL")
    execute("DROP PUBLICATION walbridge; CREATE PUBLICATION walbridge FOR TABLE t")
    running = limited.start_streaming()
    execute(f"INSERT INTO u SELECT i, 'v' FROM generate_series(30, 3000) i; INSERT INTO u VALUES (3001, {LARGE})")
    execute("ALTER PUBLICATION walbridge ADD TABLE u")
    check_remedy(limited, running)


@pytest.mark.variant(
    of="test_table_of_a_row_that_is_too_large_is_quarantined_until_the_limit_is_raised_and_it_is_copied"
)
def test_table_whose_large_row_the_first_copy_meets_is_quarantined_and_the_others_are_copied(
    limited: ProducerUnderTest,
) -> None:
    limited.database.execute(f"INSERT INTO u VALUES (21, {LARGE}); INSERT INTO t (v) VALUES (1)")
    limited.database.execute("INSERT INTO u SELECT i, 'v' FROM generate_series(30, 3000) i")
    limited.settings["producer"]["batch_rows_max"] = 1000
    running = limited.start_streaming()
    check_remedy(limited, running)


@pytest.mark.variant(
    of="test_table_of_a_row_that_is_too_large_is_quarantined_until_the_limit_is_raised_and_it_is_copied"
)
@pytest.mark.parametrize("how", ["streamed", pytest.param("prepared", marks=pytest.mark.soak)])
def test_table_of_a_large_row_in_a_transaction_that_comes_before_its_commit_is_quarantined(
    limited: ProducerUnderTest, how: str
) -> None:
    """I4: the transaction is split, too."""
    database = limited.database
    if how == "streamed":
        database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    else:
        limited.settings["postgres"] = {"two_phase": True}
    limited.settings["producer"]["batch_rows_max"] = 50
    running = limited.start_streaming()
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t (v) SELECT 1 FROM generate_series(1, 200)")
        connection.execute(f"INSERT INTO u VALUES (-1, 'before'), (4242424, {LARGE}), (-2, 'left out')".encode())
        connection.execute("INSERT INTO t (v) SELECT 2 FROM generate_series(1, 200)")
        if how == "prepared":
            connection.execute("PREPARE TRANSACTION 'large'")
            connection.execute("COMMIT PREPARED 'large'")
        else:
            connection.execute("COMMIT")
    check_remedy(limited, running)


@pytest.mark.variant(of="test_healthy_pipeline_has_no_errors_and_a_topic_that_was_changed_is_put_back_by_the_command")
def test_topic_that_takes_smaller_records_by_now_takes_them_again(limited: ProducerUnderTest) -> None:
    """The broker refuses what somebody else forbade; the next session allows it."""
    limited.settings["producer"] = {}
    running = limited.start_streaming()
    limited.check_equal()
    topic = data_topic(limited.name, "public", "u")
    entry = ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": limited.kafka.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)
    random = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 30000) i)"  # little of it is compressed
    limited.database.execute(f"INSERT INTO u VALUES (100, {random}); INSERT INTO t (v) VALUES (1)")
    running.wait_for_log("topic takes larger records from here on")
    limited.check_equal()


def test_table_that_loses_its_key_over_several_partitions_is_copied_into_a_topic_of_one(
    producer: ProducerUnderTest,
) -> None:
    """I3: rows without a key have no order there. It stays in that topic, also with a key again."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
    producer.publish("t", "u")
    producer.settings["topics"] = {"partitions": 2}
    running = producer.start_streaming()
    execute("ALTER TABLE u DROP CONSTRAINT u_pkey; INSERT INTO u VALUES (2); INSERT INTO t VALUES (1)")
    copied = ["dropped", "copy_begin", "copy_end"]
    wait_until(lambda: barriers_of(producer, "u") == copied, "the table is copied again")
    assert "has no key any more, but its topic" in running.log
    execute("INSERT INTO u VALUES (2)")
    producer.check_equal()
    execute("TRUNCATE u; ALTER TABLE u ADD PRIMARY KEY (id); INSERT INTO u VALUES (1), (3)")
    assert copy(settings_of(producer), ["public.u"], wait=True, say=print) == 0
    execute("INSERT INTO u VALUES (4); DELETE FROM u WHERE id = 1")
    producer.check_equal()
    assert (table(producer, "u").state, table(producer, "u").topic) == (CURRENT, f"{producer.name}.public.u_2")


def test_table_whose_key_was_replaced_unread_over_several_partitions_is_copied_again(
    producer: ProducerUnderTest,
) -> None:
    """I3, I8: rows of before are equal in the key of now, and a delete of one would take both. Where a key of the same
    columns was made again they may have been so in between."""
    execute = producer.database.execute
    execute("CREATE TABLE u (id int PRIMARY KEY, n int NOT NULL, k int); ALTER TABLE u REPLICA IDENTITY FULL")
    execute("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); ALTER TABLE t REPLICA IDENTITY FULL")
    producer.publish("t", "u")
    producer.settings["topics"] = {"partitions": 2}
    producer.start_streaming().stop()
    for name in "tu":
        execute(f"INSERT INTO {name} (id, n) VALUES (1, 5), (2, 5), (3, 6)")
        execute(f"DELETE FROM {name} WHERE id = 1")
    execute("ALTER TABLE u DROP CONSTRAINT u_pkey; ALTER TABLE u ADD PRIMARY KEY (n)")
    execute("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id)")
    running = producer.start_streaming()
    copied = ["dropped", "copy_begin", "copy_end"]
    wait_until(lambda: [barriers_of(producer, name) for name in "tu"] == [copied] * 2, "both are copied again")
    execute("INSERT INTO u VALUES (2, 7); DELETE FROM u WHERE n = 6; UPDATE u SET n = 8 WHERE n = 5")
    execute("DELETE FROM t WHERE id = 2")
    producer.check_equal()
    assert "has another key now, which the stream does not tell" in running.log
    assert "was dropped and made again, which the stream does not tell" in running.log
