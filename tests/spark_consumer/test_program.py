"""``python -m walbridge.spark_consumer`` and spark-submit as an operator meets them: processes, signals, exit codes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract_events import copied, copy_begin, copy_end
from tests.contract_writer import ColumnSpec, ContractWriter
from tests.faults.kill_points import ENTERS, JOB_PROCESS, WRITTEN_BESIDE
from tests.in_soak import in_soak, in_variants
from tests.spark_consumer.accounts import transfer
from tests.spark_consumer.program import ROOT, START_S, Program, environment
from tests.wait import wait_until
from walbridge.embedded.jars import spark_jars
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.spark_archive import write_archive
from walbridge.spark_consumer.plan.ended_copies import ASIDE

KILLED = 137
OF_SMALL_COPIES = "tests.spark_consumer.job_of_small_copies"

pytestmark = pytest.mark.servers


@pytest.fixture
def items(writer: ContractWriter) -> RelationRecord:
    columns = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("n", "int4")]
    return writer.relation("items", columns, relation_id=3, partitions=2)


def copy_beside(writer: ContractWriter, items: RelationRecord, lsn: int) -> None:
    """Of twenty rows."""
    marker, begin = copy_begin(items, lsn)
    rows = copied(items, lsn, *({"id": key, "n": 1} for key in range(20)))
    writer.send([marker, *rows], barriers=[begin], end_lsn=lsn)
    marker, end = copy_end(items, lsn + 8)
    writer.send([marker], barriers=[end], end_lsn=lsn + 8)


@pytest.mark.fault
@pytest.mark.parametrize(
    ("points", "is_fed"),
    [
        (("build:entered",), True),
        in_variants((JOB_PROCESS[1], "build:entered"), True),
        in_soak((*JOB_PROCESS, *ENTERS), True),
        in_soak((JOB_PROCESS[-1], *WRITTEN_BESIDE), False),
    ],
)
def test_killed_at_every_durable_step_it_applies_each_event_once_and_stops_in_peace(
    program: Program,
    writer: ContractWriter,
    accounts: RelationRecord,
    history: RelationRecord,
    items: RelationRecord,
    points: tuple[str, ...],
    is_fed: bool,
) -> None:
    """I5, I8: also of a copy that is written beside the plans, be it of a table that is fed meanwhile. No Python runs
    on an executor: there is none to run (spark.pyspark.python)."""
    known = [(items, [{"id": key, "n": 0} for key in (1, 99)])] if is_fed else []
    writer.copy([(accounts, [{"id": 1, "balance": 0}]), (history, []), *known])
    is_copied = False
    for n, point in enumerate(points):
        lsn = 0x2000 + 0x100 * n
        if point in ENTERS and not is_copied:
            copy_beside(writer, items, lsn - 0x80)
            is_copied = True
        died = program.run("--once", module=OF_SMALL_COPIES, WALBRIDGE_KILL_POINT=point)
        assert died.returncode == KILLED, f"{point}: {died.stderr}"
        if point in JOB_PROCESS:
            assert (program.end_lsn() > 0) == (point == "job:published")
        writer.send(transfer(accounts, history, lsn, 1, n))
    last = writer.send(transfer(accounts, history, 0x4000, 1, 7))

    with program.running(module=OF_SMALL_COPIES) as (process, said):
        wait_until(lambda: program.end_lsn() == last.end_lsn, "the last cut to be published", START_S)
        wait_until(lambda: program.is_copied("items"), "the copy to be in the lake", START_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0
        noise = [line for line in said.read_text().splitlines() if not line.startswith("timestamp=")]
        assert [line for line in noise if "jdk.incubator.vector" not in line] == []
    assert program.rows("accounts") == [(1, 7)]
    assert program.rows("history") == sorted((1, n) for n in (*range(len(points)), 7))
    assert program.rows("items") == [(key, 1) for key in range(20)]
    assert list((program.lake / ASIDE).glob("*")) == []


@pytest.mark.soak
def test_spark_submit_runs_the_same_job_from_an_archive(
    program: Program, writer: ContractWriter, history: RelationRecord, tmp_path: Path
) -> None:
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    archive = tmp_path / "walbridge.zip"
    write_archive(archive)
    done = program.submit(archive)

    assert done.returncode == 0, done.stdout  # where spark-submit puts what Python says
    assert program.rows("history") == [(1, 1)]


def test_missing_jars_are_told_before_anything_starts(tmp_path: Path) -> None:
    config = tmp_path / "walbridge.toml"
    config.write_text(f'[spark]\njars_dir = "{tmp_path}"\n')
    command = [sys.executable, "-m", "walbridge.spark_consumer", "--config", str(config)]
    refused = subprocess.run(
        command, cwd=ROOT, env=environment({}), capture_output=True, text=True, timeout=START_S, check=False
    )

    assert refused.returncode == 2
    assert "walbridge jars" in refused.stderr


@pytest.mark.parametrize(
    ("spark", "said"),
    [
        ({"driver_memory": "lots"}, "JVM does not start"),
        in_variants(
            {"driver_memory": "100m"}, "Spark does not start: SparkIllegalArgumentException, about spark.driver.memory"
        ),
    ],
)
def test_settings_that_spark_does_not_start_with_are_told_by_name(spark: dict[str, str], said: str) -> None:
    """The session alone: the job would ask Kafka first."""
    program = (
        "import sys; from walbridge.schemas.errors import OperatorError, report; "
        "from walbridge.schemas.settings import Settings; "
        "from walbridge.spark_consumer.jvm.spark_session import spark_session\n"
        f"try: spark_session(Settings(spark={spark | {'jars_dir': str(spark_jars()[0].parent)}!r}))\n"
        "except OperatorError as error: sys.exit(report(error))"
    )
    refused = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )

    assert refused.returncode == 2, refused.stderr
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
