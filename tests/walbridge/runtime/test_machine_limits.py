"""What the machine refuses is told with the limit to raise: any line may meet it, so it is no bug."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from walbridge.runtime.machine_limits import refused_by_machine
from walbridge.runtime.reports.crash_report import report_bug
from walbridge.runtime.reports.run_report import end_of
from walbridge.schemas.control.run_record import How
from walbridge.schemas.errors import EXIT_OPERATOR

NO_SUCH_ROOM = 2**46
"""Bytes that no machine has, nor addresses for them."""


def start_a_thread() -> None:
    before = threading.stack_size(NO_SUCH_ROOM)
    try:
        threading.Thread(target=int).start()
    finally:
        threading.stack_size(before)


def take_memory() -> None:
    bytearray(2**62)


def open_files() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        os.dup(0)


def load_a_library() -> None:
    """glibc's words, as the dynamic loader of a process with ``ulimit -v`` says them."""
    raise ImportError("libarrow.so.2100: failed to map segment from shared object")


@pytest.mark.parametrize(
    ("meet", "limit"),
    [
        (start_a_thread, "ulimit -u"),
        (take_memory, "ulimit -v"),
        (load_a_library, "ulimit -v"),
        (open_files, "ulimit -n"),
    ],
)
def test_what_the_machine_refuses_is_told_with_the_limit_to_raise(
    meet: Callable[[], None], limit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exception) as met:
        meet()
    error = met.value

    assert report_bug(error) == EXIT_OPERATOR
    said = capsys.readouterr().err
    assert "a bug" not in said
    assert limit in said
    ended = end_of(error, datetime.now(UTC))
    assert ended.how is How.REFUSED
    assert ended.remedy is not None
    assert limit in ended.remedy


@pytest.mark.parametrize(
    "error", [RuntimeError("x"), OSError(1, "x"), ImportError("x"), BlockingIOError(11, "x"), Exception()]
)
def test_anything_else_stays_a_bug(error: Exception) -> None:
    assert refused_by_machine(error) is None


def test_verb_that_may_open_too_few_files_runs_once_the_limit_is_raised(tmp_path: Path) -> None:
    """Neither server is there, which ``status`` tells."""
    config = tmp_path / "walbridge.toml"
    config.write_text(f'[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[lake]\npath = "{tmp_path / "lake"}"\n')
    command = f"exec {sys.executable} -m walbridge status --config {config}"
    refused = subprocess.run(["bash", "-c", f"ulimit -n 5; {command}"], capture_output=True, text=True, check=False)
    assert refused.returncode == EXIT_OPERATOR, refused.stderr
    assert "ulimit -n" in refused.stderr

    raised = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "in the lake" in raised.stdout, raised.stderr
