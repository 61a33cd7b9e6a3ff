"""Judgements of a slot as the server tells of it, and of the guards that a start would meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from walbridge.check.finding import Finding, Severity, advice, error, ok, warning
from walbridge.check.source.slot import MUCH_WAL_BYTES, SlotCase, failover_findings, guard_findings, slot_findings
from walbridge.producer.postgres.facts import ServerIdentity, SlotState
from walbridge.producer.postgres.requirements import stream_options
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import COPY_ALL, NEW_PIPELINE, OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings

SETTINGS = Settings(name="shop")
RESERVED = SlotState("pgoutput", "shop", None, "reserved", Lsn(0x200), two_phase=False)
SERVER = ServerIdentity("7", 1, Lsn(0x300), "shop", 180006)
STREAMING = Progress(
    "streaming",
    "7",
    1,
    "walbridge",
    "shop",
    consistent_point=Lsn(0x100),
    cut_id=5,
    end_lsn=Lsn(0x200),
    done=Lsn(0x200),
    floor=Lsn(0x200),
    options=stream_options(SETTINGS, SERVER.version),
)


def state(**changes: Any) -> SlotState:
    return replace(RESERVED, **changes)


SLOTS: dict[str, tuple[SlotCase, Finding]] = {
    "missing": (SlotCase("s", None), advice("slot", "slot s does not exist yet", "walbridge init")),
    "in use": (
        SlotCase("s", state(active_pid=7), retained_bytes=1_500_000),
        ok("slot", "s: in use (pid 7), holds 1.5 MB of WAL"),
    ),
    "idle": (
        SlotCase("s", RESERVED, retained_bytes=0, safe_wal_size_bytes=2 * 10**9),
        ok("slot", "s: nobody reads it now, holds 0 B of WAL, lost after 2.0 GB more"),
    ),
    "just made": (
        SlotCase("s", state(wal_status=None, confirmed_flush=None)),
        ok("slot", "s: nobody reads it now, holds no WAL"),
    ),
    "idle with much WAL": (
        SlotCase("s", RESERVED, retained_bytes=MUCH_WAL_BYTES + 1),
        warning(
            "slot",
            "slot s holds 10.0 GB of WAL, and nobody reads it",
            "walbridge produce; or, if the pipeline is no longer wanted, walbridge drop",
        ),
    ),
    "in use with much WAL": (
        SlotCase("s", state(active_pid=7), retained_bytes=MUCH_WAL_BYTES + 1),
        ok("slot", "s: in use (pid 7), holds 10.0 GB of WAL"),
    ),
    "about to be lost": (
        SlotCase("s", state(active_pid=7, wal_status="unreserved"), retained_bytes=3 * 10**9, safe_wal_size_bytes=-5),
        error(
            "slot",
            "slot s holds 3.0 GB of WAL, more than max_slot_wal_keep_size: it is lost at the next checkpoint",
            "raise max_slot_wal_keep_size and run SELECT pg_reload_conf(); at once, then start walbridge produce",
        ),
    ),
    "lost": (
        SlotCase("s", state(wal_status="lost")),
        error(
            "slot",
            "slot s is lost: the server removed WAL that was not read yet",
            COPY_ALL,
        ),
    ),
    "lost since nobody read it": (
        SlotCase("s", state(wal_status="lost", invalidation_reason="idle_timeout")),
        error("slot", "slot s is lost: nobody read it for as long as idle_replication_slot_timeout says", COPY_ALL),
    ),
}
GUARDS: dict[str, tuple[Progress | None, SlotState | None, Finding]] = {
    "nothing yet": (None, None, ok("slot", "server, slot and progress fit together (no cut yet)")),
    "streaming": (STREAMING, RESERVED, ok("slot", "server, slot and progress fit together (cut 5, streaming)")),
    "copy that was not finished": (
        replace(STREAMING, state="copying"),
        None,
        ok("slot", "server, slot and progress fit together (cut 5, copying)"),
    ),
    "slot without progress": (
        None,
        RESERVED,
        error(
            "slot",
            "slot walbridge exists, but <pipeline>.progress says nothing of it",
            "if it is this pipeline's, whose topics were deleted, or nobody needs it: walbridge drop --slot-only, then "
            "walbridge produce, which copies all tables; else name another in [postgres] slot; if the pipeline had "
            "another name before, set formerly to that one",
        ),
    ),
    "progress without its slot": (
        STREAMING,
        None,
        error("slot", "slot walbridge is gone, and with it the changes after 0/200", COPY_ALL),
    ),
    "slot of another plugin": (
        STREAMING,
        state(plugin="test_decoding"),
        error(
            "slot",
            "slot walbridge is of plugin test_decoding in database shop",
            "somebody else made it; if nobody needs it: SELECT pg_drop_replication_slot('walbridge'); then "
            f"{COPY_ALL}; else {NEW_PIPELINE}",
        ),
    ),
    "slot beyond what was published": (
        STREAMING,
        state(confirmed_flush=Lsn(0x280)),
        error(
            "slot",
            "slot walbridge stands at 0/280, beyond what was published (0/200): a gap, since somebody else used or "
            "re-created the slot, or brought Kafka back to an older state",
            COPY_ALL,
        ),
    ),
}


@pytest.mark.parametrize(("case", "wanted"), SLOTS.values(), ids=SLOTS)
def test_slot_is_judged_by_what_the_server_says(case: SlotCase, wanted: Finding) -> None:
    assert list(slot_findings(case)) == [wanted]


@pytest.mark.parametrize(("progress", "slot", "wanted"), GUARDS.values(), ids=GUARDS)
def test_guard_that_would_stop_a_start_is_an_error_in_the_same_words(
    progress: Progress | None, slot: SlotState | None, wanted: Finding
) -> None:
    assert list(guard_findings(SETTINGS, progress, SERVER, slot)) == [wanted]


def test_another_cluster_behind_the_same_address_is_an_error() -> None:
    (found,) = guard_findings(SETTINGS, STREAMING, replace(SERVER, system_id="8"), RESERVED)

    assert found.severity is Severity.ERROR
    assert "another Postgres cluster" in found.text


def test_former_name_that_has_no_topics_is_an_error_in_the_words_of_a_start() -> None:
    def unknown() -> Progress:
        raise OperatorError("typo.progress says nothing of slot walbridge", remedy="set formerly")

    settings = SETTINGS.model_copy(update={"formerly": "typo"})
    (found,) = guard_findings(settings, None, SERVER, RESERVED, former=unknown)
    assert (found.severity, found.text) == (Severity.ERROR, "typo.progress says nothing of slot walbridge")
    (found,) = guard_findings(settings, None, SERVER, RESERVED, former=lambda: STREAMING)
    assert found.severity is Severity.OK


def test_failover_is_judged_by_whether_standbys_have_the_slot_and_all_that_was_sent() -> None:
    (not_kept, may_lag) = failover_findings(SlotCase("s", RESERVED), "")
    assert (not_kept.text, not_kept.remedy) == ("slot s is not kept by standbys yet", "start walbridge produce again")
    assert may_lag.severity is Severity.ADVICE
    assert "ALTER SYSTEM SET synchronized_standby_slots" in (may_lag.remedy or "")

    kept = [*failover_findings(SlotCase("s", state(failover=True)), "s1")]
    assert kept == [ok("slot", "changes are sent once the standby of s1 has them")]
