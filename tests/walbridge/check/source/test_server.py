"""Judgements of the server, for states in which a test server is not to be brought."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from walbridge.check.finding import Severity, exit_code
from walbridge.check.source.server import ServerFacts, server_findings
from walbridge.schemas.errors import NAME_THE_PRIMARY

HEALTHY = ServerFacts(
    version="18.4",
    version_number=180_004,
    in_recovery=False,
    wal_level="logical",
    encoding="UTF8",
    slots_max=10,
    slots_used=1,
    walsenders_max=10,
    walsenders_used=1,
    wal_sender_timeout_ms=60_000,
    slot_wal_keep_mb=51_200,
    idle_slot_timeout_s=0,
)
RESTART = "and restart the server"
KEEP_WAL = (
    "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf(); "
    "(a slot further behind is then lost, and a new copy needed); or watch walbridge status"
)
CASES: dict[str, tuple[dict[str, Any], Severity, str, str]] = {
    "older than pgoutput's options": (
        {"version": "11.22", "version_number": 110_022},
        Severity.ERROR,
        "Postgres 11.22 is too old",
        "use Postgres 12 or newer",
    ),
    "newer than what was tested": (
        {"version": "19.1", "version_number": 190_001},
        Severity.ADVICE,
        "Postgres 19.1 is newer than 18, the newest that was tested",
        "compare with walbridge verify before you rely on it",
    ),
    "standby": (
        {"in_recovery": True},
        Severity.ERROR,
        "the server is a standby, which cannot be followed",
        NAME_THE_PRIMARY,
    ),
    "wal_level": (
        {"wal_level": "replica"},
        Severity.ERROR,
        "the server has wal_level = replica",
        f"ALTER SYSTEM SET wal_level = logical; {RESTART}",
    ),
    "encoding": (
        {"encoding": "SQL_ASCII"},
        Severity.ERROR,
        "the database's encoding is SQL_ASCII, which Postgres does not convert to UTF-8",
        "dump it and load it into a database created with ENCODING 'UTF8'",
    ),
    "no slot left": (
        {"slots_used": 10},
        Severity.ERROR,
        "10 of max_replication_slots = 10 in use: none left for ours",
        f"ALTER SYSTEM SET max_replication_slots = 14; {RESTART}",
    ),
    "no walsender left": (
        {"walsenders_used": 10},
        Severity.ERROR,
        "10 of max_wal_senders = 10 in use: none left",
        f"ALTER SYSTEM SET max_wal_senders = 14; {RESTART}",
    ),
    "one walsender left": (
        {"walsenders_used": 9},
        Severity.WARNING,
        "9 of max_wal_senders = 10 in use: a start of the producer needs 2",
        f"ALTER SYSTEM SET max_wal_senders = 14; {RESTART}",
    ),
    "sessions that are never given up": (
        {"wal_sender_timeout_ms": 0},
        Severity.ADVICE,
        "wal_sender_timeout = 0: after a cut connection the slot stays in use until the server notices",
        "ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf();",
    ),
    "WAL without limit": (
        {"slot_wal_keep_mb": -1},
        Severity.WARNING,
        "max_slot_wal_keep_size = -1: while nobody reads the slot it keeps WAL until the disk is full and the "
        "primary stops",
        KEEP_WAL,
    ),
    "server that knows no limit": (
        {"slot_wal_keep_mb": None},
        Severity.WARNING,
        "no max_slot_wal_keep_size: while nobody reads the slot it keeps WAL until the disk is full and the "
        "primary stops",
        "watch walbridge status; Postgres 13 and newer can be given a limit",
    ),
    "slots that idle out": (
        {"idle_slot_timeout_s": 3600},
        Severity.ADVICE,
        "idle_replication_slot_timeout = 3600 s: a producer that is stopped for longer loses its slot",
        "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();",
    ),
}


def test_healthy_server_gives_no_advice() -> None:
    findings = list(server_findings(HEALTHY, slot_exists=False))

    assert {finding.severity for finding in findings} == {Severity.OK}
    assert exit_code(findings) == 0


@pytest.mark.parametrize(("changes", "severity", "text", "remedy"), CASES.values(), ids=CASES)
def test_one_trouble_is_one_finding_with_its_remedy(
    changes: dict[str, Any], severity: Severity, text: str, remedy: str
) -> None:
    findings = server_findings(replace(HEALTHY, **changes), slot_exists=False)

    (found,) = [finding for finding in findings if finding.severity is not Severity.OK]
    assert (found.area, found.severity, found.text, found.remedy) == ("server", severity, text, remedy)


def test_slots_that_are_all_in_use_are_no_trouble_when_one_is_ours() -> None:
    findings = server_findings(replace(HEALTHY, slots_used=10), slot_exists=True)

    assert {finding.severity for finding in findings} == {Severity.OK}


@pytest.mark.parametrize("major", range(12, 19))
def test_every_version_that_is_tested_is_well(major: int) -> None:
    facts = replace(HEALTHY, version=f"{major}.1", version_number=major * 10_000 + 1)

    assert {each.severity for each in server_findings(facts, slot_exists=False)} == {Severity.OK}
