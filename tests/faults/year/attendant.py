"""An operator who knows nothing: does to the letter what a program printed when it ended, and starts it again.

In: the last words of a program, its settings file, a database, a broker. Out: SQL run, commands run, settings written,
files deleted. What no program can know, such as a new password, an event tells the operator beforehand: it is done once
some words ask for it. Words in which nothing can be done fail the test, since a person would stand before them as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.faults.campaign.stage import NO_ANSWER, ROOT, Program
from tests.fix_postgres import Database
from walbridge.embedded.kafka import KafkaBroker

COMMAND_S = 120.0
ANSWER_S = 60.0
_OTHERWISE = re.compile(r"; or |; else |; where |, or ")
_SQL = re.compile(r"\b(?:ALTER|CREATE|DROP|GRANT|SELECT) [^;]*;")
_COMMAND = re.compile(r"\bwalbridge ((?:copy|drop|forget|init)(?: (?:--[a-z-]+|[\w-]+\.[\w.-]+))*)")
_SETTING = re.compile(r"set \[(\w+)\] (\w+) (?:=|to) (\"[^\"]*\"|\w+)")
_TOPIC_SET = re.compile(r"kafka-configs\.sh --alter --bootstrap-server \S+ --topic (\S+) --add-config (\S+)=([^;\s]+)")
_LOG_FILES = re.compile(r"delete ((?:\S+\.json(?: and )?)+) from its _delta_log")
_MANIFEST = re.compile(r"the lake's manifest (\S+) cannot be read")
_START_AGAIN = (
    "start walbridge produce",
    "start the producer",
    "start it again",
    "start again",
    "run the same command again",
)


class Attendant:
    """Whoever runs one pipeline."""

    def __init__(self, database: Database, kafka: KafkaBroker, config: Path) -> None:
        self._database, self._kafka, self._config = database, kafka, config
        self._known: list[tuple[str, Callable[[], object]]] = []
        self._done = set[str]()
        self.followed: list[str] = []
        """Remedies, in the order in which they were followed."""

    def knows(self, words: str, does: Callable[[], object]) -> None:
        """What is to be done once a remedy has these words, that nobody else can know. It is done once."""
        self._known.append((words, does))

    def never_asked(self) -> list[str]:
        """The words of what was never needed: that somebody was to be told it, and was not."""
        return [words for words, _ in self._known]

    def hear(self, words: str) -> bool:
        """Do what only we know, if these words ask for it; whether it is done. Two programs may ask for the same."""
        asked = [each for each in self._known if each[0] in words]
        for each in asked:
            self._known.remove(each)
            self._done.add(each[0])
            print(f"         knows: {each[0]}", flush=True)
            each[1]()
        return bool(asked) or any(each in words for each in self._done)

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
        is_done = self.hear(remedy) or self._do(first, what)
        is_start_alone = any(each in first for each in _START_AGAIN)
        assert is_done or is_start_alone, f"nothing to do in:\n{remedy}\nof:\n{what[-1500:]}"

    def _do(self, remedy: str, what: str) -> bool:
        steps: list[Callable[[], object]] = []
        steps += [partial(self._database.execute, each) for each in _SQL.findall(remedy)]
        steps += [partial(self.set, *each) for each in _SETTING.findall(remedy)]
        steps += [partial(self._set_topic, *each) for each in _TOPIC_SET.findall(remedy)]
        steps += [partial(self._run_command, each) for each in _COMMAND.findall(remedy)]
        if named := _LOG_FILES.search(remedy):
            (manifest,) = _MANIFEST.findall(what)[-1:]
            steps += [(Path(manifest) / "_delta_log" / name).unlink for name in named[1].split(" and ")]
        for step in steps:
            step()
        return bool(steps)

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

    def _set_topic(self, topic: str, name: str, value: str) -> None:
        """As Kafka's own tool does."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap_servers, "log_level": 2})
        admin.incremental_alter_configs([resource])[resource].result(ANSWER_S)

    def set(self, section: str, name: str, value: str) -> None:
        """Write a setting into the file, which has each section once."""
        lines = self._config.read_text().splitlines()
        at = lines.index(f"[{section}]")
        ends = [number for number in range(at + 1, len(lines)) if lines[number].startswith("[")]
        end = ends[0] if ends else len(lines)
        kept = [line for line in lines[at + 1 : end] if not line.startswith(f"{name} =")]
        self._config.write_text("\n".join([*lines[: at + 1], f"{name} = {value}", *kept, *lines[end:], ""]))


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
            self._attendant.hear(words)
        else:
            self._attendant.follow(words)
