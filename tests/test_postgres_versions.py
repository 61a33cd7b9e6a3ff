from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.postgres_versions import MAJORS, PostgresOfVersion
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.errors import OperatorError

Servers = Callable[[int], PostgresServer]


@pytest.mark.parametrize("major", MAJORS)
def test_server_is_of_the_version_asked_for_and_decodes_logically(postgres_version: Servers, major: int) -> None:
    with psycopg.connect(postgres_version(major).dsn()) as connection:
        query = "SELECT current_setting('wal_level'), datcollate FROM pg_database WHERE datname = current_database()"
        found = connection.execute(query).fetchone()

        assert (major, ("logical", "C")) == (connection.info.server_version // 10000, found)


def test_server_is_started_once(postgres_version: Servers) -> None:
    assert postgres_version(MAJORS[-1]) is postgres_version(MAJORS[-1])


def test_version_that_is_not_in_the_lock_is_refused() -> None:
    with pytest.raises(OperatorError, match="no set 'postgres-11'"):
        PostgresOfVersion(11)
