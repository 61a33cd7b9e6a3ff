from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.fix_postgres import Database
from tests.wait import wait_until
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.errors import OperatorError


def test_server_decodes_logically_and_keeps_time_in_utc(database: Database) -> None:
    assert database.value("SHOW wal_level") == "logical"
    assert database.value("SHOW timezone") == "UTC"


def test_slot_and_prepared_transaction_left_by_a_test_go_with_its_database(database: Database) -> None:
    database.execute("SELECT pg_create_logical_replication_slot('s_' || current_database(), 'pgoutput')")
    with database.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE t ()")
        connection.execute("PREPARE TRANSACTION 'left behind'")


def test_programs_of_the_server_run(database: Database) -> None:
    pgbench: list[str | Path] = [database.server.bin("pgbench"), "--initialize", "--quiet", database.dsn]
    subprocess.run(pgbench, check=True, capture_output=True)
    psql: list[str | Path] = [
        database.server.bin("psql"),
        "-XAtc",
        "SELECT count(*) FROM pgbench_tellers",
        database.dsn,
    ]

    assert subprocess.run(psql, check=True, capture_output=True, text=True).stdout == "10\n"


def test_unknown_program_is_the_operators_problem(postgres: PostgresServer) -> None:
    with pytest.raises(OperatorError, match="no program pg_nothing"):
        postgres.bin("pg_nothing")


@pytest.mark.servers
def test_committed_rows_outlive_a_kill_and_the_port_stays() -> None:
    with PostgresServer() as server:
        port = server.port
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT 1 AS a")
        server.kill()
        assert not server.running
        server.start()

        with psycopg.connect(server.dsn()) as connection:
            assert connection.execute("SELECT a FROM t").fetchone() == (1,)
        assert server.port == port


@pytest.mark.servers
def test_server_that_fails_to_start_shows_its_log_and_leaves_nothing() -> None:
    server = PostgresServer({"max_wal_senders": "nonsense"})
    folder = server.data.parent

    with pytest.raises(OperatorError, match='invalid value for parameter "max_wal_senders"'), server:
        pass
    assert not folder.exists()


@pytest.mark.servers
def test_stopped_server_leaves_no_process_and_no_data() -> None:
    with PostgresServer() as server:
        pid, folder = server.pid, server.data.parent

    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the server to be gone")
    assert not folder.exists()
