"""A job whose JVM ends under it says so, with exit code 2, and the next start finishes what it began."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.contract_writer import ContractWriter
from tests.spark_consumer.accounts import transfer
from tests.spark_consumer.job_whose_jvm_ends import VARIABLE
from tests.spark_consumer.program import START_S, Program
from tests.wait import wait_until
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.spark_consumer.jvm.jvm_end import ended_jvm

MODULE = "tests.spark_consumer.job_whose_jvm_ends"


def errors(said: str, count: int = 2) -> list[str]:
    """What is no log line of the job: so many lines."""
    lines = [line for line in said.splitlines() if not line.startswith("timestamp=")]
    found = [line for line in lines if "jdk.incubator.vector" not in line]
    assert len(found) == count, said
    return found


@pytest.mark.servers
@pytest.mark.fault
def test_jvm_that_ends_in_a_plan_or_at_rest_is_told_and_loses_nothing(
    program: Program, writer: ContractWriter, accounts: RelationRecord, history: RelationRecord
) -> None:
    """I5, I8: killed while the job catches up, out of memory in a trigger of its stream, killed at rest."""
    writer.copy([(accounts, [{"id": 1, "balance": 0}]), (history, [])])

    refused = program.run("--once", WALBRIDGE_SPARK__DRIVER_MEMORY="1k")
    assert refused.returncode == 2, refused.stderr
    _, _, mends = refused.stderr.partition("remedy: ")
    assert mends.startswith("look at JAVA_HOME, ")
    assert "[spark] driver_memory" in mends
    killed = program.run("--once", module=MODULE, **{VARIABLE: "job:plan-open killed"})
    assert killed.returncode == 2, killed.stderr
    what, remedy = errors(killed.stderr)
    assert "JVM was killed by signal 9 (SIGKILL)" in what
    assert "nothing is lost" in what
    assert "kernel's log" in remedy
    assert program.end_lsn() == 0

    with program.running(module=MODULE, **{VARIABLE: "job:before-plan full"}) as (process, said):
        wait_until(lambda: program.end_lsn() > 0, "the plan that was open to be published", START_S)
        last = writer.send(transfer(accounts, history, 0x2000, 1, 7))
        assert process.wait(START_S) == 2, said.read_text()
        of_the_jvm, what, remedy = errors(said.read_text(), 3)
    assert of_the_jvm.startswith("Terminating due to java.lang.OutOfMemoryError")
    assert "JVM ran out of memory" in what
    assert "[spark] driver_memory" in remedy

    with program.running() as (process, said):
        wait_until(lambda: program.end_lsn() == last.end_lsn, "the last cut to be published", START_S)
        assert program.rows("accounts") == [(1, 7)]
        assert program.rows("history") == [(1, 7)]
        os.kill(jvm_of(process.pid), signal.SIGKILL)
        assert process.wait(START_S) == 2, said.read_text()
        what, remedy = errors(said.read_text())
    assert "JVM was killed by signal 9 (SIGKILL)" in what


@pytest.mark.parametrize(
    ("code", "what", "remedy"),
    [
        (-9, "was killed by signal 9 (SIGKILL)", "the machine or container more memory"),
        (-11, "was killed by signal 11 (SIGSEGV)", "hs_err_pid"),
        (3, "ran out of memory", "raise [spark] driver_memory"),
        (52, "ran out of memory", "lower [lake] plan_rows_max"),
        (143, "ended with code 143", "what the JVM said"),
        (None, "ended or stopped its Spark context", "raise [spark] driver_memory"),
    ],
)
def test_way_it_ended_is_told_with_what_mends_it(code: int | None, what: str, remedy: str) -> None:
    """None: under spark-submit the JVM is not ours, and nobody tells how it ended."""
    error = ended_jvm(code)

    assert f"the Spark driver's JVM {what} while the job was running; nothing is lost" in error.what
    assert remedy in error.remedy


def jvm_of(job: int) -> int:
    (jvm,) = (child for child in psutil.Process(job).children() if Path(child.exe()).name == "java")
    return int(jvm.pid)
