"""The documents say what the code says: every verb, setting, metric and type; commands, links and files that exist."""

import json
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
import yaml
from prometheus_client import generate_latest

from tests.documents import PAGES, ROOT, anchors, blocks, code, links, table
from walbridge.cli import app
from walbridge.producer.kafka.topic_specs import control_topics, data_topic_spec, status_topic_spec
from walbridge.producer.metrics import ProducerMetrics
from walbridge.role import administrator_sql
from walbridge.schemas import pg_types
from walbridge.schemas.json_format import values
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import load_settings, refuse_unknown_variables
from walbridge.spark_consumer.metrics import JobMetrics
from walbridge.verify.metrics import VerifyMetrics

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"(?m)^([a-z-]+):(?!=)", MAKEFILE))
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
VERBS = sorted(COMMANDS)
README_LINES_MAX = 150
SPARKS_OWN = "spark."
"""Properties of Spark begin like our settings of it."""


def options(verb: str) -> set[str]:
    """Without their short forms."""
    named = (name for each in COMMANDS[verb].params for name in (*each.opts, *each.secondary_opts))
    return {"--help", *(name for name in named if name.startswith("--"))}


def defaults() -> dict[str, Any]:
    """``section.field`` → default, as JSON shows it."""
    shown = Settings.model_construct().model_dump(mode="json")
    flat = {name: shown.pop(name) for name in ("name", "formerly")}
    return flat | {f"{section}.{name}": value for section, fields in shown.items() for name, value in fields.items()}


# -- tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [pg_types, values], ids=["Avro and lake", "JSON"])
def test_page_of_types_has_the_table_that_the_code_has(module: ModuleType) -> None:
    lines = (module.__doc__ or "").replace("``", "`").splitlines()
    assert "\n".join(line for line in lines if line.startswith("|")) in PAGES["docs/types.md"]


@pytest.mark.parametrize("verb", VERBS)
def test_page_of_commands_lists_the_verb(verb: str) -> None:
    assert [row[0] for row in table("docs/commands.md", "verb")].count(f"`walbridge {verb}`") == 1


def test_page_of_commands_lists_no_other_verbs() -> None:
    listed = [row[0].strip("`").removeprefix("walbridge ") for row in table("docs/commands.md", "verb")]
    assert sorted(listed) == VERBS


def test_page_of_commands_names_every_option_of_a_verb_and_no_other() -> None:
    for verb, text, *_ in table("docs/commands.md", "verb"):
        named = set(re.findall(r"`(--[a-z-]+)`", text))
        assert named == options(verb.strip("`").split()[1]) - {"--help", "--config"}, verb


def test_page_of_settings_lists_every_setting_with_its_default_in_order() -> None:
    listed = [(setting.strip("`"), default.strip("`")) for setting, default, _ in table("docs/settings.md", "setting")]

    assert listed == [(name, json.dumps(default)) for name, default in defaults().items()]


def test_page_of_settings_has_the_settings_of_every_topic_that_walbridge_makes() -> None:
    settings = Settings(name="name")
    of_tables, of_messages = (
        data_topic_spec(settings, topic, has_key=has_key)
        for topic, has_key in (("name.<schema>.<table>", True), ("name.messages", False))
    )
    documented = {
        topic: config.replace("the same", of_a_table)
        for of_a_table in [table("docs/settings.md", "topic")[3][2]]
        for topics, _, config in table("docs/settings.md", "topic")
        for topic in re.findall(r"`(name\.[^`]+)`", topics.replace("<name>", "name"))
    }

    for spec in (*control_topics(settings), status_topic_spec(settings), of_tables, of_messages):
        told = re.findall(r"`([a-z.]+)(?:=(\w+))?`(?: = (?:(\d) × )?`topics.retention_ms`)?", documented[spec.name])
        assert {name for name, *_ in told} | {"max.message.bytes"} == spec.config.keys()
        for name, value, factor in told:
            assert spec.config[name] == (value or str(int(factor or 1) * settings.topics.retention_ms)), spec.name
        assert f"is {spec.config['max.message.bytes']} by default" in PAGES["docs/settings.md"]


def test_page_of_metrics_lists_every_metric_of_all_programs_with_its_type() -> None:
    programs = ProducerMetrics(), JobMetrics(), VerifyMetrics("", 3600, 300)
    shown = b"".join(generate_latest(each.registry) for each in programs)

    assert shown_metrics(shown.decode()) == documented_metrics()


def documented_metrics() -> dict[str, str]:
    """Name → type, ours alone."""
    return {name.strip("`"): kind for name, kind, _ in table("docs/metrics.md", "metric") if kind}


def shown_metrics(text: str) -> dict[str, str]:
    """Ours, as Prometheus is told them: ``process_*`` depends on the machine."""
    found = dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", text))
    return {name: kind for name, kind in found.items() if not name.startswith("process_")}


# -- what pages name ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_link_leads_to_a_file_and_a_heading_of_it(page: str) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        assert (ROOT / path).exists(), link
        assert not anchor or anchor in anchors(path), link


def test_readme_links_every_page() -> None:
    linked = {link.partition("#")[0] for link in links("README.md")}

    assert set(PAGES) - {"README.md"} <= linked


@pytest.mark.parametrize("page", PAGES)
def test_target_of_make_that_a_page_names_exists(page: str) -> None:
    named = {target for each in code(page) for target in re.findall(r"\bmake ([a-z][a-z-]*)", each)}

    assert named <= TARGETS


@pytest.mark.parametrize("page", PAGES)
def test_verb_and_options_that_a_page_names_exist(page: str) -> None:
    for line in code(page):
        # Behind a colon it is the name of a slot or publication, in what a verb prints.
        for verb, rest in re.findall(r"(?<!: )\bwalbridge ([a-z]+)([^|;)]*)", line.partition(" # ")[0]):
            assert verb in VERBS, line
            assert set(re.findall(r"(?<=\s)--[a-z-]+", rest)) <= options(verb), line


@pytest.mark.parametrize("page", PAGES)
def test_setting_that_a_page_names_exists(page: str) -> None:
    sections = "|".join(name for name in Settings.model_fields if name != "name")
    for each in code(page):
        name = re.match(rf"(?:{sections})\.\w+$", each)
        if name and not each.startswith(SPARKS_OWN) and not (ROOT / each.replace(".", "/")).exists():
            assert each in defaults(), each


@pytest.mark.parametrize("page", PAGES)
def test_variable_that_a_page_names_exists(page: str) -> None:
    of_compose = set(re.findall(r"(?m)^#([A-Z_]+)=", (ROOT / ".env.example").read_text()))
    named = {name for each in code(page) for name in re.findall(r"\bWALBRIDGE_[A-Z_]*[A-Z]", each)}

    refuse_unknown_variables(dict.fromkeys(named - of_compose, ""))


@pytest.mark.parametrize("page", PAGES)
def test_settings_file_of_a_page_is_taken(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(PAGES[page]):
        if block.startswith("name = "):
            Path("walbridge.toml").write_text(block)
            taken = load_settings(secrets=()).postgres

            assert taken.publication_tables == tuple(tomllib.loads(block)["postgres"]["publication_tables"])


@pytest.mark.parametrize(
    "path",
    sorted(
        {
            path
            for page in ("ARCHITECTURE.md", "CONTRIBUTING.md")
            for path in re.findall(r"`((?:producer|spark_consumer|schemas|walbridge|tests)/[\w/.]*)`", PAGES[page])
        }
    ),
)
def test_file_that_a_page_for_developers_names_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_name_that_a_page_for_developers_gives_behind_a_file_is_in_that_file(page: str) -> None:
    named = [
        (path, name)
        for path, names in re.findall(r"`([a-z_]+/[\w/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", PAGES[page])
        for name in re.findall(r"\w+", names)
    ]
    defined = r"(?m)^\s*(?:def |class |self\.)?{}\b(?: = |: |\(|$)"

    assert [each for each in named if not re.search(defined.format(each[1]), (ROOT / each[0]).read_text())] == []


def test_sql_that_the_tutorial_shows_is_what_its_settings_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = blocks(PAGES["docs/tutorial.md"])
    Path("walbridge.toml").write_text(next(block for block in shown if block.startswith("name = ")))

    assert administrator_sql(load_settings(secrets=()), None) in shown


# -- README, ARCHITECTURE and what runs beside make ----------------------------------------------------


def test_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= README_LINES_MAX


def test_the_two_set_up_commands_are_targets_of_make() -> None:
    assert {"demo", "test"} <= TARGETS
    assert re.findall(r"(?m)^    make (\w+) ", PAGES["README.md"]) == ["demo", "test"]


def test_architecture_lists_every_invariant_once() -> None:
    assert re.findall(r"(?m)^\| (I\d+) \|", PAGES["ARCHITECTURE.md"]) == [f"I{number}" for number in range(1, 11)]


def test_hooks_before_a_commit_are_the_steps_of_make_check_but_for_its_tests() -> None:
    (recipe,) = re.findall(r"(?m)^check: setup\n((?:\t.*\n)+)", MAKEFILE)
    (beside_tests,) = re.findall(r"(?m)^STATIC := (.*)", MAKEFILE)
    steps = re.findall(r"(?m)^\t\$\(BIN\)/(.*)", recipe)
    steps += re.findall(r"\$\(BIN\)/(.*?)(?: && |$)", beside_tests)
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = [hook["entry"] for repo in repos for hook in repo["hooks"]]

    assert [repo["repo"] for repo in repos] == ["local"]
    assert hooks == steps


def test_workflow_runs_all_tests_on_each_change_and_those_that_take_more_every_night() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in workflow["jobs"].items()}

    assert commands == {"test": [".ci/run"], "compose": ["make compose-test"], "soak": ["make soak"]}
    assert {"push", "pull_request", "schedule"} <= workflow[True].keys()  # YAML reads `on` so
    assert {"compose-test", "soak"} <= {*TARGETS}


def test_pages_that_code_cites_are_in_the_repository() -> None:
    """A reference that leads nowhere is worse than none."""
    cited = {
        (str(path.relative_to(ROOT)), page)
        for path in code_files()
        for page in re.findall(r"(?<![\w/])([\w/]+\.md)\b", path.read_text())
    }
    missing = {
        (path, page) for path, page in cited if not any((folder / page).exists() for folder in (ROOT, ROOT / "docs"))
    }
    assert not missing


def test_modules_that_docstrings_name_are_there() -> None:
    modules = [str(path.relative_to(ROOT)) for path in code_files()]
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in code_files()
        for name in re.findall(r"``([\w/]+\.py)``", path.read_text())
    }
    assert not {(path, name) for path, name in named if not any(f"/{each}".endswith(f"/{name}") for each in modules)}


def code_files() -> list[Path]:
    """Python of the project, tests included."""
    folders = ("schemas", "producer", "spark_consumer", "walbridge", "tests")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
