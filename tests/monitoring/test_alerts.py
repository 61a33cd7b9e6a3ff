"""The alert rules and the dashboard: each names metrics that exist, and each alert fires when it should and not before.

``recorded.prom`` is what both programs showed at ``/metrics`` while they followed a load, as they wrote it. For each
alert one gauge of it is changed to what the alert is about; Prometheus' own ``promtool`` says what fires.
"""

from __future__ import annotations

import functools
import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.documents import PAGES, ROOT, anchor_of, anchors, table

RULES = ROOT / "docker" / "monitoring" / "alerts.yml"
DASHBOARD = ROOT / "docker" / "monitoring" / "grafana.json"
RECORDED = Path(__file__).parent / "recorded.prom"
GIB = 2**30
UNKNOWN = " ".join(["NaN"] * 201)
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: it is in Debian's prometheus")


@dataclass(frozen=True)
class Case:
    """What makes an alert fire: series and values a minute instead of what was recorded; ``gone``: of which program."""

    minutes: int
    changed: dict[str, str] = field(default_factory=dict)
    gone: str = ""


def state_of(program: str, state: str) -> dict[str, str]:
    name = f"walbridge_{program}_state"
    usual = {"producer": "streaming", "job": "running"}[program]
    return {f'{name}{{{name}="{usual}"}}': "0x200", f'{name}{{{name}="{state}"}}': "1x200"}


CASES = {
    "WalbridgeProducerGone": Case(30, gone="walbridge_producer"),
    "WalbridgeJobGone": Case(30, gone="walbridge_job"),
    "WalbridgeStartsAgainOften": Case(10, {"walbridge_job_start_time_seconds": "0+120x200"}),
    "WalbridgeProducerWaits": Case(10, state_of("producer", "waiting for Postgres")),
    "WalbridgeJobWaits": Case(10, state_of("job", "waiting for Kafka")),
    "WalbridgeProducerStalled": Case(15, {"walbridge_producer_since_progress_seconds": "0+60x200"}),
    "WalbridgeJobStalled": Case(15, {"walbridge_job_since_progress_seconds": "0+60x200"}),
    "WalbridgeKafkaBehind": Case(15, {"walbridge_producer_publish_delay_seconds": "0+60x200"}),
    "WalbridgeLakeBehind": Case(25, {"walbridge_job_published_age_seconds": "0+60x200"}),
    "WalbridgeRecordsExpireUnread": Case(
        70,
        {
            "walbridge_job_published_time_seconds": "0x200",
            "walbridge_job_unread_time_seconds": "0x200",
            "walbridge_job_published_lsn": "1x200",
            "walbridge_producer_records_kept_seconds": "7200x200",
        },
    ),
    "WalbridgePlanTakesLong": Case(35, {"walbridge_job_plan_age_seconds": "0+60x200"}),
    "WalbridgeSlotLost": Case(
        5,
        {
            'walbridge_producer_slot_wal_status{status="reserved"}': "0x200",
            'walbridge_producer_slot_wal_status{status="lost"}': "1x200",
        },
    ),
    "WalbridgeSlotRunsOut": Case(5, {"walbridge_producer_slot_wal_left_seconds": "7200-60x200"}),
    "WalbridgeSlotKeepsWal": Case(20, {"walbridge_producer_slot_wal_bytes": f"{11 * GIB}x200"}),
    "WalbridgeSlotUnseen": Case(15, {"walbridge_producer_server_silent_seconds": "0+60x200"}),
    "WalbridgePreparedForgotten": Case(65, {"walbridge_producer_prepared_transactions": "1x200"}),
    "WalbridgeLakeDiffers": Case(5, {"walbridge_verify_unequal_tables_total": "0 0 1x200"}),
    "WalbridgeVerifyLate": Case(190, {"walbridge_verify_whole_run_age_seconds": "0+60x200"}),
    "WalbridgeVerifyGone": Case(30, gone="walbridge_verify"),
    "WalbridgeTablesNotCurrent": Case(20, {'walbridge_job_tables{state="stale"}': "2x200"}),
    "WalbridgeLakeDiskFills": Case(10, {"walbridge_job_lake_free_bytes": f"{GIB}x200"}),
    "WalbridgeSpoolDiskFills": Case(10, {"walbridge_producer_spool_free_bytes": f"{GIB // 2}x200"}),
    "WalbridgeBeginsAgainOften": Case(70, {'walbridge_producer_retries_total{peer="kafka"}': "0+1x200"}),
}


@functools.cache
def rules() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


@functools.cache
def recorded() -> list[Sample]:
    return [
        sample
        for family in text_string_to_metric_families(RECORDED.read_text())
        for sample in family.samples
        if sample.name.startswith("walbridge_")
    ]


def named(expression: str) -> set[str]:
    """Metrics, without what a histogram or a counter adds."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bwalbridge_\w+", expression)}


def documented() -> set[str]:
    return {name.strip("`") for name, kind, _ in table("docs/metrics.md", "metric") if kind}


def test_alerts_name_documented_metrics_only() -> None:
    for name, rule in rules().items():
        assert named(rule["expr"]) <= documented(), name


def test_dashboard_names_documented_metrics_only() -> None:
    board = json.loads(DASHBOARD.read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]

    assert len(shown) > len(board["panels"]) / 2
    for expression in shown:
        assert named(expression), expression
        assert named(expression) <= documented(), expression
        assert 'pipeline=~"$pipeline"' in expression


def test_page_of_metrics_lists_every_alert_with_what_it_means_and_what_mends_it() -> None:
    listed = [tuple(row) for row in table("docs/metrics.md", "alert")]

    assert listed == [
        (
            f"`{name}`",
            rule["labels"]["severity"],
            rule["annotations"]["summary"],
            f"{rule['annotations']['remedy']} ([runbook]({rule['annotations']['runbook'].removeprefix('docs/')}))",
        )
        for name, rule in rules().items()
    ]


@pytest.mark.parametrize("alert", rules())
def test_alert_leads_to_the_part_of_the_runbook_that_names_it(alert: str) -> None:
    page, _, anchor = rules()[alert]["annotations"]["runbook"].partition("#")
    parts = {anchor_of(part.partition("\n")[0]): part for part in re.split(r"(?m)^## ", PAGES[page])[1:]}

    assert page == "docs/runbook.md"
    assert anchor in anchors(page)
    assert f"`{alert}`" in parts[anchor]


def test_every_alert_has_a_case_that_makes_it_fire() -> None:
    assert CASES.keys() == rules().keys()


def test_what_was_recorded_has_every_metric_of_today() -> None:
    """Else it was recorded of other programs than these: ``recorded.prom`` says how to make it anew."""
    families = {family.name for family in text_string_to_metric_families(RECORDED.read_text())}
    of_today = {name.removesuffix("_total") for name in documented()}

    assert {name for name in families if name.startswith("walbridge_")} == of_today


@needs_promtool
@pytest.mark.parametrize("alert", CASES)
def test_alert_fires_and_no_other_that_it_does_not_bring_with_it(alert: str, tmp_path: Path) -> None:
    case = CASES[alert]
    fired = {each: _labels(each, case) if each == alert else [] for each in rules()}

    assert promtool(tmp_path, series(case), case.minutes, fired) == ""


@needs_promtool
def test_table_that_the_producer_leaves_out_fires_also_where_no_job_tells_of_it(tmp_path: Path) -> None:
    alert = "WalbridgeTablesNotCurrent"
    case = Case(20, {'walbridge_producer_tables{state="quarantined"}': "1x200"})
    fired = {each: _labels(each, case) if each == alert else [] for each in rules()}

    assert promtool(tmp_path, series(case), case.minutes, fired) == ""


@needs_promtool
def test_difference_that_was_found_before_the_first_scrape_fires_too(tmp_path: Path) -> None:
    """A counter that was never seen at 0 never increased."""
    found = {"walbridge_verify_unequal_tables_total": "1x200", 'walbridge_verify_tables{result="unequal"}': "1x200"}
    alert = "WalbridgeLakeDiffers"
    fired = {each: _labels(each, Case(5)) if each == alert else [] for each in rules()}

    assert promtool(tmp_path, series(Case(5, found)), 5, fired) == ""


@needs_promtool
@pytest.mark.parametrize("alert", ["WalbridgeProducerGone", "WalbridgeJobGone", "WalbridgeVerifyGone"])
def test_program_that_is_gone_for_weeks_is_still_told(alert: str, tmp_path: Path) -> None:
    case = Case(20 * 24 * 60, gone=CASES[alert].gone)

    assert promtool(tmp_path, series(case), case.minutes, {alert: _labels(alert, case)}, evaluated="6h") == ""


def test_program_that_is_gone_on_purpose_has_a_remedy_too() -> None:
    for alert in ("WalbridgeProducerGone", "WalbridgeJobGone"):
        assert "walbridge drop" in rules()[alert]["annotations"]["remedy"]


def unread(**changed: str) -> dict[str, str]:
    """Series by the ends of their names; what keeps unread records, changed. ``time`` is of both that tell one."""
    found = dict(CASES[EXPIRE].changed)
    for name in found:
        end = name.removesuffix("_seconds").rpartition("_")[2]
        found[name] = changed.get(end, found[name])
    return found


EXPIRE = "WalbridgeRecordsExpireUnread"
PUBLISHED, UNREAD = "walbridge_job_published_time_seconds", "walbridge_job_unread_time_seconds"


@needs_promtool
@pytest.mark.parametrize("lived_minutes", [5, 65])
def test_records_expire_unread_also_where_the_job_is_gone_or_has_read_nothing_since_a_start(
    lived_minutes: int, tmp_path: Path
) -> None:
    """A program that was started again and refuses at once shows that it has published nothing."""
    gone = unread(time=f"0x{lived_minutes} NaN _x200", lsn=f"1x{lived_minutes} 0 _x200")
    case = Case(80, gone)

    assert promtool(tmp_path, series(case), 80, {EXPIRE: _labels(EXPIRE, Case(80))}) == ""


@needs_promtool
@pytest.mark.parametrize(
    ("minutes", "changed"),
    [
        (55, {}),
        (190, {"kept": " ".join(["Inf"] * 201)}),
        (190, {"time": "0+60x200"}),
        (190, {"lsn": "100000000000x200"}),
    ],
    ids=["before half of the time is over", "kept for ever", "a job that follows", "nothing is unread"],
)
def test_records_that_do_not_expire_soon_or_were_read_fire_nothing(
    minutes: int, changed: dict[str, str], tmp_path: Path
) -> None:
    assert promtool(tmp_path, series(Case(minutes, unread(**changed))), minutes, {EXPIRE: []}) == ""


@needs_promtool
@pytest.mark.parametrize(
    ("began", "fires"),
    [("0x200", True), ("0+60x200", False), ("0x40 2400+60x200", False)],
    ids=["hours ago", "none", "hours ago, and it is in the lake"],
)
def test_records_of_a_copy_expire_unread_though_all_else_is_published(began: str, fires: bool, tmp_path: Path) -> None:
    """They are read once, when it has ended, from the first one on."""
    case = Case(80, unread(lsn="100000000000x200") | {PUBLISHED: "0+60x200", UNREAD: began})
    expected = _labels(EXPIRE, Case(80)) if fires else []

    assert promtool(tmp_path, series(case), 80, {EXPIRE: expected}) == ""


def slot_status(**values: str) -> dict[str, str]:
    return {f'walbridge_producer_slot_wal_status{{status="{status}"}}': told for status, told in values.items()}


@needs_promtool
@pytest.mark.parametrize("minutes", [3, 12])
def test_slot_is_told_lost_by_a_producer_that_met_that_and_ended_within_seconds(minutes: int, tmp_path: Path) -> None:
    lost = Case(minutes, slot_status(reserved="0 stale _x200", missing="1 stale _x200"))
    alert = "WalbridgeSlotLost"
    labels = [{**each, "exp_labels": each["exp_labels"] | {"status": "missing"}} for each in _labels(alert, lost)]

    assert promtool(tmp_path, series(lost), minutes, {alert: labels}) == ""


@needs_promtool
@pytest.mark.parametrize("minutes", [0, 1, 2, 5])
def test_slot_that_a_first_start_makes_is_not_told_lost(minutes: int, tmp_path: Path) -> None:
    made = Case(minutes, slot_status(reserved="0 1x200", missing="1 0x200"))

    assert promtool(tmp_path, series(made), minutes, {"WalbridgeSlotLost": []}) == ""


@needs_promtool
def test_no_alert_fires_while_both_programs_do_their_work(tmp_path: Path) -> None:
    assert promtool(tmp_path, series(Case(120)), 120, {alert: [] for alert in rules()}) == ""


@needs_promtool
def test_what_is_not_known_fires_no_alert_of_its_own(tmp_path: Path) -> None:
    """NaN compares with nothing: while Postgres is away its WAL is not small, and not large."""
    unknown = {
        sample.name: UNKNOWN
        for sample in recorded()
        if sample.name.startswith("walbridge_producer_slot_wal_") and not set(sample.labels) - {"pipeline"}
    }
    assert unknown
    assert promtool(tmp_path, series(Case(120, unknown)), 120, {alert: [] for alert in rules()}) == ""


def series(case: Case) -> Iterator[dict[str, str]]:
    """What was recorded, the same for hours; but what the case changes."""
    left = dict(case.changed)
    for sample in recorded():
        own = {name: value for name, value in sample.labels.items() if name != "pipeline"}
        changed = left.pop(_selector(sample.name, own), None)
        value = changed or (UNKNOWN if math.isnan(sample.value) else f"{sample.value}x200")
        if case.gone and sample.name.startswith(case.gone):
            value = "_x200" if math.isnan(sample.value) else f"{sample.value}x5 _x200"
        yield {"series": _selector(sample.name, sample.labels), "values": value}
    for selector, value in left.items():  # a table that is stale has a series only then
        name, _, labels = selector.partition("{")
        yield {"series": f'{name}{{pipeline="{pipeline()}",{labels or "}"}', "values": value}


def pipeline() -> str:
    (name,) = {sample.labels["pipeline"] for sample in recorded()}
    return name


def _selector(name: str, labels: dict[str, str]) -> str:
    inner = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{inner}}}" if inner else name


def _labels(alert: str, case: Case) -> list[dict[str, Any]]:
    """Of the one series that fires."""
    labels = {"severity": rules()[alert]["labels"]["severity"], "pipeline": pipeline()}
    for selector, value in case.changed.items():
        if not value.startswith("0x"):
            labels |= dict(re.findall(r'(\w+)="([^"]*)"', selector))
    annotations = rules()[alert]["annotations"]
    return [{"exp_labels": labels, "exp_annotations": annotations}]


def promtool(
    folder: Path,
    input_series: Iterator[dict[str, str]],
    minutes: int,
    fired: dict[str, list[dict[str, Any]]],
    evaluated: str = "1m",
) -> str:
    """What differs from the alerts that are to fire after so many minutes."""
    assert PROMTOOL is not None
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": evaluated,
        "tests": [
            {
                "interval": "1m",
                "input_series": list(input_series),
                "alert_rule_test": [
                    {"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": alerts}
                    for alert, alerts in fired.items()
                ],
            }
        ],
    }
    written = folder / "tests.yml"
    written.write_text(json.dumps(tests))  # which is YAML too
    done = subprocess.run([PROMTOOL, "test", "rules", str(written)], capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr
