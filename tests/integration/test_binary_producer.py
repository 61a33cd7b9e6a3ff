"""``[postgres] binary = true``, with the producer as it runs."""

from __future__ import annotations

from tests.fix_producer import ProducerUnderTest, refusal_of

TABLE = """
CREATE TABLE t (
  id bigint, at timestamptz, name text, price numeric(10,2), flag bool, ratio float8, tags text[], raw bytea, day date,
  PRIMARY KEY (id, at));
"""
ROW = "n, '2024-02-29 12:00:00.5+01'::timestamptz + n * interval '1 hour'"
VALUES = (
    f"{ROW}, 'row ' || n, n / 7.0, n % 2 = 0, n / 3.0, ARRAY[n::text, NULL], '\\x00ff'::bytea, date '2024-01-01' + n"
)


def test_copied_and_streamed_rows_replay_to_the_table_until_a_column_cannot_come_in_binary(
    producer: ProducerUnderTest,
) -> None:
    """I7: the table and the column are named, though the server's own error names neither."""
    producer.settings["postgres"] = {"binary": True}
    producer.database.execute(TABLE)
    producer.database.execute(f"INSERT INTO t SELECT {VALUES} FROM generate_series(1, 50) n")
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute(f"INSERT INTO t SELECT {VALUES} FROM generate_series(51, 150) n")
    producer.database.execute("UPDATE t SET price = 'NaN', day = 'infinity' WHERE id % 10 = 0")
    producer.database.execute("UPDATE t SET id = -id WHERE id % 7 = 0; DELETE FROM t WHERE id % 9 = 0")
    producer.check_equal()

    producer.database.execute("ALTER TABLE t ADD COLUMN rights aclitem[]; INSERT INTO t SELECT 0, now()")

    words = refusal_of(running)
    assert "column rights of table public.t" in words
    assert "binary = false" in words


def test_table_that_cannot_come_in_binary_is_refused_before_there_is_a_slot(producer: ProducerUnderTest) -> None:
    producer.settings["postgres"] = {"binary": True}
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, kind regclass)")
    producer.publish("t")

    words = producer.refusal()

    assert "column kind of table public.t is or holds type regclass" in words
    assert producer.database.rows("SELECT FROM pg_replication_slots WHERE slot_name = %s", (producer.slot,)) == []
