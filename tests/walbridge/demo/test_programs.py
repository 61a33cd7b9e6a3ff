"""A program of the demo never outlives it, and its failure is told."""

import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.wait import wait_until
from walbridge.demo.programs import Program, ProgramEnded, environment


def ended(program: Program) -> ProgramEnded:
    caught: list[ProgramEnded] = []

    def is_told() -> bool:
        try:
            program.refuse_end()
        except ProgramEnded as error:
            caught.append(error)
        return bool(caught)

    wait_until(is_told, "the program's end to be told")
    return caught[0]


@pytest.mark.parametrize(
    ("last_words", "code"),
    [("sys.exit(3)", 3), ("sys.exit(0)", 1), ("import os; os.kill(os.getpid(), 9)", 1)],
    ids=["exit code", "no reason to end", "killed"],
)
def test_program_that_ends_by_itself_is_told_with_its_log_and_code(tmp_path: Path, last_words: str, code: int) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", f"import sys; print('the reason', flush=True); {last_words}"]

    with Program("the producer", command, log) as program:
        error = ended(program)

    assert error.exit_code == code
    assert "the producer ended with code" in str(error)
    assert "the reason" in str(error)


def test_program_is_stopped_when_the_demo_leaves(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Program(
        "sleeper", [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"], log
    ) as program:
        wait_until(lambda: log.read_text().strip().isdigit(), "the program to say its id")

    assert not psutil.pid_exists(int(log.read_text()))
    assert program._process.exit_code == -signal.SIGTERM  # and no SIGKILL


def test_no_setting_of_the_caller_reaches_the_programs() -> None:
    given = {"WALBRIDGE_NAME": "mine", "walbridge_lake__path": "/mine", "WALBRIDGE_HOME": "/h", "HOME": "/root"}

    kept = environment(given)

    assert {name for name in kept if name.upper().startswith("WALBRIDGE_")} == {"WALBRIDGE_HOME"}
    assert kept["HOME"] == "/root"
