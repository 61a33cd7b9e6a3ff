"""What ``walbridge check`` prints, and the exit code that scripts go by."""

from __future__ import annotations

import json

import pytest

from walbridge.check import report
from walbridge.check.finding import Finding, advice, error, exit_code, not_checked, ok, warning

FINE, HINT = ok("server", "Postgres 18.4"), advice("slot", "slot s does not exist yet", "walbridge init")
ODD, BAD = warning("lake", "odd", "look"), error("role", "r may not replicate", 'ALTER ROLE "r" REPLICATION;')
LONG = (
    "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf(); (then read on at the very same place)"
)


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([FINE], 0),
        ([FINE, HINT, ODD, not_checked("topics", "Kafka")], 0),
        ([FINE, BAD], 2),
        ([BAD, FINE, ODD], 2),
    ],
)
def test_exit_code_is_2_only_when_something_is_an_error(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code


def test_lines_name_severity_and_area_and_the_remedy_stands_below() -> None:
    assert report.as_text([FINE, BAD]).splitlines() == [
        "ok       server: Postgres 18.4",
        "error    role: r may not replicate",
        '         → ALTER ROLE "r" REPLICATION;',
    ]


def test_json_holds_every_finding_and_the_counts() -> None:
    shown = json.loads(report.as_json([FINE, HINT, BAD, BAD]))

    assert shown["counts"] == {"error": 2, "warning": 0, "advice": 1, "ok": 1}
    assert shown["findings"][1] == {
        "area": "slot",
        "severity": "advice",
        "text": "slot s does not exist yet",
        "remedy": "walbridge init",
    }
    assert [finding["remedy"] for finding in shown["findings"]] == [None, "walbridge init", BAD.remedy, BAD.remedy]


def test_verdict_counts_each_severity() -> None:
    assert report.verdict([FINE, FINE, HINT, BAD]) == "errors: 1, warnings: 0, advice: 1, ok: 2"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_findings_are_wrapped_to_the_terminal_and_a_remedy_is_one_line_to_copy(width: int) -> None:
    shown = [line.plain for line in report.for_terminal([FINE, warning("server", LONG, LONG), BAD], width)]

    assert shown[:2] == ["server", "  ok       Postgres 18.4"]
    assert shown[-3:] == ["role", "  error    r may not replicate", '         → ALTER ROLE "r" REPLICATION;']
    remedy = shown.index(f"         → {LONG}")
    wrapped = shown[2:remedy]
    assert max(map(len, wrapped)) <= width
    assert wrapped[0].startswith("  warning  ALTER")
    assert " ".join(line[11:] for line in wrapped) == LONG
