"""The operator's command in processes forked from one that has imported it: each would import for a second.

In: the arguments of a start, in the folder and with the environment of the caller. Out: its exit code and what it
printed, as of ``python -m walbridge``. What forks has no threads and has opened nothing of ours.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    [
        f"walbridge.{each}"
        for each in ("__main__", "cli", "init", "tail", "verify", "producer.__main__", "spark_consumer.__main__")
    ]
)


def run_command(
    *arguments: str, environ: Mapping[str, str] = os.environ, timeout_s: float = 180
) -> subprocess.CompletedProcess[str]:
    """Run it to its end.

    Raises:
        subprocess.TimeoutExpired: it did not end, and was killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder) / "stdout", Path(folder) / "stderr"
        process = _PROCESSES.Process(target=_run, args=(arguments, Path.cwd(), dict(environ), outputs))
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["walbridge", *arguments], timeout_s)
        return subprocess.CompletedProcess(arguments, process.exitcode, *(each.read_text() for each in outputs))


def _run(arguments: tuple[str, ...], folder: Path, environ: dict[str, str], outputs: tuple[Path, Path]) -> None:
    from walbridge.__main__ import main
    from walbridge.runtime import kill_points

    for number, path in enumerate(outputs, 1):
        with path.open("wb") as output:
            os.dup2(output.fileno(), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    importlib.reload(kill_points)
    sys.exit(main(arguments))
