"""What ``walbridge check`` prints: by area on a terminal, lines elsewhere, or one JSON object.

People are told once what holds of many tables; the JSON object has each finding.
"""

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.text import Text

from walbridge.check.finding import Finding, Severity
from walbridge.check.similar_findings import grouped

_STYLES = {Severity.OK: "green", Severity.ADVICE: "blue", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}
_INDENT = 11
"""Where findings begin: behind the longest severity."""
_TEXT_MIN = 20


def for_terminal(findings: Sequence[Finding], width: int) -> Iterator[Text]:
    """Findings by area, wrapped to the width. A remedy stays on one line, so that it can be copied."""
    area = ""
    for similar in grouped(findings):
        finding = similar.first
        if finding.area != area:
            area = finding.area
            yield Text(area, style="bold")
        severity = Text(f"  {finding.severity:<9}", style=_STYLES[finding.severity])
        first, *more = textwrap.wrap(finding.text, max(width - _INDENT, _TEXT_MIN), break_on_hyphens=False)
        yield severity + Text(first)
        yield from (Text(" " * _INDENT + line) for line in more)
        if finding.remedy:
            yield Text(" " * (_INDENT - 2)) + Text(f"→ {finding.remedy}", style="cyan")
        for line in textwrap.wrap(similar.rest or "", max(width - _INDENT, _TEXT_MIN), break_on_hyphens=False):
            yield Text(" " * _INDENT + line)


def as_text(findings: Sequence[Finding]) -> str:
    """``severity area: finding``, and below it what mends it."""
    lines = []
    for similar in grouped(findings):
        finding = similar.first
        lines.append(f"{finding.severity:<8} {finding.area}: {finding.text}")
        lines += [f"{'':<8} → {finding.remedy}"] if finding.remedy else []
        lines += [f"{'':<8}   {similar.rest}"] if similar.rest else []
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """``{"findings": [...], "counts": {...}}``."""
    shown = [asdict(finding) for finding in findings]
    return json.dumps({"findings": shown, "counts": _counts(findings)}, ensure_ascii=False)


def verdict(findings: Sequence[Finding]) -> str:
    """The last line: how many findings of each severity there are."""
    errors, warnings, advice, fine = _counts(findings).values()
    return f"errors: {errors}, warnings: {warnings}, advice: {advice}, ok: {fine}"


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    counted = Counter(finding.severity for finding in findings)
    return {severity.value: counted[severity] for severity in reversed(Severity)}
