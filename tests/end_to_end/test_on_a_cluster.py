"""The command for a Spark cluster, run as the page of commands shows it, on a master and a worker of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from tests.contract_writer import ContractWriter
from tests.documents import PAGES, ROOT, blocks
from tests.fix_spark import NO_PYTHON
from tests.spark_consumer.accounts import HISTORY
from tests.spark_consumer.program import START_S, Program, environment
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.server_process import ServerProcess, accepts, free_port
from walbridge.spark_archive import write_archive

BIN = Path(pyspark.__file__).parent / "bin"
DEPLOY = "org.apache.spark.deploy"
RUNS_S = 540
"""On an idle machine a minute: four JVMs start."""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master that has a worker with two cores; the worker's executors are ``work/*/*`` then."""
    port, web, worker_web = free_port(), free_port(), free_port()
    local = environment({"SPARK_LOCAL_DIRS": str(tmp_path / "scratch")})
    url = f"spark://127.0.0.1:{port}"
    common = [str(BIN / "spark-class")]
    begin = [*common, f"{DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
    join = [*common, f"{DEPLOY}.worker.Worker", "--host", "127.0.0.1", "--webui-port", str(worker_web)]
    join += ["--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work"), url]
    with ExitStack() as ending:
        log = tmp_path / "cluster.log"
        first = ServerProcess("Spark's master", begin, log, environ=local)
        ending.callback(first.kill)
        first.wait_until(lambda: accepts(port), START_S)
        ending.callback(ServerProcess("Spark's worker", join, log, environ=local).kill)
        wait_until(lambda: "Successfully registered" in log.read_text(), "the worker to join", START_S)
        yield url


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the command names beside the settings, and what an activated environment has on its path."""
    folder = tmp_path / "checkout"
    (folder / "bin").mkdir(parents=True)
    for name in ("docker", "spark_consumer"):
        (folder / name).symlink_to(ROOT / name)
    write_archive(folder / "dist" / "walbridge.zip")
    (folder / "bin" / "spark-submit").symlink_to(BIN / "spark-submit")
    walbridge = folder / "bin" / "walbridge"
    walbridge.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m walbridge "$@"\n')
    walbridge.chmod(0o755)
    return folder


def test_command_of_the_page_runs_the_job_on_a_cluster_whose_executors_have_no_python(
    master: str, checkout: Path, kafka: KafkaBroker, pipeline_name: str, lake: Path, tmp_path: Path
) -> None:
    """I8"""
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    writer.copy([(writer.relation("history", HISTORY, relation_id=2), [{"id": 1, "delta": 1}])])
    program = Program(kafka, pipeline_name, lake, checkout)  # writes walbridge.toml
    (command,) = blocks(PAGES["docs/commands.md"].split("\n## On a Spark cluster\n")[1])

    done = subprocess.run(
        ["bash", "-c", command.replace("spark://master:7077", master) + " --once"],
        cwd=checkout,
        env=environment(
            {
                "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                "PYSPARK_PYTHON": NO_PYTHON,
                "SPARK_HOME": str(BIN.parent),
            }
        ),
        capture_output=True,
        text=True,
        timeout=RUNS_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert program.rows("history") == [(1, 1)]
    assert shlex.split(command)[0] == "spark-submit"
    assert list((tmp_path / "work").glob("app-*/*/stderr"))  # an executor ran
