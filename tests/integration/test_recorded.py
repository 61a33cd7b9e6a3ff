"""Servers of every version still send what was recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.fix_postgres import new_database
from tests.in_soak import in_variants
from tests.postgres_versions import MAJORS
from tests.producer.pgoutput.record import TABLES, record, scenarios_of
from tests.producer.pgoutput.transcripts import FOLDER, described, load, masked
from walbridge.embedded.postgres import PostgresServer


@pytest.fixture
def connection(
    postgres_version: Callable[[int], PostgresServer], request: pytest.FixtureRequest
) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """To a fresh database on a server of the version that the test names."""
    with new_database(postgres_version(request.param)) as database, database.connect() as connection:
        connection.execute(TABLES.encode())
        yield connection


@pytest.mark.parametrize(
    ("connection", "name"),
    [
        (major, name) if name == "plain" or major == MAJORS[-1] else in_variants(major, name)
        for major in MAJORS
        for name in scenarios_of(major)
    ],
    indirect=["connection"],
)
def test_server_sends_what_was_recorded_of_its_version(
    connection: psycopg.Connection[tuple[object, ...]], name: str
) -> None:
    """Kinds, order and layout; LSNs, xids, oids and times are others every time."""
    major = connection.info.server_version // 10000
    expected = [message for _, message in load(FOLDER / str(major) / f"{name}.jsonl")]

    assert masked(expected) == masked(described(record(connection, name)))
