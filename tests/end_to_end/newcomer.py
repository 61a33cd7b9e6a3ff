"""Somebody with a shell who copies commands from the documentation, and how much that is to type.

In: a folder, an environment, lines of the documents' blocks. Out: what they print, programs that run meanwhile, and
how much was typed.
"""

from __future__ import annotations

import contextlib
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.documents import ROOT

STEP_S, COPIED_S, SETUP_S = 120.0, 300.0, 2400.0
"""A first copy starts two programs and Spark's JVM: on two cores that 20 other processes want, 120 s were too few."""
TYPED_PER_MINUTE = 200
"""Characters, of somebody who does not type for a living."""


@dataclass
class Newcomer:
    """``typed`` has all commands and the settings."""

    folder: Path
    environ: dict[str, str]
    new_terminal: str = ""
    """What is typed into each."""
    typed: list[str] = field(default_factory=list)

    def run(self, command: str, timeout_s: float = STEP_S, answer: str = "") -> str:
        """One line of a block, or several; what it prints, on stderr too.

        Args:
            answer: what is typed when it asks a terminal; without one it has no terminal.

        Raises:
            AssertionError: it failed.
        """
        self.typed += [command, answer]
        with terminal(answer) if answer else Path(os.devnull).open() as stdin:
            done = subprocess.run(
                ["bash", "-ec", command],
                cwd=self.folder,
                env=self.environ,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def write(self, name: str, text: str) -> None:
        """A file of this text, typed into an editor."""
        self.typed.append(text)
        (self.folder / name).write_text(text)

    @contextlib.contextmanager
    def running(self, commands: str, log_name: str = "log") -> Iterator[list[subprocess.Popen[bytes]]]:
        """Programs, one a line, each in a new terminal, until the block ends; then they stop in order.

        One that the block takes out of the list is not asked how it ended.
        """
        started = []
        try:
            for number, command in enumerate(commands.splitlines()):
                self.typed += [self.new_terminal, command]
                with (self.folder / f"{log_name}-{number}").open("wb") as log:
                    line = ["bash", "-c", f"exec {command}"]
                    started.append(subprocess.Popen(line, cwd=self.folder, env=self.environ, stdout=log, stderr=log))
            yield started
            for process in started:
                process.terminate()
            assert {process.wait(STEP_S) for process in started} <= {0}
        finally:
            for process in started:
                process.kill()
                process.wait()

    def log(self, number: int, log_name: str = "log") -> str:
        """What such a program has said."""
        return (self.folder / f"{log_name}-{number}").read_text()

    @property
    def minutes(self) -> float:
        """Of typing, at ``TYPED_PER_MINUTE``."""
        return sum(len(line) + 1 for line in self._lines()) / TYPED_PER_MINUTE

    @property
    def effort(self) -> str:
        """How much was typed."""
        return f"{len(self._lines())} lines, {self.minutes:.1f} minutes of typing"

    def _lines(self) -> list[str]:
        return [line for each in self.typed for line in each.splitlines() if line.strip()]


@contextlib.contextmanager
def terminal(typed: str) -> Iterator[int]:
    """One in which that was typed already."""
    main, side = pty.openpty()
    try:
        os.write(main, f"{typed}\n".encode())
        yield side
    finally:
        os.close(side)
        os.close(main)


def with_this_checkout(folder: Path) -> Newcomer:
    """Has ``walbridge`` on the path, as after step 1."""
    programs = folder / "bin"
    programs.mkdir()
    for name, words in (("walbridge", [sys.executable, "-m", "walbridge"]), ("python", [sys.executable])):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
    return Newcomer(folder, os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)})


def on_an_empty_machine(folder: Path, install: str) -> Newcomer:
    """Has a checkout, an empty home, and done step 1 there.

    Args:
        install: the block of step 1: it makes an environment, and activates it.
    """
    folder.chmod(0o755)  # as a home mostly is: root's servers run as another user, who must get there
    home, checkout = folder / "home", folder / "walbridge"
    home.mkdir()
    checkout.mkdir()
    # As of a clone, with what is not committed yet.
    files = 'git -C "$0" ls-files -z | tar -C "$0" --null -T - -c | tar -C "$1" -x'
    subprocess.run(["bash", "-ec", f"set -o pipefail; {files}", str(ROOT), str(checkout)], check=True)
    ours = Path(sys.executable).parent
    python = Path(os.path.realpath(sys.executable)).parent
    path = [str(python), *(each for each in os.environ["PATH"].split(":") if Path(each) != ours)]
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG", "PIP_INDEX_URL") if name in os.environ}
    _make, activate = install.splitlines()
    environ = {"HOME": str(home), "PATH": ":".join(path), **kept}
    newcomer = Newcomer(checkout, environ, f"cd {checkout}\n{activate}")
    shown = newcomer.run(f"{install}\necho; echo $PATH; command -v walbridge", SETUP_S)
    newcomer.typed = [install]
    *_, newcomer.environ["PATH"], installed = shown.splitlines()
    assert installed.startswith(str(checkout))
    return newcomer
