"""An operator who knows nothing: does to the letter what a program printed when it ended, and starts it again.

In: the last words of a program, its settings file, a database. Out: SQL run, commands run, settings written. Words in
which nothing can be done fail the test, since a person would stand before them as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.faults.campaign.stage import NO_ANSWER, ROOT, Program
from tests.fix_postgres import Database

COMMAND_S = 120.0
_OTHERWISE = re.compile(r"; or |; else |; where |, or ")
_SQL = re.compile(r"\b(?:ALTER|CREATE|DROP|GRANT|SELECT) [^;]*;")
_COMMAND = re.compile(r"\bwalbridge ((?:copy|drop|forget|init)(?: (?:--[a-z-]+|[\w-]+\.[\w.-]+))*)")
_SETTING = re.compile(r"set \[(\w+)\] (\w+) (?:=|to) (\"[^\"]*\"|\w+)")
_START_AGAIN = ("start walbridge produce", "start the producer", "start it again", "run the same command again")


class Attendant:
    """Whoever runs one pipeline."""

    def __init__(self, database: Database, config: Path) -> None:
        self._database, self._config = database, config
        self.followed: list[str] = []
        """Remedies, in the order in which they were followed."""

    def follow(self, words: str) -> None:
        """The remedy of the last error, by its first way.

        Raises:
            AssertionError: it names no step, or a step of it fails.
        """
        what, _, remedy = words.rpartition("\nremedy: ")
        assert what, f"ended without a remedy:\n{words[-3000:]}"
        first = _OTHERWISE.split(remedy, maxsplit=1)[0]
        self.followed.append(first)
        print(f"         follows: {first.strip()[:200]}", flush=True)
        statements, values, commands = _SQL.findall(first), _SETTING.findall(first), _COMMAND.findall(first)
        for statement in statements:
            self._database.execute(statement)
        for section, name, value in values:
            self.set(section, name, value)
        for typed in commands:
            self._run_command(typed)
        is_start_alone = any(each in first for each in _START_AGAIN)
        assert statements or values or commands or is_start_alone, f"nothing to do in:\n{remedy}\nof:\n{what[-1500:]}"

    def _run_command(self, typed: str) -> None:
        arguments = [*typed.split(), "--config", str(self._config)]
        done = subprocess.run(
            [sys.executable, "-m", "walbridge", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"walbridge {typed}:\n{done.stdout}{done.stderr}"

    def set(self, section: str, name: str, value: str) -> None:
        """Write a setting into the file, which has each section once."""
        lines = self._config.read_text().splitlines()
        at = lines.index(f"[{section}]")
        kept = [line for line in lines[at + 1 :] if not line.startswith(f"{name} =")]
        self._config.write_text("\n".join([*lines[: at + 1], f"{name} = {value}", *kept, ""]))


class AttendedProgram(Program):
    """A program whose remedies are followed before it is started again."""

    def __init__(self, name: str, arguments: list[str], folder: Path, attendant: Attendant) -> None:
        super().__init__(name, arguments, folder)
        self._attendant = attendant

    def _judge_end(self, code: int) -> None:
        words = self.words()
        assert code == 2, f"the {self.name} ended by itself, code {code}:\n{words[-3000:]}"
        assert "Traceback" not in words, words[-3000:]
        if NO_ANSWER in words:
            self.gave_up_waiting += 1
        else:
            self._attendant.follow(words)
