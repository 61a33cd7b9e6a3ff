"""Findings that differ only in what they are about are shown once, with their number and some examples.

In: findings. Out: groups in the order of their first findings. Two findings are similar if area, severity, text and
remedy differ only in names with a dot (tables, topics, files), LSNs and numbers. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from walbridge.check.finding import Finding, Severity

TOLD_SINGLY_MAX = 3
EXAMPLES_MAX = 5
_NAME = re.compile(r'(?:"[^"]*"|[\w-])+(?:\.(?:"[^"]*"|[\w-])+)+')
_PLACE = re.compile(r"\b[0-9A-F]+/[0-9A-F]+\b|\d[\d,]*")


@dataclass(slots=True)
class SimilarFindings:
    """``first``: the first finding of the group, shown in full; ``others``: what each of the others is about."""

    first: Finding
    others: list[str] = field(default_factory=list)

    @property
    def rest(self) -> str | None:
        """One line for all the others; None where there are none."""
        if not self.others:
            return None
        shown, more = self.others[:EXAMPLES_MAX], len(self.others) - EXAMPLES_MAX
        return f"and {len(self.others):,} more likewise: {', '.join(shown)}{', …' if more > 0 else ''}"


def grouped(findings: Iterable[Finding]) -> Iterator[SimilarFindings]:
    """Groups of similar findings. Up to ``TOLD_SINGLY_MAX`` of them stay single, so that each shows its own remedy."""
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        key: object = number if finding.severity is Severity.OK else _key(finding)
        groups.setdefault(key, []).append(finding)
    for group in groups.values():
        if len(group) <= TOLD_SINGLY_MAX:
            yield from (SimilarFindings(each) for each in group)
        else:
            yield SimilarFindings(group[0], [_about(each, group[0]) for each in group[1:]])


def _key(finding: Finding) -> tuple[str, ...]:
    return finding.area, finding.severity, _masked(finding.text), _masked(finding.remedy or "")


def _masked(text: str) -> str:
    return _PLACE.sub("…", _NAME.sub("…", text))


def _about(finding: Finding, first: Finding) -> str:
    """The first name in which a finding differs from the first one."""
    names: Sequence[str] = _NAME.findall(finding.text)
    known = _NAME.findall(first.text)
    return next((name for name, other in zip(names, known, strict=False) if name != other), finding.text)
