"""What several tests of faults begin with."""

from __future__ import annotations

import pytest

from tests.fix_producer import ProducerUnderTest


@pytest.fixture
def following(producer: ProducerUnderTest) -> ProducerUnderTest:
    """A pipeline that follows all tables; ``t`` is there from the beginning."""
    producer.database.execute("CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) VALUES (0)")
    producer.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    return producer
