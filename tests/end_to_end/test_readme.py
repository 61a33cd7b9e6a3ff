"""A newcomer's walk: the README's steps to a first own database, run literally and in order, to a verified lake.

In: the indented blocks of its section. Only addresses and the pipeline's name are put in place of the examples. ``make
soak`` begins with an empty machine, and does the same with the tutorial.
"""

from __future__ import annotations

import re
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.documents import PAGES, blocks
from tests.end_to_end.newcomer import COPIED_S, STEP_S, Newcomer, on_an_empty_machine, with_this_checkout
from tests.fix_postgres import Database
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.server_process import free_port

TABLES = """
CREATE TABLE customers (id int PRIMARY KEY, name text); CREATE TABLE orders (id int PRIMARY KEY, amount numeric(10,2));
INSERT INTO customers VALUES (1, 'first'); INSERT INTO orders VALUES (7, 1.25);
"""
TYPED_MAX_MIN = 10.0


@pytest.fixture
def own(database: Database, kafka: KafkaBroker, pipeline_name: str) -> Iterator[dict[str, str]]:
    """This test's servers, by the examples of the documents; the role goes when the test ends, whatever happened."""
    at = psycopg.conninfo.conninfo_to_dict(database.dsn)
    address = f"host={at['host']} port={at['port']} dbname={database.name}"
    yield {
        "host=db.internal dbname=shop": address,
        "host=127.0.0.1 dbname=shop": address,
        "kafka1:9092,kafka2:9092": kafka.bootstrap_servers,
        '"127.0.0.1:9092"': f'"{kafka.bootstrap_servers}"',
        'name = "shop"': f'name = "{pipeline_name}"',
        "topic shop.": f"topic {pipeline_name}.",
        "topic        shop.": f"topic        {pipeline_name}.",
        "pipeline shop:": f"pipeline {pipeline_name}:",
    }
    if database.rows("SELECT 1 FROM pg_roles WHERE rolname = 'walbridge'"):
        database.execute("DROP OWNED BY walbridge; DROP ROLE walbridge")


@pytest.fixture
def steps(own: dict[str, str]) -> list[str]:
    """The README's blocks, with this test's servers in place of the examples."""
    section = with_own(PAGES["README.md"].split("\n## Your own database\n")[1].split("\n## ")[0], own)
    return blocks(section)


def with_own(text: str, own: dict[str, str]) -> str:
    """Text of a document with this test's servers."""
    for example, ours in own.items():
        text = text.replace(example, ours)
    return text


def is_answered(port: int) -> bool:
    """Whether a page is served there, and not only refused."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=STEP_S) as page:
            return b"<html" in page.read()
    except OSError:
        return False


def test_steps_of_the_readme_work_literally_and_in_order(steps: list[str], database: Database, tmp_path: Path) -> None:
    """I8: to an own, verified database."""
    walk(with_this_checkout(tmp_path), steps, database)


@pytest.mark.soak
def test_newcomer_on_an_empty_machine_has_a_verified_database_within_ten_minutes_of_typing(
    steps: list[str], database: Database
) -> None:
    """From the first step on; what is downloaded and copied meanwhile takes its time."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        newcomer = on_an_empty_machine(Path(folder), steps[0])
        set_up_s = time.monotonic() - began_s
        walk(newcomer, steps, database)
        newcomer.run(f"python - <<'END'\n{steps[-1]}\nEND")
    print(f"{newcomer.effort}; {set_up_s:.0f} s of set-up, {time.monotonic() - began_s:.0f} s in all")
    assert newcomer.minutes <= TYPED_MAX_MIN


def walk(newcomer: Newcomer, steps: list[str], database: Database) -> None:
    """From step 2 on."""
    database.execute(TABLES)
    _install, settings, make, programs, watch, read, _python = steps
    newcomer.write("walbridge.toml", settings)
    *_, found = [newcomer.run(command) for command in make.splitlines()]
    assert "errors: 0," in found
    stored = "SELECT rolpassword LIKE 'SCRAM%', rolsuper, rolcreatedb FROM pg_authid WHERE rolname = 'walbridge'"
    assert database.rows(stored) == [(True, False, False)]
    with newcomer.running(programs):
        wait_until(lambda: "event=published" in newcomer.log(1), "the first copy in the lake", COPIED_S)
        status, verify, page = watch.splitlines()
        assert newcomer.run(status).count("current since") == 2
        assert newcomer.run(verify).count(" equal ") == 2
        port = free_port()
        with newcomer.running(page.replace("#", f"--port {port} #"), "page"):
            wait_until(lambda: is_answered(port), "the status page", STEP_S)
        assert re.search(r"\b1\b", newcomer.run(read))
