"""The verbs as processes of their own, as an operator starts them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent


class Programs:
    """Runs ``walbridge VERB --config FILE``.

    Args:
        folder: of the settings and of a log for each verb.
        installed: the environment that a verb is run from; this checkout for any other.
    """

    def __init__(self, folder: Path, installed: Mapping[str, Path] | None = None) -> None:
        self._folder = folder
        self.installed = dict(installed or {})
        self.config = folder / "walbridge.toml"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, verb: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{verb}.log").open("ab") as log:
            process = subprocess.Popen(
                self._command(verb, *arguments),
                cwd=self._cwd(verb),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def run(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(verb, *arguments),
            cwd=self._cwd(verb),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def _command(self, verb: str, *arguments: str) -> list[str]:
        venv = self.installed.get(verb)
        program = [sys.executable, "-m", "walbridge"] if venv is None else [str(venv / "bin" / "walbridge")]
        return [*program, verb, *arguments, "--config", str(self.config)]

    def _cwd(self, verb: str) -> Path:
        """Nothing of the checkout is found beside a program that is installed."""
        return self._folder if verb in self.installed else ROOT

    def log(self, verb: str) -> str:
        return (self._folder / f"{verb}.log").read_text()

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL to the process and what it started: the JVM of a job dies with its driver."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
