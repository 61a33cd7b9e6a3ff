"""A wheel, installed with each extra into its own environment, follows a database: no checkout is near."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fix_postgres import Database
from tests.programs import ROOT, Programs
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker

LOCKS = {"producer": "requirements-producer.lock", "all": "requirements-spark.lock"}
"""Extra → what it is installed from, as the images do it."""
PACKED = ("producer", "schemas", "spark_consumer", "walbridge", "pyproject.toml", "README.md", "LICENSE")
ARRIVES_S = 300.0
"""A JVM starts first."""
STOP_S = 60.0

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for name in PACKED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, sources / name)
    _pip(Path(sys.prefix), "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(sources))
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environments(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By extra."""
    made = {extra: tmp_path_factory.mktemp(extra) for extra in LOCKS}
    for extra, lock in LOCKS.items():
        subprocess.run([sys.executable, "-m", "venv", str(made[extra])], check=True)
        for requirements in ("requirements-build.lock", lock):
            _pip(made[extra], "install", "--require-hashes", "--no-build-isolation", "-r", str(ROOT / requirements))
        _pip(made[extra], "install", "--no-deps", "--no-index", str(wheel))
    return made


def _pip(venv: Path, *arguments: str) -> None:
    done = subprocess.run(
        [str(venv / "bin" / "python"), "-m", "pip", "--quiet", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def programs(environments: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    without_spark = dict.fromkeys(("init", "produce", "status", "check", "tables"), environments["producer"])
    made = Programs(tmp_path, without_spark | dict.fromkeys(("materialize", "verify"), environments["all"]))
    yield made
    for process in made.started:
        made.kill(process)


def test_wheel_with_each_extra_follows_a_database(
    programs: Programs, database: Database, kafka: KafkaBroker, pipeline_name: str, lake: Path
) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, v text); INSERT INTO orders VALUES (1, 'one')")
    programs.config.write_text(
        f'name = "{pipeline_name}"\n'
        f'[postgres]\ndsn = "{database.dsn}"\nslot = "{pipeline_name}"\npublication_tables = ["public.orders"]\n'
        f'[kafka]\nbootstrap_servers = "{kafka.bootstrap_servers}"\n'
        f'[lake]\npath = "{lake}"\n[spark]\nmaster = "local[2]"\n'
    )
    made = programs.run("init")
    assert made.returncode == 0, made.stderr
    started = {verb: programs.start(verb) for verb in ("produce", "materialize")}
    wait_until(lambda: any((lake / "_cuts").glob("*.parquet")), "a published cut", ARRIVES_S)
    database.execute("INSERT INTO orders VALUES (2, 'two')")

    verified = programs.run("verify", "--timeout", "240", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert len(json.loads(verified.stdout)["tables"]) == 1
    for verb in ("status", "tables"):
        told = programs.run(verb)
        assert told.returncode == 0, told.stdout + told.stderr
    for verb, process in started.items():
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0, programs.log(verb)[-3000:]


def test_verb_without_its_packages_names_the_extra_that_brings_them(
    environments: dict[str, Path], tmp_path: Path
) -> None:
    programs = Programs(tmp_path, {"materialize": environments["producer"]})
    programs.config.write_text('name = "none"\n')
    refused = programs.run("materialize")
    assert refused.returncode == 2
    assert "pip install '.[spark]'" in refused.stderr + refused.stdout
