"""The README's steps to a first own database, run literally and in order, up to the first events in Kafka.

In: the indented blocks of its section. Only addresses and the pipeline's name are put in place of the
examples; passwords are typed as a person would. The verbs of the later steps, which need Spark, are
run by ``test_programs.py``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.documents import PAGES, ROOT, blocks
from tests.fix_postgres import Database
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import installed

TABLES = """
CREATE TABLE customers (id int PRIMARY KEY, name text); CREATE TABLE orders (id int PRIMARY KEY, amount numeric(10,2));
INSERT INTO customers VALUES (1, 'first'); INSERT INTO orders VALUES (7, 1.25);
"""
PASSWORD = "of-the-new-role"
STEP_S, STREAMS_S = 120.0, 60.0


@dataclass(frozen=True)
class Newcomer:
    """Somebody with a shell in an empty folder, who copies commands from the README."""

    folder: Path
    environ: dict[str, str]

    def run(self, command: str) -> str:
        """One line of a block; what it prints."""
        variable = re.fullmatch(r'([A-Z]+)="(.*)"', command)
        if variable:
            self.environ[variable[1]] = variable[2]
            return ""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environ,
            input=f"{PASSWORD}\n{PASSWORD}\n" if r"\password" in command else f"{PASSWORD}\n",
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
            start_new_session=True,  # without a terminal psql reads the password from its input
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
    """Has ``walbridge`` and ``psql`` on the path; the role goes when the test ends, whatever happened."""
    database.execute(TABLES)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (("walbridge", [sys.executable, "-m", "walbridge"]), ("psql", [installed() / "bin" / "psql"])):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n')
        (programs / name).chmod(0o755)
    environ = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    yield Newcomer(tmp_path, environ)
    if database.rows("SELECT 1 FROM pg_roles WHERE rolname = 'walbridge'"):
        database.execute("DROP OWNED BY walbridge; DROP ROLE walbridge")


def test_steps_of_the_readme_work_literally_and_in_order(
    steps: list[str], newcomer: Newcomer, database: Database
) -> None:
    _install, settings, role, topics, programs, *_ = steps
    (newcomer.folder / "walbridge.toml").write_text(settings)
    for command in role.splitlines():
        newcomer.run(command)
    stored = "SELECT rolpassword LIKE 'SCRAM%', rolsuper, rolcreatedb FROM pg_authid WHERE rolname = 'walbridge'"
    assert database.rows(stored) == [(True, False, False)]
    assert (newcomer.folder / "walbridge_password").stat().st_mode & 0o077 == 0

    *_, found = [newcomer.run(command) for command in topics.splitlines()]
    assert "errors: 0," in found

    produce = shlex.split(programs.splitlines()[0], comments=True)
    with (newcomer.folder / "log").open("wb") as log:
        running = subprocess.Popen(produce, cwd=newcomer.folder, env=newcomer.environ, stdout=log, stderr=log)
    try:
        wait_until(lambda: "event=streaming" in (newcomer.folder / "log").read_text(), "the first copy", STREAMS_S)
        assert '"key": {"id": 7}' in newcomer.run("walbridge tail public.orders")
    finally:
        running.terminate()
        running.wait(STEP_S)
    assert running.returncode == 0
