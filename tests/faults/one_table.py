"""A table of one row, for a start that is refused."""

from __future__ import annotations

from tests.fix_producer import ProducerUnderTest


def make_table(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
