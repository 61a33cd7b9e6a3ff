"""What ``walbridge check`` prints, and the exit code that scripts go by."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

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


@pytest.mark.parametrize("width", [60, 80, 120])
def test_table_fits_the_terminal_and_loses_no_word_of_a_remedy(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(report.as_table([FINE, warning("server", "no limit", LONG), BAD]))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()

    assert max(map(len, lines)) <= width
    findings = [line.split("│")[3].strip() for line in lines if line.count("│") == 4]
    assert LONG in " ".join(findings)
