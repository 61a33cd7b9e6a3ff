"""``python -m spark_consumer`` and spark-submit as an operator meets them: processes, signals, exit codes."""

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable, QueryBuilder

from schemas.metadata_record import RelationRecord
from spark_consumer.read import published
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.faults.kill_points import JOB_PROCESS
from tests.wait import wait_until
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.java import find_java
from walbridge.embedded.kafka import KafkaBroker

ROOT = Path(__file__).parents[2]
NO_PYTHON = "/nonexistent/python-on-an-executor"
KILLED = 137
START_S = 300

pytestmark = pytest.mark.servers


class Program:
    """The job as a process, with a settings file of its own."""

    def __init__(self, kafka: KafkaBroker, pipeline: str, lake: Path, folder: Path) -> None:
        self.lake, self._folder = lake, folder
        self._config = folder / "walbridge.toml"
        self._config.write_text(
            f'name = "{pipeline}"\n'
            f'[kafka]\nbootstrap_servers = "{kafka.bootstrap_servers}"\n'
            f'[lake]\npath = "{lake}"\n'
            f'[spark]\njars_dir = "{spark_jars()[0].parent}"\nmaster = "local[2]"\ndriver_memory = "1g"\n'
            f'[spark.conf]\n"spark.pyspark.python" = "{NO_PYTHON}"\n"spark.local.dir" = "{folder / "local"}"\n'
        )

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "spark_consumer", "--config", str(self._config), *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=_environment(variables), capture_output=True, text=True, timeout=START_S, check=False
        )

    @contextmanager
    def running(self) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        """The process, and the file that takes what it says; killed should the block fail."""
        said = self._folder / "said"
        command = [sys.executable, "-m", "spark_consumer", "--config", str(self._config)]
        with said.open("wb") as out:
            process = subprocess.Popen(command, cwd=ROOT, env=_environment({}), stdout=out, stderr=out)
            try:
                yield process, said
            finally:
                process.kill()
                process.wait()

    def submit(self, archive: Path) -> subprocess.CompletedProcess[str]:
        spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        confs = {
            "spark.jars": ",".join(map(str, spark_jars())),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.ui.enabled": "false",
        }
        command = [str(spark_submit), "--master", "local[2]", "--py-files", str(archive)]
        command += [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
        command += [str(ROOT / "spark_consumer" / "__main__.py"), "--config", str(self._config), "--once"]
        variables = {"PYSPARK_DRIVER_PYTHON": sys.executable}
        return subprocess.run(
            command,
            cwd=self._folder,
            env=_environment(variables),
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )

    def rows(self, name: str) -> list[tuple[int, int]]:
        """The published rows of a table, read without Spark."""
        (entry,) = (entry for entry in published(str(self.lake))[-1].tables if entry.name == name)
        table = DeltaTable(f"{self.lake}/{entry.path}", version=entry.version)
        columns = [field.name for field in table.schema().fields[:2]]
        found = QueryBuilder().register("t", table).execute(f"SELECT {', '.join(columns)} FROM t").read_all()
        return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))

    def end_lsn(self) -> int:
        """The newest published LSN, 0 before the first."""
        rows = published(str(self.lake))
        return rows[-1].end_lsn if rows else 0


def _environment(variables: dict[str, str]) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("WALBRIDGE_KILL", "PYSPARK", "SPARK"))
    }
    return kept | {"JAVA_HOME": str(find_java().java_home), "SPARK_LOCAL_IP": "127.0.0.1"} | variables


@pytest.fixture
def program(kafka: KafkaBroker, pipeline_name: str, lake: Path, tmp_path: Path) -> Program:
    return Program(kafka, pipeline_name, lake, tmp_path)


@pytest.fixture
def writer(kafka: KafkaBroker, pipeline_name: str) -> ContractWriter:
    return ContractWriter(kafka.bootstrap_servers, pipeline_name)


@pytest.fixture
def accounts(writer: ContractWriter) -> RelationRecord:
    return writer.relation(
        "accounts", [ColumnSpec("id", "int4", is_key=True), ColumnSpec("balance", "int4")], relation_id=1
    )


@pytest.fixture
def history(writer: ContractWriter) -> RelationRecord:
    return writer.relation("history", [ColumnSpec("id", "int4"), ColumnSpec("delta", "int4")], relation_id=2)


def transfer(accounts: RelationRecord, history: RelationRecord, lsn: int, balance: int) -> list[Event]:
    return [
        Event(accounts, "u", lsn, 0, after={"id": 1, "balance": balance}),
        Event(history, "c", lsn, 1, after={"id": 1, "delta": balance}),
    ]


@pytest.mark.fault
def test_killed_at_every_durable_step_it_applies_each_event_once_and_stops_in_peace(
    program: Program, writer: ContractWriter, accounts: RelationRecord, history: RelationRecord
) -> None:
    """I5, I8. No Python runs on an executor: there is none to run (spark.pyspark.python)."""
    writer.copy([(accounts, [{"id": 1, "balance": 0}]), (history, [])])
    for n, point in enumerate(JOB_PROCESS):
        died = program.run("--once", WALBRIDGE_KILL_POINT=point)
        assert died.returncode == KILLED, f"{point}: {died.stderr}"
        is_published = program.end_lsn() > 0
        assert is_published == (point == "job:published")
        writer.send(transfer(accounts, history, 0x2000 + 16 * n, n))
    last = writer.send(transfer(accounts, history, 0x3000, 7))

    with program.running() as (process, said):
        wait_until(lambda: program.end_lsn() == last.end_lsn, "the last cut to be published", START_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0
        noise = [line for line in said.read_text().splitlines() if not line.startswith("timestamp=")]
        assert [line for line in noise if "jdk.incubator.vector" not in line] == []
    assert program.rows("accounts") == [(1, 7)]
    assert program.rows("history") == sorted((1, n) for n in (*range(len(JOB_PROCESS)), 7))


def test_spark_submit_runs_the_same_job_from_an_archive(
    program: Program, writer: ContractWriter, history: RelationRecord, tmp_path: Path
) -> None:
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    archive = tmp_path / "walbridge.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for package in ("schemas", "spark_consumer"):
            for path in sorted((ROOT / package).glob("*.*")):
                out.write(path, path.relative_to(ROOT))
    done = program.submit(archive)

    assert done.returncode == 0, done.stdout  # where spark-submit puts what Python says
    assert program.rows("history") == [(1, 1)]


def test_a_problem_of_the_operators_is_told_once_with_its_remedy(program: Program) -> None:
    """Exit code 2; here nobody has made the cuts topic."""
    refused = program.run("--once")

    assert refused.returncode == 2, refused.stderr
    assert "does not exist" in refused.stderr
    assert "remedy: start the producer first" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_missing_jars_are_told_before_anything_starts(tmp_path: Path) -> None:
    config = tmp_path / "walbridge.toml"
    config.write_text(f'[spark]\njars_dir = "{tmp_path}"\n')
    command = [sys.executable, "-m", "spark_consumer", "--config", str(config)]
    refused = subprocess.run(
        command, cwd=ROOT, env=_environment({}), capture_output=True, text=True, timeout=START_S, check=False
    )

    assert refused.returncode == 2
    assert "walbridge jars" in refused.stderr
