"""DDL of which the catalogue knows only the end when the stream tells of it: of one transaction, or of an absence."""

from __future__ import annotations

import pytest

from tests.fix_pipeline import PipelineUnderTest


@pytest.mark.variant(of="test_columns_are_followed_by_their_numbers_where_they_are_told")
def test_values_of_a_column_renamed_before_the_producer_was_told_of_it_are_kept(pipeline: PipelineUnderTest) -> None:
    """I8. The catalogue knows the new name only; of another type, of the same type, beside a column that goes."""
    producer, execute = pipeline.producer, pipeline.database.execute
    for table in ("other", "same"):
        execute(f"CREATE TABLE {table} (id int PRIMARY KEY, x int); INSERT INTO {table} VALUES (1, 1), (2, 2)")
    execute("CREATE TABLE late (id int PRIMARY KEY, gone int, x int); INSERT INTO late VALUES (1, 1, 1), (2, 2, 2)")
    producer.publish("other", "same", "late")
    running = producer.start_streaming()
    for table, of in (("other", "bigint"), ("same", "int")):
        execute(
            f"ALTER TABLE {table} ADD new_x {of}; UPDATE {table} SET new_x = x * 10; ALTER TABLE {table} DROP x;"
            f"ALTER TABLE {table} RENAME new_x TO x; INSERT INTO {table} VALUES (3, 30)"
        )
    pipeline.check_equal()
    running.stop()
    execute("ALTER TABLE late DROP gone; INSERT INTO late VALUES (3, 3)")
    execute("ALTER TABLE late RENAME x TO y; INSERT INTO late VALUES (4, 4)")
    producer.start_streaming()
    pipeline.check_equal()


@pytest.mark.soak
def test_type_renamed_or_dropped_before_the_producer_was_told_is_the_type_it_was(pipeline: PipelineUnderTest) -> None:
    """I7: neither changes a value, and a stop for it could not be got past."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TYPE mood AS ENUM ('sad', 'fine'); CREATE DOMAIN price AS numeric(10,2)")
    execute("CREATE TABLE t (id int PRIMARY KEY, m mood, p price); INSERT INTO t VALUES (1, 'sad', 1.5)")
    producer.publish("t")
    producer.start_streaming().stop()
    execute("INSERT INTO t VALUES (2, 'fine', 2.5); ALTER TYPE mood RENAME TO feeling")
    execute("ALTER TABLE t DROP p; DROP DOMAIN price; INSERT INTO t VALUES (3, 'sad')")
    producer.start_streaming()
    pipeline.check_equal()
