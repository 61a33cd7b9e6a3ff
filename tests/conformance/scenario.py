"""What happens at the source of the conformance set: everything that a reader of the topics has to know about.

In: a producer of a fresh database, not started. Out: topics that hold it all.
Each step waits for a cut that covers it, so the order of the records is the same in every run, but for the copies.
"""

from __future__ import annotations

from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until

TABLES = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE orders (id int PRIMARY KEY, customer text NOT NULL, amount numeric(10,2), due date, at timestamptz,
    seen timestamp, tags text[], big text, raw bytea, feeling mood, total bigint, ratio float8, paid bool, note jsonb,
    length numeric, span int4range);
ALTER TABLE orders ALTER big SET STORAGE EXTERNAL;
CREATE TABLE log (at int, note text);
ALTER TABLE log REPLICA IDENTITY FULL;
CREATE TABLE days (day date PRIMARY KEY, note text);
CREATE TABLE later (id bigint PRIMARY KEY, note text, big text);
ALTER TABLE later ALTER big SET STORAGE EXTERNAL;
CREATE TABLE stays (room text, day date, guest text NOT NULL, big text, PRIMARY KEY (room, day));
ALTER TABLE stays ALTER big SET STORAGE EXTERNAL;
CREATE TABLE notes (id int PRIMARY KEY, v text);
INSERT INTO orders (id, customer, amount, big) SELECT i, 'customer ' || i, i / 4.0, repeat('x', 2100) FROM
    generate_series(1, 5) i;
INSERT INTO log VALUES (1, 'first'), (1, 'first'), (2, NULL);
INSERT INTO days VALUES ('2024-02-29', 'leap'), ('infinity', 'the last');
INSERT INTO stays VALUES ('1', '2024-05-06', 'a', repeat('z', 2100)), ('2', 'infinity', 'b', NULL),
    ('3', '2024-05-06', 'c', NULL);
INSERT INTO notes VALUES (1, 'before'), (2, 'before');
INSERT INTO later SELECT i, 'row ' || i, repeat('y', 2100) FROM generate_series(1, 20) i;
"""

STEPS = (
    # Every type once with a value, once without; and values that the Avro types cannot hold.
    """INSERT INTO orders VALUES
    (10, 'é😀', 12.50, '2024-05-06', '2024-05-06 07:08:09.123456+02', '2024-05-06 07:08:09.1', '{a,NULL,b}', 'big',
     '\\x00ff', 'ok', 9007199254740993, 0.5, true, '{"a": [1, null]}', 1234567890.0123456789, '[1,5)'),
    (11, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (12, 'exceptional', 'NaN', 'infinity', '-infinity', '10000-01-01', '{{a},{b}}', repeat('z', 2100), '', 'sad',
     -9223372036854775808, -1.25, false, 'null', 'Infinity', 'empty'),
    (13, 'old', -0.05, '0001-01-01', '1969-12-31 23:59:59.999999+00', '0001-01-01 00:00:00', '{}', NULL, NULL, NULL,
     -1, 0, NULL, NULL, 0.000, NULL)""",
    # Values that are stored out of line and left alone are not sent.
    "UPDATE orders SET amount = amount + 1 WHERE id IN (1, 12)",
    "UPDATE orders SET due = '2024-12-31', amount = 1, big = 'small' WHERE id = 12",
    # A key that changes, with such a value; and twice in one transaction.
    "UPDATE orders SET id = 20 WHERE id = 2; UPDATE orders SET id = 21, big = NULL WHERE id = 3",
    "UPDATE orders SET id = 30 WHERE id = 20; UPDATE orders SET id = 31 WHERE id = 30; UPDATE orders SET paid = true "
    "WHERE id = 31",
    "DELETE FROM orders WHERE id IN (4, 11)",
    # A key that its Avro type cannot hold.
    "INSERT INTO days VALUES ('10000-01-01', 'a key'), ('-infinity', NULL); "
    "UPDATE days SET note = 'x' WHERE day = 'infinity'; "
    "UPDATE days SET day = '2024-03-01' WHERE day = '10000-01-01'; DELETE FROM days WHERE day = '-infinity'",
    # A table without a key: equal rows are rows of their own.
    "INSERT INTO log VALUES (3, 'x'), (3, 'x'), (3, 'x')",
    "DELETE FROM log WHERE ctid = (SELECT min(ctid) FROM log WHERE at = 3)",
    "UPDATE log SET note = 'changed' WHERE ctid = (SELECT min(ctid) FROM log WHERE at = 1)",
    # One transaction that several Kafka transactions hold.
    "INSERT INTO orders (id, customer) SELECT 100 + i, 'split' FROM generate_series(1, 50) i; "
    "INSERT INTO log SELECT i, 'split' FROM generate_series(1, 12) i; UPDATE orders SET total = id WHERE id > 140; "
    "DELETE FROM orders WHERE id BETWEEN 110 AND 130",
    # Other columns: added, renamed, dropped, and of another precision alone.
    "ALTER TABLE orders ADD COLUMN extra int; UPDATE orders SET extra = 7 WHERE id = 10",
    "ALTER TABLE orders RENAME COLUMN customer TO client; UPDATE orders SET extra = 8 WHERE id = 1",
    "ALTER TABLE orders ALTER amount TYPE numeric(12,2); INSERT INTO orders (id, client, amount) VALUES (40, 'c', "
    "9999999999.99)",
    "ALTER TABLE orders DROP COLUMN feeling; UPDATE orders SET extra = 9 WHERE id = 10",
    # What older rows have in a new column comes as no change of theirs; of a table without a key old rows show it.
    "ALTER TABLE orders ADD COLUMN level int DEFAULT 3, ADD COLUMN until date DEFAULT 'infinity', ADD bare text; "
    "UPDATE orders SET level = 4 WHERE id = 10; INSERT INTO orders (id, client, level) VALUES (41, 'after', NULL)",
    "ALTER TABLE orders ALTER level SET DEFAULT 5, ADD COLUMN rate numeric(6,2) DEFAULT 1.50; "
    "UPDATE orders SET paid = true WHERE id = 41",
    "ALTER TABLE log ADD COLUMN label text DEFAULT 'older'; "
    "DELETE FROM log WHERE ctid = (SELECT min(ctid) FROM log WHERE at = 1); INSERT INTO log VALUES (10, 'x', 'newer')",
    "TRUNCATE days; INSERT INTO days VALUES ('2025-01-01', 'after')",
    "BEGIN; INSERT INTO days VALUES ('2025-01-02', 'gone'); ROLLBACK; INSERT INTO log VALUES (9, 'committed')",
    # Columns of a key that are renamed, the second one to what the first was called; and a table.
    "ALTER TABLE stays RENAME room TO door; INSERT INTO stays VALUES ('4', '-infinity', 'd'); "
    "UPDATE stays SET guest = 'B' WHERE door = '2'",
    "ALTER TABLE stays RENAME day TO room; UPDATE stays SET room = '2024-05-07' WHERE door = '1'; "
    "DELETE FROM stays WHERE door = '4'; INSERT INTO stays VALUES ('5', '2024-05-06', 'e')",
    "ALTER TABLE stays RENAME TO visits; UPDATE visits SET guest = 'C' WHERE door = '3'",
    # A table that is made again with the name of one that is gone.
    "UPDATE notes SET v = 'changed' WHERE id = 1; DROP TABLE notes",
)
BEFORE_THE_COPY = "UPDATE later SET note = 'before' WHERE id < 3; ALTER PUBLICATION walbridge ADD TABLE later"
BESIDE_IT = (  # the copy takes a tenth of a second: some of them come before its end
    "UPDATE later SET note = 'meanwhile' WHERE id = 5",
    "DELETE FROM later WHERE id = 6",
    "UPDATE later SET id = 106 WHERE id = 7",
    "INSERT INTO later VALUES (21, 'new', NULL)",
)
OUT_OF_SIGHT = (  # what is deleted meanwhile is told by the end of the copies that follow
    "ALTER PUBLICATION walbridge DROP TABLE days, log",
    "DELETE FROM days; INSERT INTO days VALUES ('2025-01-03', 'stays'); DELETE FROM log WHERE at = 3; "
    "ALTER PUBLICATION walbridge ADD TABLE days, log",
)
OTHERS_OF_THEIR_NAMES = (  # another key, and another table
    "ALTER TABLE visits DROP CONSTRAINT stays_pkey, ADD PRIMARY KEY (guest); "
    "UPDATE visits SET door = '50' WHERE guest = 'e'",
    "CREATE TABLE notes (id int PRIMARY KEY, more int); INSERT INTO notes VALUES (2, 20), (3, 30); "
    "ALTER PUBLICATION walbridge ADD TABLE notes",
)
COPIES = 5
AT_THE_END = (
    "UPDATE orders SET paid = false WHERE id = 10; UPDATE later SET note = 'end' WHERE id = 106; "
    "UPDATE visits SET guest = 'end' WHERE guest = 'a'; UPDATE notes SET more = NULL WHERE id = 3"
)
NAMES = ("public.days", "public.later", "public.log", "public.notes", "public.orders", "public.visits")


def play(producer: ProducerUnderTest, **topics_settings: str) -> None:
    """Everything, and the producer has stopped."""
    execute = producer.database.execute
    execute(TABLES)
    producer.publish("orders", "log", "days", "stays", "notes")
    producer.settings |= {
        "topics": {"partitions": 2, "tombstones": True, **topics_settings},
        "producer": {"batch_rows_max": 20, "idle_cut_interval_ms": 1000},
    }
    running = producer.start_streaming()
    with producer.topics() as topics:
        for step in STEPS:
            execute(step)
            producer.caught_up(topics)
        execute(BEFORE_THE_COPY)
        with producer.database.connect() as connection:
            running.wait_for_log("copy of a table begins")
            for step in BESIDE_IT:
                connection.execute(step.encode())
        for step in (*OUT_OF_SIGHT, *OTHERS_OF_THEIR_NAMES):
            execute(step)
            producer.caught_up(topics)
        wait_until(lambda: running.log.count("table is copied") == COPIES, "the copies")
        execute(AT_THE_END)
        producer.caught_up(topics)
    running.stop()
