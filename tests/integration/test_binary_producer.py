"""``[postgres] binary = true``, with the producer as it runs."""

from __future__ import annotations

import pytest

from tests.fix_producer import ProducerUnderTest, refusal_of

TABLE = """
CREATE TYPE pair AS (a int, b text);
CREATE TABLE t (
  id bigint, at timestamptz, name text, price numeric(10,2), flag bool, ratio float8, tags text[], raw bytea, day date,
  pair pair, PRIMARY KEY (id, at));
"""
ROW = "n, '2024-02-29 12:00:00.5+01'::timestamptz + n * interval '1 hour'"
VALUES = (
    f"{ROW}, 'row ' || n, n / 7.0, n % 2 = 0, n / 3.0, ARRAY[n::text, NULL], '\\x00ff'::bytea, "
    "date '2024-01-01' + n, (n, 'b')::pair"
)


@pytest.mark.variant(of="test_lake_equals_a_source_that_sends_binary_and_messages_are_no_tables")
def test_copied_and_streamed_rows_replay_to_the_table(producer: ProducerUnderTest) -> None:
    """Until a column cannot come in binary any more, which no Relation tells: then table and column are named (I7)."""
    producer.settings["postgres"] = {"binary": True}
    producer.database.execute(TABLE)
    producer.database.execute(f"INSERT INTO t SELECT {VALUES} FROM generate_series(1, 50) n")
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute(f"INSERT INTO t SELECT {VALUES} FROM generate_series(51, 150) n")
    producer.database.execute("UPDATE t SET price = 'NaN', day = 'infinity' WHERE id % 10 = 0")
    producer.database.execute("UPDATE t SET id = -id WHERE id % 7 = 0; DELETE FROM t WHERE id % 9 = 0")
    producer.check_equal()

    producer.database.execute("ALTER TYPE pair ADD ATTRIBUTE rights aclitem[]")
    producer.database.execute("INSERT INTO t (id, at, pair) VALUES (0, now(), '(1,x,{=r/postgres})')")

    words = refusal_of(running)
    assert "column pair of table public.t is or holds type aclitem" in words
    assert "binary = false" in words


def test_table_that_cannot_come_in_binary_is_refused_before_there_is_a_slot(producer: ProducerUnderTest) -> None:
    producer.settings["postgres"] = {"binary": True}
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, kind regclass)")
    producer.publish("t")

    words = producer.refusal()

    assert "column kind of table public.t is or holds type regclass" in words
    assert producer.database.rows("SELECT FROM pg_replication_slots WHERE slot_name = %s", (producer.slot,)) == []
