"""What is said goes where somebody may or may not take it: no program ends for that, and a verb says why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import walbridge

ROOT = Path(walbridge.__file__).parents[1]
LOGS = """
import structlog
from walbridge.runtime.logs import configure_logs
from walbridge.runtime.streams import hold_streams

hold_streams()
configure_logs()
for _ in range(3):
    structlog.get_logger().info("a line", of="x" * 9000)
opened = open("first", "w")
print(opened.fileno())
"""
PRINTS = """
import sys
from types import SimpleNamespace
from walbridge.__main__ import main

prints = lambda *_, **__: print("→ Straße", flush=True) or 0
sys.modules["walbridge.check"] = SimpleNamespace(check=prints)  # what it would import takes a second
sys.exit(main(["check"]))
"""
ENDS = PRINTS.replace(", flush=True", "")
HELP = """
import sys
from walbridge.__main__ import main

sys.exit(main(["--help"]))
"""
OPENS = """
import sys
from walbridge.runtime.streams import hold_streams

hold_streams()
sys.stderr.write(str(open("first", "w").fileno()))
"""


def ran(program: str, folder: Path, output: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """In a shell, with its output where that says."""
    return subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {output}', sys.executable, program],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", **environ},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("place", ["2> /dev/full", "2> >(true)", "2>&-"], ids=["full", "read by nobody", "closed"])
def test_log_that_takes_no_lines_ends_no_program(place: str, tmp_path: Path) -> None:
    done = ran(LOGS, tmp_path, place)

    assert done.returncode == 0
    assert int(done.stdout) > 2, "no other file has the number of stderr"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_verb_whose_terminal_lacks_a_sign_says_what_mends_it(encoding: str, tmp_path: Path) -> None:
    done = ran(PRINTS, tmp_path, "", PYTHONIOENCODING=encoding)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "set PYTHONIOENCODING=utf-8" in done.stderr
    assert ran(PRINTS, tmp_path, "", PYTHONIOENCODING="utf-8").stdout == "→ Straße\n"


@pytest.mark.parametrize("program", [PRINTS, ENDS], ids=["prints", "ends"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_verb_that_prints_to_a_full_disk_says_so(program: str, unbuffered: str, tmp_path: Path) -> None:
    """Also where it tries only at its end."""
    done = ran(program, tmp_path, "> /dev/full", PYTHONUNBUFFERED=unbuffered)

    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert done.stderr.count("make room") == 1
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("program", [PRINTS, ENDS, HELP], ids=["prints", "ends", "help"])
def test_verb_that_nobody_reads_is_told_from_one_that_found_a_difference(program: str, tmp_path: Path) -> None:
    """As by ``walbridge --help | head -1``."""
    done = ran(program, tmp_path, "| true; exit ${PIPESTATUS[0]}")

    assert (done.returncode, done.stderr) == (141, "")


def test_verb_without_a_stdout_or_a_stdin_does_what_it_does_and_prints_nothing(tmp_path: Path) -> None:
    """As a supervisor may start it. Its exit code is all that is asked for."""
    asks = PRINTS.replace('print("→ Straße", flush=True)', "sys.stdout.flush() or sys.stdin.read()")
    done = ran(asks, tmp_path, ">&- <&-")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_no_other_file_gets_the_number_of_a_stream_that_is_closed(closed: str, tmp_path: Path) -> None:
    """What a library prints would go there."""
    assert int(ran(OPENS, tmp_path, closed).stderr) > 2
