"""What an operator can get wrong, in one table: one sentence, one remedy, exit code 2, no traceback.

Servers are needed by none of these: each is noticed before anything is made or changed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import walbridge
from tests.forked_command import run_command
from walbridge.embedded.jars import spark_jars

REPOSITORY = Path(walbridge.__file__).parents[1]
SECRET = "hunter2-canary"
NOBODY = "host=127.0.0.1 port=1 dbname=d user=u"
PORTS_FREE = "[metrics]\nproducer_port = 0\njob_port = 0\n"


@dataclass(frozen=True)
class Mistake:
    """Settings and variables of a start, and words that its error and remedy must have."""

    verb: str
    settings: str
    error: str
    remedy: str
    environ: tuple[tuple[str, str], ...] = ()


MISTAKES = {
    "not TOML": Mistake("produce", "name = ", "is not TOML", "mend that line"),
    "unknown setting": Mistake(
        "produce", "[postgres]\nslots = 'x'\n", "postgres.slots: unknown setting", "docs/settings.md"
    ),
    "unknown variable": Mistake(
        "produce",
        "",
        "unknown environment variable WALBRIDGE_POSTGRES__SLOTS",
        "unset it",
        (("WALBRIDGE_POSTGRES__SLOTS", "x"),),
    ),
    "slot name that Postgres refuses": Mistake(
        "produce", "[postgres]\nslot = 'A b'\n", "postgres.slot", "docs/settings.md"
    ),
    "pipeline name with a dot": Mistake("produce", "name = 'a.b'\n", "name", "docs/settings.md"),
    "number out of range": Mistake(
        "produce", "[producer]\nbatch_rows_max = 0\n", "producer.batch_rows_max", "docs/settings.md"
    ),
    "no database named": Mistake("produce", PORTS_FREE, "no database is named", "[postgres] dsn"),
    "password of two words without quotes": Mistake(
        "produce",
        f"{PORTS_FREE}[postgres]\ndsn = 'host=h password=two {SECRET}'\n",
        "dsn is not a connection string",
        "in quotes",
    ),
    "stray @ in a password": Mistake(
        "produce",
        f"{PORTS_FREE}[postgres]\ndsn = 'postgresql://u:p@{SECRET}@127.0.0.1:1/d'\n",
        "dsn is not a connection string",
        "percent-encoded",
    ),
    "closed database": Mistake(
        "produce",
        f"{PORTS_FREE}[postgres]\ndsn = '{NOBODY} password={SECRET}'\nstart_timeout_s = 1\n",
        "cannot be reached",
        "",
    ),
    "closed database at init": Mistake(
        "init", f"[postgres]\ndsn = '{NOBODY} password={SECRET}'\nstart_timeout_s = 1\n", "cannot be reached", ""
    ),
    "closed broker at tail": Mistake(
        "tail public.t",
        "[kafka]\nbootstrap_servers = '127.0.0.1:1'\n[postgres]\nstart_timeout_s = 1\n",
        "Kafka at 127.0.0.1:1",
        "",
    ),
    "unknown property of librdkafka": Mistake(
        "tail public.t", "[kafka.client]\n'no.such.property' = 'x'\n", "[kafka.client] is not accepted", "mend that"
    ),
    "value that librdkafka does not take": Mistake(
        "tail public.t", f"[kafka.client]\n'security.protocol' = '{SECRET}'\n", '"security.protocol"', "mend that"
    ),
    "lake inside a file": Mistake(
        "materialize", f"{PORTS_FREE}[lake]\npath = 'walbridge.toml/lake'\n", "cannot be written", "[lake] path"
    ),
    "folder without jars": Mistake(
        "materialize", f"{PORTS_FREE}[spark]\njars_dir = 'nowhere'\n", "not in nowhere", "walbridge jars"
    ),
    "closed broker at materialize": Mistake(
        "materialize",
        f"{PORTS_FREE}[kafka]\nbootstrap_servers = '127.0.0.1:1'\n[lake]\nstart_timeout_s = 1\n",
        "Kafka cannot be reached (127.0.0.1:1: Connection refused)",
        "start the broker",
    ),
    "broker without a port": Mistake(
        "materialize", f"{PORTS_FREE}[kafka]\nbootstrap_servers = 'kafka'\n", "not host:port", "host:port,"
    ),
    "no settings file": Mistake("verify --config nowhere.toml", "", "nowhere.toml cannot be read", "--config"),
}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in os.environ:
        if variable.startswith("WALBRIDGE_") and variable not in ("WALBRIDGE_HOME", "WALBRIDGE_JAVA"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def start(verb: str, settings: str, environ: tuple[tuple[str, str], ...] = ()) -> subprocess.CompletedProcess[str]:
    Path("walbridge.toml").write_text(settings)
    return run_command(*verb.split(), environ=os.environ | dict(environ))


def refused(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """The error and its remedy, one line each; nothing else but log lines, and no secret (I10)."""
    said = done.stderr.splitlines()
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr
    errors = [line for line in said if line.startswith("error: ")]
    remedies = [line for line in said if line.startswith("remedy: ")]
    assert len(errors) == len(remedies) == 1, done.stderr
    return errors[0], remedies[0]


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_operators_mistake_is_one_sentence_and_its_remedy(mistake: Mistake) -> None:
    error, remedy = refused(start(mistake.verb, mistake.settings, mistake.environ))

    assert mistake.error in error
    assert mistake.remedy in remedy


@pytest.mark.parametrize(("verb", "setting"), [("produce", "producer_port"), ("materialize", "job_port")])
def test_port_that_is_taken_is_refused_before_anything_is_asked(verb: str, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error, remedy = refused(start(verb, f"[postgres]\ndsn = '{NOBODY}'\n[metrics]\n{setting} = {port}\n"))

    assert str(port) in error
    assert setting in remedy


def test_job_without_java_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    jars = f"[spark]\njars_dir = '{spark_jars()[0].parent}'\n"
    Path("walbridge.toml").write_text(PORTS_FREE + jars)
    command = [sys.executable, "-m", "spark_consumer"]
    environ = os.environ | {"JAVA_HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env=environ)
    error, remedy = refused(done)

    assert f"no Java in JAVA_HOME, {tmp_path}" in error
    assert "install Java 17 or 21" in remedy
