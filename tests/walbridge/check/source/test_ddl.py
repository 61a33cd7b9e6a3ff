"""What is said of the event triggers that tell DDL."""

from __future__ import annotations

from walbridge.check.finding import Severity
from walbridge.check.source.ddl import ddl_findings
from walbridge.ddl_trigger import TRIGGERS, DdlTriggerState

ALL = tuple(sorted(TRIGGERS.values()))


def test_nothing_is_said_where_nobody_wanted_them() -> None:
    assert not list(ddl_findings(DdlTriggerState(ALL, has_publication=False, is_published=False)))


def test_all_of_it_is_well() -> None:
    (finding,) = ddl_findings(DdlTriggerState((), has_publication=True, is_published=True))
    assert finding.severity is Severity.OK


def test_what_is_missing_is_named_with_the_commands_that_mend_it() -> None:
    (finding,) = ddl_findings(DdlTriggerState(ALL[:1], has_publication=True, is_published=False))
    assert finding.severity is Severity.WARNING
    assert f"event trigger {ALL[0]} is missing" in finding.text
    assert "walbridge_ddl does not publish its table" in finding.text
    assert "walbridge init --ddl-trigger" in str(finding.remedy)


def test_triggers_of_another_version_are_told_with_the_command_that_makes_them_anew() -> None:
    (finding,) = ddl_findings(DdlTriggerState((), has_publication=True, is_published=True, is_of_this_version=False))
    assert finding.severity is Severity.WARNING
    assert "of another version" in finding.text
    assert str(finding.remedy).startswith("walbridge init --ddl-trigger")
