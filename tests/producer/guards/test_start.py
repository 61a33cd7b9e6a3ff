"""Progress beside the server and its slot: where a start would lose or repeat changes."""

from dataclasses import replace

import pytest

from tests.producer.streaming_progress import OPTIONS, SPLIT, STREAMING
from walbridge.producer.guards.start import (
    refuse_bad_copy,
    refuse_bad_start,
    refuse_foreign_slot,
    refuse_moved_slot,
    refuse_unfit_start,
)
from walbridge.producer.postgres.facts import ServerIdentity, SlotState
from walbridge.schemas.control.progress_record import MESSAGE_PREFIXES_OPTION, Progress
from walbridge.schemas.errors import OperatorError, StreamLost
from walbridge.schemas.position import Lsn

SERVER = ServerIdentity("7000000000000000001", 1, Lsn(1000), "shop", 180006)
SLOT = SlotState("pgoutput", "shop", None, "reserved", Lsn(200), False)


def test_start_where_the_slot_stands_at_what_was_published_is_fine() -> None:
    refuse_bad_start(STREAMING, SERVER, SLOT, OPTIONS)


@pytest.mark.parametrize(
    "slot",
    [
        pytest.param(replace(SLOT, confirmed_flush=Lsn(1)), id="slot behind: its changes are skipped"),
        pytest.param(replace(SLOT, wal_status="extended"), id="WAL beyond max_wal_size"),
        pytest.param(replace(SLOT, wal_status="unreserved"), id="may be lost, is not"),
        pytest.param(replace(SLOT, wal_status=None), id="Postgres 12 has no wal_status"),
        pytest.param(replace(SLOT, active_pid=7), id="held by a session that is ending"),
    ],
)
def test_slot_that_still_has_everything_is_accepted(slot: SlotState) -> None:
    refuse_bad_start(STREAMING, SERVER, slot, OPTIONS)


def test_server_whose_wal_ends_exactly_at_what_was_published_is_accepted() -> None:
    refuse_bad_start(STREAMING, replace(SERVER, wal_end=Lsn(200)), SLOT, OPTIONS)


BAD_STARTS: dict[str, tuple[ServerIdentity, SlotState | None, str]] = {
    "another cluster": (replace(SERVER, system_id="7000000000000000002"), SLOT, "another Postgres cluster"),
    "another database": (replace(SERVER, database="shop2"), replace(SLOT, database="shop2"), "of database shop"),
    "a timeline of another line": (replace(SERVER, timeline=2), SLOT, "does not come from timeline 1"),
    "a standby that lagged by one byte": (
        replace(SERVER, timeline=2, switches={1: Lsn(199)}),
        SLOT,
        "timeline 2 left timeline 1 at 0/C7",
    ),
    "a standby that lagged, two failovers ago": (
        replace(SERVER, timeline=3, switches={1: Lsn(199), 2: Lsn(600)}),
        SLOT,
        "timeline 3 left timeline 1 at 0/C7",
    ),
    "older backup": (replace(SERVER, wal_end=Lsn(199)), SLOT, "WAL ends at 0/C7"),
    "slot gone": (SERVER, None, "slot walbridge is gone"),
    "slot lost": (SERVER, replace(SLOT, wal_status="lost"), "is lost: the server removed WAL"),
    "slot idle for too long": (
        SERVER,
        replace(SLOT, wal_status="lost", invalidation_reason="idle_timeout"),
        "is lost: nobody read it for as long as idle_replication_slot_timeout says",
    ),
    "another plugin": (SERVER, replace(SLOT, plugin="test_decoding"), "of plugin test_decoding"),
    "slot of another database": (SERVER, replace(SLOT, database="shop2"), "in database shop2"),
    "two_phase": (SERVER, replace(SLOT, two_phase=True), "two_phase"),
    "a gap of one byte": (SERVER, replace(SLOT, confirmed_flush=Lsn(201)), "a gap"),
    "slot half made": (SERVER, replace(SLOT, confirmed_flush=None), "at nowhere"),
}


@pytest.mark.parametrize(("server", "slot", "what"), BAD_STARTS.values(), ids=BAD_STARTS)
def test_start_that_would_lose_or_repeat_changes_is_refused_with_a_remedy(
    server: ServerIdentity, slot: SlotState | None, what: str
) -> None:
    """I7"""
    with pytest.raises(OperatorError, match=what) as refusal:
        refuse_bad_start(STREAMING, server, slot, OPTIONS)

    assert refusal.value.remedy


def test_slot_beyond_a_progress_that_may_be_old_is_no_gap_yet() -> None:
    """Beside a producer that runs, its slot may have moved on before its progress can be read."""
    refuse_unfit_start(STREAMING, SERVER, replace(SLOT, confirmed_flush=Lsn(201)), OPTIONS)


def test_slot_that_somebody_moved_on_between_the_look_at_it_and_the_begin_of_the_session_is_a_gap() -> None:
    """I7: the server begins where the slot stands, and says nothing. From then on nobody else can use it."""
    refuse_moved_slot(STREAMING, SLOT, OPTIONS)
    for moved in (replace(SLOT, confirmed_flush=Lsn(201)), None):
        with pytest.raises(StreamLost, match="a gap"):
            refuse_moved_slot(STREAMING, moved, OPTIONS)
    with pytest.raises(StreamLost, match="a gap"):
        refuse_moved_slot(HELD, replace(HELD_SLOT, confirmed_flush=Lsn(251)), TWO_PHASE)


@pytest.mark.parametrize(
    ("timeline", "switches", "seen"),
    [
        pytest.param(2, {1: Lsn(200)}, None, id="all that was published, and not a byte more"),
        pytest.param(3, {1: Lsn(500), 2: Lsn(600)}, None, id="two failovers at once"),
        pytest.param(3, {1: Lsn(100), 2: Lsn(200)}, "2", id="measured from the timeline that was last followed"),
    ],
)
def test_failover_to_a_primary_that_has_all_that_was_published_is_accepted(
    timeline: int, switches: dict[int, Lsn], seen: str | None
) -> None:
    progress = replace(STREAMING, options=OPTIONS | ({"walbridge.timeline": seen} if seen else {}))
    refuse_bad_start(progress, replace(SERVER, timeline=timeline, switches=switches), SLOT, OPTIONS)


def test_half_published_transaction_that_the_new_primary_lacks_is_refused() -> None:
    """I4: its commit lies behind the switch, so it never happened there."""
    promoted = replace(SERVER, timeline=2, switches={1: Lsn(250)})
    with pytest.raises(OperatorError, match="left timeline 1 at 0/FA"):
        refuse_bad_start(replace(STREAMING, split=replace(SPLIT, commit_lsn=Lsn(251))), promoted, SLOT, OPTIONS)


def test_facts_that_progress_carries_beside_options_are_no_options() -> None:
    progress = replace(STREAMING, split=SPLIT, options=OPTIONS | {"walbridge.publication": "1"})
    refuse_bad_start(progress, SERVER, SLOT, OPTIONS)


def test_gap_is_measured_from_what_is_done_not_from_the_floor() -> None:
    """Whole transactions before a split one are published, though not confirmed by us."""
    progress = replace(STREAMING, done=Lsn(320), split=SPLIT)
    refuse_bad_start(progress, SERVER, replace(SLOT, confirmed_flush=Lsn(320)), OPTIONS)

    with pytest.raises(OperatorError, match="a gap"):
        refuse_bad_start(progress, SERVER, replace(SLOT, confirmed_flush=Lsn(321)), OPTIONS)


@pytest.mark.parametrize(
    "options",
    [
        OPTIONS | {"origin": "none"},
        OPTIONS | {"binary": "true"},
        OPTIONS | {MESSAGE_PREFIXES_OPTION: '["app"]'},
    ],
)
def test_options_that_change_bytes_may_not_change_inside_a_split_transaction(options: dict[str, str]) -> None:
    """I4: the hash of what was published would differ."""
    refuse_bad_start(STREAMING, SERVER, SLOT, options)

    with pytest.raises(OperatorError, match="half published"):
        refuse_bad_start(replace(STREAMING, split=SPLIT), SERVER, SLOT, options)


def test_when_a_transaction_is_sent_may_change_while_it_is_half_published() -> None:
    """An upgraded server streams: the same changes come, sooner. Other publications have to wait."""
    options = OPTIONS | {"proto_version": "2", "streaming": "on", "publication_names": "other"}
    refuse_bad_start(replace(STREAMING, split=SPLIT), SERVER, SLOT, options)


TWO_PHASE = OPTIONS | {"two_phase": "true"}
HELD = replace(STREAMING, done=Lsn(320), floor=Lsn(250), options=TWO_PHASE)
"""A prepare at 250 has no end yet; what committed up to 320 is published."""
HELD_SLOT = replace(SLOT, two_phase=True, confirmed_flush=Lsn(250))


def test_slot_that_stands_at_the_first_prepare_without_an_end_is_accepted() -> None:
    refuse_bad_start(HELD, SERVER, HELD_SLOT, TWO_PHASE)


def test_gap_is_measured_from_the_floor_where_prepared_transactions_come_early() -> None:
    """I7: a prepare that the slot is past does not come again, whatever is done."""
    with pytest.raises(OperatorError, match="a gap"):
        refuse_bad_start(HELD, SERVER, replace(HELD_SLOT, confirmed_flush=Lsn(251)), TWO_PHASE)


@pytest.mark.parametrize(
    ("progress", "slot", "options", "version", "words"),
    [
        (HELD, replace(HELD_SLOT, two_phase=False), TWO_PHASE, 180006, "was made without two_phase"),
        (replace(HELD, options=OPTIONS), HELD_SLOT, TWO_PHASE, 180006, "was made without two_phase"),
        (HELD, HELD_SLOT, OPTIONS, 180006, "ALTER_REPLICATION_SLOT walbridge"),
        (HELD, HELD_SLOT, OPTIONS, 170011, "walbridge copy --all"),
    ],
    ids=["the slot is without", "it was set later", "the setting is without", "nobody can clear it before 18"],
)
def test_two_phase_of_slot_progress_and_setting_must_agree(
    progress: Progress, slot: SlotState, options: dict[str, str], version: int, words: str
) -> None:
    """I7: what was prepared before the flag was set has not been sent."""
    with pytest.raises(OperatorError, match=words):
        refuse_bad_start(progress, replace(SERVER, version=version), slot, options)


def test_slot_that_our_progress_does_not_know_is_refused() -> None:
    refuse_foreign_slot(None, "walbridge")

    with pytest.raises(OperatorError, match="says nothing of it") as refused:
        refuse_foreign_slot(SLOT, "walbridge")
    assert "walbridge drop --slot-only" in refused.value.remedy
    with pytest.raises(OperatorError) as refused:
        refuse_foreign_slot(replace(SLOT, plugin="test_decoding"), "walbridge")
    assert "pg_drop_replication_slot" in refused.value.remedy  # walbridge drop leaves it


COPYING = replace(STREAMING, state="copying", tables={})


@pytest.mark.parametrize("slot", [None, replace(SLOT, confirmed_flush=None), replace(SLOT, confirmed_flush=Lsn(999))])
def test_unfinished_copy_begins_again_wherever_its_slot_stands(slot: SlotState | None) -> None:
    refuse_bad_copy(COPYING, SERVER, slot)


@pytest.mark.parametrize(
    ("server", "slot", "what"),
    [
        BAD_STARTS[name]
        for name in ("another cluster", "another database", "another plugin", "slot of another database")
    ],
)
def test_unfinished_copy_is_not_begun_again_elsewhere(
    server: ServerIdentity, slot: SlotState | None, what: str
) -> None:
    """I7: the slot would be dropped, and it is somebody else's."""
    with pytest.raises(OperatorError, match=what):
        refuse_bad_copy(COPYING, server, slot)


def test_unfinished_copy_is_not_begun_again_elsewhere_when_it_has_no_slot_yet() -> None:
    """I7"""
    with pytest.raises(OperatorError, match="another Postgres cluster"):
        refuse_bad_copy(COPYING, replace(SERVER, system_id="7000000000000000002"), None)
