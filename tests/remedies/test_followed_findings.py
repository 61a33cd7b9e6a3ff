"""Findings of ``walbridge check`` about servers and machines that no test has, mended in what was found of them.

What the remedy says is taken from its words, and from nowhere else.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.walbridge.check.source.test_server import HEALTHY
from tests.walbridge.check.source.test_slot import state
from tests.walbridge.check.test_host import LOCKED, fetched, machine
from walbridge.check import host
from walbridge.check.finding import Finding, Severity
from walbridge.check.source.server import server_findings
from walbridge.check.source.slot import SlotCase, failover_findings
from walbridge.check.topics import BrokerFacts, broker_findings
from walbridge.schemas.settings import Settings

__all__ = ["machine"]
STATE_REPLICAS = "transaction.state.log.replication.factor"


def told(findings: Iterable[Finding]) -> list[Finding]:
    """What is not well."""
    return [each for each in findings if each.severity is not Severity.OK]


def numbers(finding: Finding) -> dict[str, int]:
    """By name, as the remedy sets them."""
    return {name: int(value) for name, value in re.findall(r"([\w.]+) = (\d+)", finding.remedy or "")}


def test_brokers_and_settings_are_made_to_fit_as_the_findings_say() -> None:
    def found(brokers: int, shown: dict[str, Any], **sections: dict[str, Any]) -> list[Finding]:
        facts = {name: str(value) for name, value in shown.items()}
        return told(broker_findings(BrokerFacts(brokers, facts), Settings.model_validate(sections)))

    fit = {"transaction.max.timeout.ms": 900_000, STATE_REPLICAS: 3, "default.replication.factor": 3}
    short = fit | {"transaction.max.timeout.ms": 60_000}
    (told_short,) = found(3, short)
    assert found(3, short, producer=numbers(told_short)) == []

    one = {"topics": {"replication_factor": 1}}
    too_many, alone = found(1, fit, **one)
    (alone_still,) = found(1, fit | numbers(too_many), **one)
    assert alone_still == alone
    brokers = int(re.findall(r"run (\d+) brokers", alone.remedy or "")[0])
    assert found(brokers, fit, topics=numbers(alone)) == []

    (beyond,) = found(3, fit, topics={"replication_factor": 5})
    assert found(3, fit, topics=numbers(beyond)) == []


@pytest.mark.parametrize(
    ("changes", "mended"),
    [
        (
            {"version": "11.22", "version_number": 110_022},
            lambda remedy: {"version": f"{number(remedy)}.1", "version_number": number(remedy) * 10_000 + 1},
        ),
        ({"in_recovery": True}, lambda remedy: {"in_recovery": "name its primary" not in remedy}),
        ({"slots_used": 10}, lambda remedy: {"slots_used": 10, "slots_max": number(remedy)}),
        ({"walsenders_used": 10}, lambda remedy: {"walsenders_used": 10, "walsenders_max": number(remedy)}),
        ({"walsenders_used": 9}, lambda remedy: {"walsenders_used": 9, "walsenders_max": number(remedy)}),
    ],
)
def test_server_is_made_to_fit_as_the_findings_say(
    changes: dict[str, Any], mended: Callable[[str], dict[str, Any]]
) -> None:
    (found,) = told(server_findings(replace(HEALTHY, **changes), slot_exists=False))

    assert told(server_findings(replace(HEALTHY, **mended(found.remedy or "")), slot_exists=False)) == []


def number(remedy: str) -> int:
    return int(re.findall(r"\d+", remedy)[0])


def test_changes_wait_for_the_standby_that_is_named_as_the_finding_says() -> None:
    case = SlotCase("s", state(failover=True))
    (found,) = told(failover_findings(case, ""))
    (given,) = re.findall(r"synchronized_standby_slots = '(.+?)'", found.remedy or "")

    assert told(failover_findings(case, given.replace("<physical slot of the standby>", "standby"))) == []


def test_spool_gets_a_folder_that_can_be_written_and_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(folder: str, streaming: str = "auto") -> list[Finding]:
        sections = {"producer": {"spool_dir": str(tmp_path / folder)}, "postgres": {"streaming": streaming}}
        return told(host.spool_findings(Settings.model_validate(sections)))

    (tmp_path / "other").mkdir()
    (missing,) = found("missing")
    assert missing.remedy == 'name another folder in [producer] spool_dir, or set [postgres] streaming = "off"'
    assert found("other") == []
    assert [each.severity for each in found("missing", "off")] == [Severity.WARNING], "only copies need it then"

    usage = shutil.disk_usage(tmp_path)
    left = usage._replace(free=2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda of: left if Path(of).name == "small" else usage)
    (tmp_path / "small").mkdir()
    (full,) = found("small")
    assert "name a larger disk in [producer] spool_dir" in (full.remedy or "")
    assert found("other") == []


def test_memory_is_written_as_told_and_a_larger_heap_takes_the_largest_row() -> None:
    def found(memory: str, row_bytes: int) -> list[Finding]:
        sections = {"spark": {"driver_memory": memory}, "producer": {"row_bytes_max": row_bytes}}
        return told(host.memory_findings(Settings.model_validate(sections)))

    (no_size,) = found("much", 2**20)
    for written in re.findall(r'"(.+?)"', no_size.remedy or ""):
        assert found(written, 2**20) == []
    (small,) = found("768m", 64 * 2**20)
    heap, row = re.findall(r"\d+", small.remedy or "")
    assert found(f"{heap}m", 64 * 2**20) == []
    assert found("768m", int(row)) == []


def test_java_is_installed_and_jars_are_those_that_are_locked(machine: Path) -> None:
    def found(jars_dir: Path | None = None) -> list[Finding]:
        spark = {"jars_dir": str(jars_dir)} if jars_dir else {}
        settings = Settings.model_validate({"lake": {"path": str(machine / "lake")}, "spark": spark})
        return told([*host.java_findings(settings), *host.jar_findings(settings)])

    no_java, no_jars = found()
    assert "install Java 17 or 21" in (no_java.remedy or "")
    assert no_jars.remedy == "run walbridge jars; else walbridge materialize fetches them when it starts"
    place = fetched(machine / "home" / "jars" / "spark")
    (needed,) = found()
    assert (needed.severity, "install Java 17 or 21" in (needed.remedy or "")) == (Severity.ERROR, True)
    java = machine / "jvm" / "jdk-21"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch(mode=0o755)
    (java / "release").write_text('JAVA_VERSION="21.0.4"\n')
    assert found() == []

    own = machine / "ours"
    own.mkdir()
    (empty,) = found(own)
    assert "fetch them with: walbridge jars, and set [spark] jars_dir to the folder it prints" in (empty.remedy or "")
    assert found(place) == []
    (own / LOCKED[0].coordinate.file_name).write_text("another")
    (differs,) = found(own)
    assert "fill it with the files of: walbridge jars --print" in (differs.remedy or "")
    shutil.rmtree(own)
    assert found(fetched(own)) == []
