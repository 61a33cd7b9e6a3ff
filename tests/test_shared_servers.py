"""A shared server that dies fails one test, with its log, and runs again for the next."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests import shared_servers
from tests.wait import wait_until
from tests.which_servers import EMBEDDED, VARIABLE
from walbridge.embedded.postgres import PostgresServer
from walbridge.embedded.server import Server

ROOT = Path(__file__).parents[1]
RUN_S = 500


def kill(server: Server) -> None:
    """As the kernel does: the server's own object does not know of it."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: not server.running, "a killed server's end")


# Of every server the first test lets it die and finds nothing wrong itself; the next needs it.
TESTS_OF_SPARK = """\
import contextlib, threading
from walbridge.spark_consumer.jvm.jvm_shutdown import stopping_with_jvm
from tests.spark_consumer.fold.test_fold import folded_scenarios


def test_jvm_runs_out_of_memory(spark):
    assert folded_scenarios(spark)
    with contextlib.suppress(Exception):
        spark._jvm.java.nio.ByteBuffer.allocate(2**31 - 64)


def test_after_the_jvm(spark):
    assert folded_scenarios(spark)
    stop = threading.Event()
    with stopping_with_jvm(spark, stop) as hook:
        hook.start()
        assert stop.wait(60)
"""
TESTS = """\
import psycopg, pytest
from confluent_kafka.admin import AdminClient
from tests.test_shared_servers import kill


@pytest.fixture(scope="module")
def connection(postgres):
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        yield connection


def test_broker_is_killed(kafka):
    kill(kafka)


def test_after_the_broker(kafka):
    assert AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=60).brokers


def test_postgres_is_killed(database, connection):
    database.execute("CREATE TABLE t (id int)")
    kill(database.server)
    assert False, "its own failure"


def test_after_postgres(database, connection):
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
    assert database.value("SELECT 1") == 1


def test_postgres_is_killed_on_purpose(postgres):
    postgres.kill()


def test_after_the_purpose(database):
    assert database.value("SELECT 1") == 1
"""


DEATHS_OF_SPARK = {
    "jvm_runs_out_of_memory": r"the shared Spark JVM ran out of memory; its log ends with:\n(.*\n)*?"
    r".*Terminating due to java.lang.OutOfMemoryError",
}
DEATHS = {
    "broker_is_killed": r"the shared broker ended with code -9; its log ends with:\n(.*\n)*?.*Kafka Server started",
    "postgres_is_killed": r"its own failure(.*\n)*.*the shared Postgres ended with code -9; its log ends with:\n",
}


@pytest.mark.variant(of="test_server_that_cannot_start_from_its_data_starts_with_new")
@pytest.mark.servers
@pytest.mark.parametrize(
    ("written", "deaths", "living"),
    [
        pytest.param(TESTS, DEATHS, 4, id="Postgres and Kafka"),
        # Two starts of a JVM, for what only tests need.
        pytest.param(TESTS_OF_SPARK, DEATHS_OF_SPARK, 1, id="Spark", marks=pytest.mark.soak),
    ],
)
def test_server_that_dies_fails_the_test_it_died_in_and_no_other(
    tmp_path: Path, written: str, deaths: dict[str, str], living: int
) -> None:
    tests = tmp_path / "test_deaths.py"
    tests.write_text(written)
    options = ["-c", "pyproject.toml", "--rootdir", ".", "-p", "tests.conftest", "-p", "no:randomly", "-v", "-m", ""]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tests)],
        cwd=ROOT,
        env=os.environ | {VARIABLE: EMBEDDED},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    outcomes = re.findall(r"::test_(\w+) (PASSED|FAILED|ERROR)", run.stdout)
    failures = run.stdout.partition("= FAILURES =")[2]

    assert {name for name, outcome in outcomes if outcome == "FAILED"} == deaths.keys(), run.stdout + run.stderr
    assert [outcome for _, outcome in outcomes].count("PASSED") == living, run.stdout
    for words in deaths.values():
        assert re.search(words, failures), run.stdout


@pytest.mark.servers
def test_server_that_cannot_start_from_its_data_starts_with_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_servers, "LINGERING_S", 0.0)
    with PostgresServer() as server:
        (server.data / "global" / "pg_control").unlink()
        kill(server)
        shared_servers.OfData(server, "Postgres", "postgres").revive()

        with psycopg.connect(server.dsn()) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
