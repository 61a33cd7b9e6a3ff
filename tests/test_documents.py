"""README says what the code says: every verb, every setting with its default, every metric, files that exist."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from prometheus_client import generate_latest

from producer.metrics import ProducerMetrics
from schemas import pg_types
from schemas.settings import Settings
from schemas.settings_file import load_settings
from spark_consumer.metrics import JobMetrics
from walbridge.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
VERBS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]  # a group


def table(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its two header lines."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_readme_has_the_table_of_types_that_the_code_has() -> None:
    lines = (pg_types.__doc__ or "").replace("``", "`").splitlines()
    assert "\n".join(line for line in lines if line.startswith("|")) in README


def defaults() -> dict[str, Any]:
    """``section.field`` → default, as JSON shows it."""
    shown = Settings.model_construct().model_dump(mode="json")
    flat = {"name": shown.pop("name")}
    return flat | {f"{section}.{name}": value for section, fields in shown.items() for name, value in fields.items()}


@pytest.mark.parametrize("verb", VERBS)
def test_readme_lists_the_verb(verb: str) -> None:
    assert [row[0] for row in table("Verbs")].count(f"`walbridge {verb}`") == 1


def test_readme_lists_no_other_verbs() -> None:
    assert sorted(row[0].strip("`").removeprefix("walbridge ") for row in table("Verbs")) == VERBS


def test_options_that_readme_gives_a_verb_exist() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for verb, text, *_ in table("Verbs"):
        options = {name for each in commands[verb.strip("`").split()[1]].params for name in each.opts}
        assert set(re.findall(r"`(--[a-z-]+)`", text)) <= options, verb


def test_readme_lists_every_setting_with_its_default_in_order() -> None:
    listed = [(setting.strip("`"), default.strip("`")) for setting, default, _ in table("Settings")]

    assert listed == [(name, json.dumps(default)) for name, default in defaults().items()]


def documented_metrics() -> dict[str, str]:
    """Name → type, ours alone: ``process_*`` depends on the machine."""
    return {name.strip("`"): kind for name, kind, _ in table("Metrics") if kind}


def test_readme_lists_every_metric_of_both_programs_with_its_type() -> None:
    shown = generate_latest(ProducerMetrics().registry) + generate_latest(JobMetrics().registry)

    assert shown_metrics(shown.decode()) == documented_metrics()


def shown_metrics(text: str) -> dict[str, str]:
    """As Prometheus is told them."""
    found = dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", text))
    return {name: kind for name, kind in found.items() if not name.startswith("process_")}


def test_settings_file_of_readme_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = re.search(r'\n    name = "shop"\n.*?(?=\n\S)', README, re.DOTALL)
    assert block is not None
    text = re.sub(r"(?m)^    ", "", block[0])
    (tmp_path / "walbridge.toml").write_text(text)
    monkeypatch.chdir(tmp_path)

    assert load_settings().postgres.publication_tables == tuple(tomllib.loads(text)["postgres"]["publication_tables"])


def test_the_two_set_up_commands_are_targets_of_make() -> None:
    targets = re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text())

    assert {"demo", "test"} <= set(targets)
    assert re.findall(r"(?m)^    make (\w+) ", README) == ["demo", "test"]


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:producer|spark_consumer|schemas|walbridge)/[\w/.]*)`", ARCHITECTURE)))
)
def test_file_that_architecture_names_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_architecture_lists_every_invariant_once() -> None:
    assert re.findall(r"(?m)^\| (I\d+) \|", ARCHITECTURE) == [f"I{number}" for number in range(1, 11)]
