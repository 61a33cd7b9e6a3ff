"""I10: secrets and row values are where they belong and nowhere else, also on a bad night."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest

from tests.faults.canaries import Night
from tests.faults.night import Stage, spend_night
from tests.fix_postgres import new_database
from tests.test_documents import documented_metrics, shown_metrics
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer

pytestmark = pytest.mark.fault
SHOWN = (
    "the producer's log",
    "the job's log",
    "/metrics of the producer",
    "/metrics of the job",
    "/healthz of the producer",
    "/healthz of the job",
    "walbridge check",
    "walbridge status",
    "walbridge config",
    "command lines",
    "the control topics",
    "the checkpoint",
    "_cuts",
    "_status",
    "what the job left in its scratch folder",
)
DATA = ("the data topic", "the lake")


@contextlib.contextmanager
def _passwords_required(server: PostgresServer, role: str) -> Iterator[None]:
    """Of this role; all others come in as before."""
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    kinds = "".join(f"host {kind} {role} 127.0.0.1/32 scram-sha-256\n" for kind in ("all", "replication"))
    rules.write_text(kinds + before)
    _reload(server)
    try:
        yield
    finally:
        rules.write_text(before)
        _reload(server)


def _reload(server: PostgresServer) -> None:
    def loaded_at() -> object:
        with psycopg.connect(server.dsn()) as new:  # what the server's main process has read by now
            return new.execute("SELECT pg_conf_load_time()").fetchone()

    before = loaded_at()
    with psycopg.connect(server.dsn()) as admin:
        admin.execute("SELECT pg_reload_conf()")
    wait_until(lambda: loaded_at() != before, "the server to read its rules again")


@pytest.fixture(scope="module")
def night(postgres: PostgresServer, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    with new_database(postgres) as database:
        stage = Stage(database, kafka, tmp_path_factory.mktemp("night"))
        with _passwords_required(postgres, stage.role), contextlib.ExitStack() as stack:
            stack.callback(database.execute, f"DROP OWNED BY {stage.role}; DROP ROLE {stage.role}")
            stack.callback(stage.kill_all)
            yield spend_night(stage)


@pytest.mark.parametrize("place", SHOWN + DATA)
def test_no_secret_is_in(night: Night, place: str) -> None:
    assert night.leaked(place, night.canaries.secrets) == []


@pytest.mark.parametrize("place", SHOWN)
def test_no_value_of_a_row_is_in(night: Night, place: str) -> None:
    assert night.leaked(place, night.canaries.values) == []


def test_the_words_are_where_they_must_be(night: Night) -> None:
    """Else the tests above could not fail."""
    rows = {given: word for given, word in night.canaries.values.items() if "too large" not in given}
    assert len(rows) == 3
    for place in DATA:
        assert night.leaked(place, rows) == list(rows)
    assert night.canaries.secrets["a variable of ours"].encode() in night.environment
    assert b"spark.properties" in night.seen["command lines"]
    assert (True, 0o600) in night.properties_files
    assert {mode for _, mode in night.properties_files} == {0o600}


def test_what_went_wrong_that_night_was_told(night: Night) -> None:
    *passwords, row = night.refusals
    assert [words.count("(28P01)") for words in passwords] == [1, 1]
    assert "row_bytes_max" in row
    assert 'event="stream begins again"' in night.seen["the producer's log"].decode()
    assert "a table takes no more changes" in night.seen["the job's log"].decode()


@pytest.mark.parametrize("program", ["producer", "job"])
def test_program_shows_every_metric_that_readme_lists_for_it(night: Night, program: str) -> None:
    listed = {name: kind for name, kind in documented_metrics().items() if name.startswith(f"walbridge_{program}_")}

    assert shown_metrics(night.seen[f"/metrics of the {program}"].decode()) == listed
