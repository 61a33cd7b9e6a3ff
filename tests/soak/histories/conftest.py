"""A producer on a server that has what histories need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fix_postgres import having_vector, new_database
from tests.fix_producer import ProducerUnderTest
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer


@pytest.fixture
def producer_of_all(
    postgres: PostgresServer, kafka: KafkaBroker, pipeline_name: str, tmp_path: Path
) -> Iterator[ProducerUnderTest]:
    """On a server that has the extensions that some of them need."""
    with having_vector(postgres) as server, new_database(server) as database:
        made = ProducerUnderTest(pipeline_name, database, kafka, tmp_path)
        try:
            yield made
        finally:
            made.kill_all()
