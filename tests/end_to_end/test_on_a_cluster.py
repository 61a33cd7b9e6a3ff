"""The command for a Spark cluster, run as the page of commands shows it, on a master and a worker of its own."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from deltalake import DeltaTable

from tests import jvm
from tests.contract_writer import ColumnSpec, ContractWriter
from tests.documents import PAGES, ROOT, blocks
from tests.fix_spark import NO_PYTHON
from tests.spark_consumer.program import START_S, Program, environment
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.server_process import ServerProcess, accepts, free_port
from walbridge.spark_archive import write_archive
from walbridge.spark_consumer.read import published

BIN = Path(pyspark.__file__).parent / "bin"
DEPLOY = "org.apache.spark.deploy"
REGISTERED = "Successfully registered"
ROWS, ROW_BYTES = 700, 100_000
"""More than a driver on a cluster writes by itself."""
RUNS_S = 540
"""On an idle machine a minute: four JVMs start."""


class Cluster:
    """A standalone master; a worker's executors are ``work/*/*`` then."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        self._folder, self._ending = folder, ending
        port, web = free_port(), free_port()
        self.url = f"spark://127.0.0.1:{port}"
        master = self._start(f"{DEPLOY}.master.Master", "--port", str(port), "--webui-port", str(web))
        master.wait_until(lambda: accepts(port), START_S)

    def add_worker(self) -> ServerProcess:
        """With two cores; returns when the master knows it."""
        web, work = str(free_port()), str(self._folder / "work")
        size = ["--cores", "2", "--memory", "1g", "--work-dir", work]
        log = self._folder / "cluster.log"
        before = log.read_text().count(REGISTERED)
        worker = self._start(f"{DEPLOY}.worker.Worker", "--webui-port", web, *size, self.url)
        wait_until(lambda: log.read_text().count(REGISTERED) > before, "the worker to join", START_S)
        return worker

    def _start(self, role: str, *arguments: str) -> ServerProcess:
        environ = environment({"SPARK_LOCAL_DIRS": str(self._folder / "scratch"), **jvm.variables()})
        command = [str(BIN / "spark-class"), role, "--host", "127.0.0.1", *arguments]
        started = ServerProcess(role, command, self._folder / "cluster.log", environ=environ)
        self._ending.callback(started.kill)
        return started


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A master without workers yet."""
    with ExitStack() as ending:
        yield Cluster(tmp_path, ending)


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


def test_command_of_the_page_has_executors_without_python_write_the_lake_also_where_a_worker_dies(
    cluster: Cluster, checkout: Path, kafka: KafkaBroker, pipeline_name: str, lake: Path, tmp_path: Path
) -> None:
    """I5, I8. Without a worker first: the job says so instead of waiting for ever. Then one of two dies in the plan."""
    written = copy_of_two_slices(kafka, pipeline_name)
    program = Program(kafka, pipeline_name, lake, checkout)  # writes walbridge.toml

    lonely = run_command_of_the_page(cluster, checkout, WALBRIDGE_LAKE__EXECUTOR_TIMEOUT_S="1")
    assert lonely.returncode == 2, lonely.stdout
    assert f"the Spark master {cluster.url} has given the job no executor for 1 s" in lonely.stdout
    assert "see on the master's page that workers are alive" in lonely.stdout
    assert "Traceback" not in lonely.stdout

    workers = [cluster.add_worker() for _ in range(2)]
    with started_command_of_the_page(cluster, checkout) as running:
        wait_until(lambda: running.poll() is not None or (lake / "public" / "wide").exists(), "the plan", START_S)
        workers[0].kill()
        said = running.communicate(timeout=RUNS_S)[0]
    assert running.returncode == 0, said
    assert "executors write to the lake what is large" in said
    assert sorted(program.rows("wide")) == [(row["id"], row["body"]) for row in written]
    assert list((tmp_path / "work").glob("app-*/*/stderr"))  # an executor ran
    history = DeltaTable(lake / "public" / "wide").history()
    assert any("Apache-Spark" in each["engineInfo"] for each in history)


@pytest.mark.soak
def test_executors_with_a_disk_of_their_own_publish_nothing_until_the_lake_is_mounted(
    cluster: Cluster, checkout: Path, kafka: KafkaBroker, pipeline_name: str, lake: Path
) -> None:
    """I8: each process sees another folder behind the first path, as where a mount is missing."""
    written = copy_of_two_slices(kafka, pipeline_name)
    program = Program(kafka, pipeline_name, lake, checkout)
    cluster.add_worker()
    asked = {"WALBRIDGE_LAKE__APPLIER": "spark"}

    apart = run_command_of_the_page(cluster, checkout, WALBRIDGE_LAKE__PATH="/proc/self/cwd/lake", **asked)
    assert apart.returncode == 2, apart.stdout
    assert "Spark's executors wrote to another disk than the driver's" in apart.stdout
    assert "driver and executors: 127.0.0.1" in apart.stdout
    assert "mount the lake at the same path on each of these hosts" in apart.stdout
    assert published(str(checkout / "lake")) == []

    mounted = run_command_of_the_page(cluster, checkout, **asked)
    assert mounted.returncode == 0, mounted.stdout
    assert sorted(program.rows("wide")) == [(row["id"], row["body"]) for row in written]


def copy_of_two_slices(kafka: KafkaBroker, pipeline_name: str) -> list[dict[str, Any]]:
    """Which is what executors write."""
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    written = [{"id": number, "body": random.Random(number).randbytes(ROW_BYTES // 2).hex()} for number in range(ROWS)]
    writer.copy(
        [(writer.relation("wide", [ColumnSpec("id", "int4"), ColumnSpec("body", "text")], relation_id=2), written)]
    )
    return written


def run_command_of_the_page(cluster: Cluster, checkout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The page's spark-submit, on this cluster, to the present end of the log; stderr is in stdout."""
    with started_command_of_the_page(cluster, checkout, **variables) as running:
        said, _ = running.communicate(timeout=RUNS_S)
    return subprocess.CompletedProcess([], running.returncode, said, "")


@contextmanager
def started_command_of_the_page(cluster: Cluster, checkout: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """The same, killed should the block fail."""
    (command,) = blocks(PAGES["docs/commands.md"].split("\n## On a Spark cluster\n")[1])
    assert shlex.split(command)[0] == "spark-submit"
    running = subprocess.Popen(
        ["bash", "-c", "exec " + command.strip().replace("spark://master:7077", cluster.url) + " --once"],
        cwd=checkout,
        env=environment(
            {
                "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                "PYSPARK_PYTHON": NO_PYTHON,
                "SPARK_HOME": str(BIN.parent),
                **jvm.variables(),
                **variables,
            }
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()
