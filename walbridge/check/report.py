"""What ``walbridge check`` prints: a table on a terminal, lines elsewhere, or one JSON object."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from walbridge.check.finding import Finding, Severity

_STYLES = {Severity.OK: "green", Severity.ADVICE: "cyan", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}


def as_table(findings: Sequence[Finding]) -> Table:
    """For a terminal; what mends a finding stands below it, whole, so that it can be copied."""
    table = Table(show_lines=False, pad_edge=False)
    for heading in ("area", "", "finding"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "finding")
    area = ""
    for finding in findings:
        text = Text(finding.text)
        if finding.remedy:
            text.append(f"\n→ {finding.remedy}", style="dim")
        severity = Text(finding.severity, style=_STYLES[finding.severity])
        table.add_row(finding.area if finding.area != area else "", severity, text)
        area = finding.area
    return table


def as_text(findings: Sequence[Finding]) -> str:
    """``severity area: finding``, and below it what mends it."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.severity:<8} {finding.area}: {finding.text}")
        lines += [f"{'':<8} → {finding.remedy}"] if finding.remedy else []
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """``{"findings": [...], "counts": {...}}``."""
    shown = [asdict(finding) for finding in findings]
    return json.dumps({"findings": shown, "counts": _counts(findings)}, ensure_ascii=False)


def verdict(findings: Sequence[Finding]) -> str:
    """The last line."""
    errors, warnings, advice, fine = _counts(findings).values()
    return f"errors: {errors}, warnings: {warnings}, advice: {advice}, ok: {fine}"


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    counted = Counter(finding.severity for finding in findings)
    return {severity.value: counted[severity] for severity in reversed(Severity)}
