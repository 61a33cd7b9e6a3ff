"""A newcomer's walk: the README's steps to a first own database, run literally and in order, to a verified lake.

In: the indented blocks of its section. Only addresses and the pipeline's name are put in place of the examples.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.documents import PAGES, ROOT, blocks
from tests.fix_postgres import Database
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.server_process import free_port

TABLES = """
CREATE TABLE customers (id int PRIMARY KEY, name text); CREATE TABLE orders (id int PRIMARY KEY, amount numeric(10,2));
INSERT INTO customers VALUES (1, 'first'); INSERT INTO orders VALUES (7, 1.25);
"""
STEP_S, COPIED_S = 120.0, 120.0


@dataclass(frozen=True)
class Newcomer:
    """Somebody with a shell in an empty folder, who copies commands from the README."""

    folder: Path
    environ: dict[str, str]

    def run(self, command: str) -> str:
        """One line of a block; what it prints."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def steps(database: Database, kafka: KafkaBroker, pipeline_name: str) -> list[str]:
    """The blocks, with this test's servers in place of the examples."""
    section = PAGES["README.md"].split("\n## Your own database\n")[1].split("\n## ")[0]
    at = psycopg.conninfo.conninfo_to_dict(database.dsn)
    for example, ours in (
        ("host=db.internal dbname=shop", f"host={at['host']} port={at['port']} dbname={database.name}"),
        ("kafka1:9092,kafka2:9092", kafka.bootstrap_servers),
        ('name = "shop"', f'name = "{pipeline_name}"'),
    ):
        assert example in section
        section = section.replace(example, ours)
    return blocks(section)


@pytest.fixture
def newcomer(tmp_path: Path, database: Database) -> Iterator[Newcomer]:
    """Has ``walbridge`` on the path; the role goes when the test ends, whatever happened."""
    database.execute(TABLES)
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "walbridge"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-m", "walbridge"])} "$@"\n')
    program.chmod(0o755)
    environ = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    yield Newcomer(tmp_path, environ)
    if database.rows("SELECT 1 FROM pg_roles WHERE rolname = 'walbridge'"):
        database.execute("DROP OWNED BY walbridge; DROP ROLE walbridge")


@contextlib.contextmanager
def running(newcomer: Newcomer, commands: str, log_name: str = "log") -> Iterator[None]:
    """Programs, one a line, until the block ends; then they stop in order."""
    started = []
    try:
        for number, command in enumerate(commands.splitlines()):
            with (newcomer.folder / f"{log_name}-{number}").open("wb") as log:
                words = shlex.split(command, comments=True)
                started.append(
                    subprocess.Popen(words, cwd=newcomer.folder, env=newcomer.environ, stdout=log, stderr=log)
                )
        yield
        for process in started:
            process.terminate()
        assert {process.wait(STEP_S) for process in started} == {0}
    finally:
        for process in started:
            process.kill()
            process.wait()


def is_answered(port: int) -> bool:
    """Whether a page is served there, and not only refused."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=STEP_S) as page:
            return b"<html" in page.read()
    except OSError:
        return False


def test_steps_of_the_readme_work_literally_and_in_order(
    steps: list[str], newcomer: Newcomer, database: Database
) -> None:
    """I8: to an own, verified database."""
    _install, settings, make, programs, watch, read, _python = steps
    (newcomer.folder / "walbridge.toml").write_text(settings)
    *_, found = [newcomer.run(command) for command in make.splitlines()]
    assert "errors: 0," in found
    stored = "SELECT rolpassword LIKE 'SCRAM%', rolsuper, rolcreatedb FROM pg_authid WHERE rolname = 'walbridge'"
    assert database.rows(stored) == [(True, False, False)]

    def is_published() -> bool:
        return "event=published" in (newcomer.folder / "log-1").read_text()

    with running(newcomer, programs):
        wait_until(is_published, "the first copy in the lake", COPIED_S)
        status, verify, page = watch.splitlines()
        assert newcomer.run(status).count("current since") == 2
        assert newcomer.run(verify).count(" equal ") == 2
        port = free_port()
        with running(newcomer, page.replace("#", f"--port {port} #"), "page"):
            wait_until(lambda: is_answered(port), "the status page", STEP_S)
        assert re.search(r"\b1\b", newcomer.run(read))
