"""Binary values and logical messages, from Postgres to Delta."""

from __future__ import annotations

from tests.fix_pipeline import PipelineUnderTest

TABLE = """
CREATE TABLE t (id int PRIMARY KEY, at timestamptz, price numeric(10,2), tags text[], during int4range, raw bytea);
"""
ROWS = "SELECT n, now() + n * interval '1 day', n / 7.0, ARRAY[n::text, NULL], int4range(n, n + 5), '\\x00'::bytea"


def test_lake_equals_a_source_that_sends_binary_and_messages_are_no_tables(pipeline: PipelineUnderTest) -> None:
    """I8"""
    pipeline.producer.settings["postgres"] = {"binary": True, "messages": True}
    database = pipeline.database
    database.execute(f"{TABLE} INSERT INTO t {ROWS} FROM generate_series(1, 20) n")
    pipeline.producer.publish("t")
    pipeline.producer.start_streaming()
    database.execute(
        f"SELECT pg_logical_emit_message(true, 'app', 'before'); INSERT INTO t {ROWS} FROM generate_series(21, 40) n; "
        "SELECT pg_logical_emit_message(true, 'app', 'between'); DELETE FROM t WHERE id = 9; "
        "UPDATE t SET price = 'NaN', at = 'infinity' WHERE id < 5"
    )
    database.execute("SELECT pg_logical_emit_message(false, 'app', 'alone')")

    pipeline.check_equal()
    assert len(pipeline.contents("t")) == 39
