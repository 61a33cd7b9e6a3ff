"""The producer, the Spark job and pgbench as processes that never outlive the demo.

In: the settings file of the demo. Out: running programs, each with its own log; one that ends
by itself is a failure that says so, with the tail of its log and its exit code.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import walbridge
from walbridge.demo.demo_folder import DemoFolder
from walbridge.embedded.java import find_java
from walbridge.embedded.server_process import ServerProcess, tail

NOT_SETTINGS = ("WALBRIDGE_HOME", "WALBRIDGE_JAVA")
STOP_S = 20.0
"""How long a program may finish what it is at."""


class ProgramEnded(Exception):
    """A program of the demo ended by itself."""

    def __init__(self, name: str, exit_code: int, log: Path) -> None:
        super().__init__(f"{name} ended with code {exit_code}; its log, {log}, ends:\n{tail(log)}")
        self.exit_code = exit_code


class Program:
    """A program that is meant to run until it is stopped. A context manager: stopped on exit."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = ServerProcess(name, command, log, environ=environment(os.environ))

    def refuse_end(self) -> None:
        """Raise if it runs no more.

        Raises:
            ProgramEnded: with its exit code, 1 when a signal ended it.
        """
        code = self._process.exit_code
        if code is not None:
            raise ProgramEnded(self.name, code if code > 0 else 1, self.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop([signal.SIGTERM], STOP_S)


def producer(folder: DemoFolder) -> Program:
    """``walbridge produce``, without the command around it."""
    command = [sys.executable, "-m", "walbridge.producer", "--config", str(folder.config)]
    return Program("the producer", command, folder.log("producer"))


def spark_job(folder: DemoFolder) -> Program:
    """``walbridge materialize``, without the command around it."""
    command = [sys.executable, "-m", "walbridge.spark_consumer", "--config", str(folder.config)]
    return Program("the Spark job", command, folder.log("spark_job"))


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Ours, but with this Java and these packages, and with no setting beside the demo's file."""
    kept = {name: value for name, value in given.items() if not name.upper().startswith("WALBRIDGE_")}
    kept |= {name: given[name] for name in NOT_SETTINGS if name in given}
    # The programs start in another folder, and a checkout need not be installed.
    packages = [str(Path(walbridge.__file__).parents[1]), *filter(None, [given.get("PYTHONPATH")])]
    return kept | {"JAVA_HOME": str(find_java().java_home), "PYTHONPATH": os.pathsep.join(packages)}
