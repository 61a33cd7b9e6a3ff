"""The result of one check: what was found, how bad it is, and what mends it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from walbridge.schemas.errors import EXIT_OPERATOR, OperatorError

LAKE = "lake"
"""The area of a check that may not be importable here: its findings need the name."""


class Severity(StrEnum):
    """advice: works, but not well. warning: works now, may stop or differ. error: does not work."""

    OK = "ok"
    ADVICE = "advice"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """``remedy``: the SQL, command or setting that mends it; none where all is well."""

    area: str
    severity: Severity
    text: str
    remedy: str | None = None


def ok(area: str, text: str) -> Finding:
    """All is well."""
    return Finding(area, Severity.OK, text)


def advice(area: str, text: str, remedy: str) -> Finding:
    """It works, but could do so better."""
    return Finding(area, Severity.ADVICE, text, remedy)


def warning(area: str, text: str, remedy: str) -> Finding:
    """It works now, but may stop or differ."""
    return Finding(area, Severity.WARNING, text, remedy)


def error(area: str, text: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(area, Severity.ERROR, text, remedy)


def refused(area: str, refusal: OperatorError) -> Finding:
    """An error that would stop a program, with that program's text and remedy."""
    return error(area, refusal.what, refusal.remedy)


def not_checked(area: str, peer: str) -> Finding:
    """A check that could not be made, since a peer is away, or has an answer that cannot be read."""
    return Finding(area, Severity.WARNING, f"not checked: {peer} did not answer in full")


def exit_code(findings: Iterable[Finding]) -> int:
    """0 when nothing is an error, else 2."""
    return EXIT_OPERATOR if any(finding.severity is Severity.ERROR for finding in findings) else 0
