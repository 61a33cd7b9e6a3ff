"""Refuses a start that would lose or repeat changes silently: all is compared before anything is read.

In: progress as Kafka holds it, who the server is, its slot, the options that would be asked for.
Out: nothing, or a refusal that says what mends it (I7). Pure.
"""

import shlex
from collections.abc import Mapping

from walbridge.producer.copying.next_epoch import begins_again
from walbridge.producer.pgoutput.options import PUBLICATION_NAMES
from walbridge.producer.postgres.facts import ServerIdentity, SlotState
from walbridge.schemas.control.progress_record import MESSAGE_PREFIXES_OPTION, OWN_OPTIONS, TIMELINE_OPTION, Progress
from walbridge.schemas.errors import COPY_ALL, NEW_PIPELINE, OperatorError, StreamLost
from walbridge.schemas.position import format_lsn

_START_AGAIN = "start walbridge produce again"
_TWO_PHASE_CLEARED_SINCE = 180000
_SAME_CHANGES = {"proto_version", "streaming", "two_phase", PUBLICATION_NAMES}
"""Options that change when a transaction is sent, but neither which changes come nor a byte of them; or that a session
does not ask for before that transaction is through (``named_publications.py``)."""


def refuse_start(
    progress: Progress | None,
    server: ServerIdentity,
    slot: SlotState | None,
    options: Mapping[str, str],
    slot_name: str,
) -> None:
    """Make all comparisons of a start, whatever was published before. Called once older producers are fenced.

    Raises:
        OperatorError: as those that follow.
    """
    if progress is not None and progress.state == "streaming":
        refuse_bad_start(progress, server, slot, options)
    elif progress is not None and begins_again(progress):
        refuse_bad_beginning(progress, server, slot)
    else:
        refuse_before_copy(progress, server, slot, slot_name)


def refuse_bad_start(
    progress: Progress, server: ServerIdentity, slot: SlotState | None, options: Mapping[str, str]
) -> None:
    """Compare a streaming progress with the server and its slot.

    Only after older producers were fenced, so that progress is the newest there will be.

    Raises:
        OperatorError: resuming would lose or repeat changes silently.
    """
    refuse_unfit_start(progress, server, slot, options)
    _refuse_gap(progress, slot, "two_phase" in options)


def refuse_unfit_start(
    progress: Progress, server: ServerIdentity, slot: SlotState | None, options: Mapping[str, str]
) -> None:
    """``refuse_bad_start`` without the search for a gap; also while another producer may be running.

    Kafka answers a commit before its records can be read, and the slot is confirmed after that answer. So while a
    producer runs, the progress that is read may be older than the slot, though nothing is missing.

    Raises:
        OperatorError: as ``refuse_bad_start``.
    """
    _refuse_other_server(progress, server)
    _refuse_bad_slot(progress, server, slot, "two_phase" in options)
    asked = {name for name in {*options, *progress.options} if not name.startswith(OWN_OPTIONS)}
    names = {*asked, MESSAGE_PREFIXES_OPTION} - _SAME_CHANGES
    changed = {name for name in names if options.get(name) != progress.options.get(name)}
    if changed and progress.split is not None:
        raise OperatorError(
            f"{', '.join(sorted(changed))} changed while a transaction is half published",
            remedy="change it back until that transaction is through",
        )


def refuse_moved_slot(progress: Progress, slot: SlotState | None, options: Mapping[str, str]) -> None:
    """Search for a gap once more when the session has the slot: somebody may have moved it since ``refuse_bad_start``,
    and nobody else can from now on. If it stands at or before what was published, no change is missing but those that
    the server leaves out by itself.

    Raises:
        StreamLost: as ``refuse_bad_start``.
    """
    _refuse_gap(progress, slot, "two_phase" in options)


def refuse_before_copy(
    progress: Progress | None, server: ServerIdentity, slot: SlotState | None, slot_name: str
) -> None:
    """Make the comparisons before a copy begins, or begins again. ``progress`` is None if nothing was written yet.

    Raises:
        OperatorError: as ``refuse_foreign_slot`` and ``refuse_bad_copy``.
    """
    if progress is None:
        refuse_foreign_slot(slot, slot_name)
    else:
        refuse_bad_copy(progress, server, slot)


def refuse_bad_copy(progress: Progress, server: ServerIdentity, slot: SlotState | None) -> None:
    """A copy that was not finished begins again and drops its slot: both must be where it began.

    Raises:
        OperatorError: the DSN names another cluster or database, or the slot is another's.
    """
    _refuse_other_database(progress, server)
    if slot is not None:
        _refuse_slot_of_others(slot, server, progress.slot, _START_AGAIN)


def refuse_bad_beginning(progress: Progress, server: ServerIdentity, slot: SlotState | None) -> None:
    """A new epoch drops the slot and begins in our topics: both must be this pipeline's, whichever server it follows.

    Raises:
        OperatorError: the DSN names another database of the same cluster, or the slot is another's.
    """
    if server.system_id == progress.system_id:
        _refuse_other_database(progress, server)
    if slot is not None:
        _refuse_slot_of_others(slot, server, progress.slot, _START_AGAIN)


def _refuse_other_database(progress: Progress, server: ServerIdentity) -> None:
    """A new pipeline is a way here, and not a copy of all tables: nothing was published of that cluster, or the
    relation ids of two databases of one cluster may mean different tables."""
    if server.system_id != progress.system_id:
        raise OperatorError(
            _other_cluster(progress, server),
            remedy="point [postgres] dsn at the right server, or " + NEW_PIPELINE,
        )
    if server.database != progress.database:
        raise OperatorError(
            f"progress is of database {progress.database}, [postgres] dsn names {server.database}",
            remedy="mend [postgres] dsn, or " + NEW_PIPELINE,
        )


def refuse_other_cluster(progress: Progress, server: ServerIdentity) -> None:
    """Refuse another server than the one that was followed, or a physical copy of it.

    Raises:
        StreamLost: it is one.
    """
    if server.system_id != progress.system_id:
        raise StreamLost(_other_cluster(progress, server), instead="point [postgres] dsn at the right server")


def _other_cluster(progress: Progress, server: ServerIdentity) -> str:
    return f"this is another Postgres cluster: system id {server.system_id}, progress is of {progress.system_id}"


def _refuse_other_server(progress: Progress, server: ServerIdentity) -> None:
    refuse_other_cluster(progress, server)
    _refuse_other_database(progress, server)
    _refuse_other_history(progress, server)
    if progress.done > server.wal_end:
        raise StreamLost(
            f"published up to {format_lsn(progress.done)}, but the server's WAL ends at {format_lsn(server.wal_end)}: "
            "an older backup was restored"
        )


def _refuse_other_history(progress: Progress, server: ServerIdentity) -> None:
    """A failover is accepted if the new primary has all that was published: the same bytes of WAL."""
    seen = seen_timeline(progress)
    if server.timeline == seen:
        return
    switch = server.switches.get(seen)
    if switch is None:
        raise StreamLost(
            f"the server is on timeline {server.timeline}, which does not come from timeline {seen} that was followed",
            instead="point [postgres] dsn at the primary that was followed, or at its successor",
        )
    published = max(progress.done, progress.split.commit_lsn if progress.split else 0)
    if published > switch:
        raise StreamLost(
            f"published up to {format_lsn(published)}, but timeline {server.timeline} left timeline {seen} at "
            f"{format_lsn(switch)}: a standby that lagged was promoted, or a backup restored, without what was "
            "published after that"
        )


def refuse_lost_slot(name: str, slot: SlotState) -> None:
    """Refuse a slot from which nothing comes any more.

    Raises:
        StreamLost: the server says so, and why.
    """
    if slot.why_lost is not None:
        raise StreamLost(f"slot {name} is lost: {slot.why_lost}")


def seen_timeline(progress: Progress) -> int:
    """The server's timeline when it was last accepted; the epoch keeps that of its beginning."""
    return int(progress.options.get(TIMELINE_OPTION, progress.timeline))


def _refuse_bad_slot(progress: Progress, server: ServerIdentity, slot: SlotState | None, two_phase: bool) -> None:
    name = progress.slot
    if slot is None:
        raise StreamLost(f"slot {name} is gone, and with it the changes after {format_lsn(progress.done)}")
    refuse_lost_slot(name, slot)
    _refuse_slot_of_others(slot, server, name, COPY_ALL)
    _refuse_other_two_phase(progress, server, slot, two_phase)


def _refuse_gap(progress: Progress, slot: SlotState | None, two_phase: bool) -> None:
    # A prepare before the slot's position does not come again, even if what committed after it is published.
    published = progress.floor if two_phase else progress.done
    confirmed = slot.confirmed_flush if slot is not None else None
    # Lower does no harm: the server forgets what was confirmed last when it crashes, and skips what lies below the LSN
    # that START_REPLICATION names (PostgreSQL logical.c, CreateDecodingContext).
    if confirmed is None or confirmed > published:
        at = "nowhere" if confirmed is None else format_lsn(confirmed)
        raise StreamLost(
            f"slot {progress.slot} stands at {at}, beyond what was published ({format_lsn(published)}): a gap, since "
            "somebody else used or re-created the slot, or brought Kafka back to an older state"
        )


def _refuse_other_two_phase(progress: Progress, server: ServerIdentity, slot: SlotState, two_phase: bool) -> None:
    """The slot's flag decides what the server sends, and a session that asks for two_phase sets it."""
    name = progress.slot
    if slot.two_phase and not two_phase:
        connection = f"dbname={_in_conninfo(server.database)} replication=database"
        clear = f"ALTER_REPLICATION_SLOT {name} (TWO_PHASE false) in psql {shlex.quote(connection)}"
        what = f"slot {name} was made with two_phase, but [postgres] two_phase is false"
        is_cleared = server.version >= _TWO_PHASE_CLEARED_SINCE
        raise StreamLost(what, instead="set two_phase = true" + (f"; or {clear}" if is_cleared else ""))
    if two_phase and (not slot.two_phase or "two_phase" not in progress.options):
        raise StreamLost(
            f"slot {name} was made without two_phase, but [postgres] two_phase is true: what was prepared before would "
            "be missing",
            instead="set two_phase = false",
        )


def _in_conninfo(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return value if value and not set(value) & set(" '\\") else f"'{escaped}'"


def _refuse_slot_of_others(slot: SlotState, server: ServerIdentity, name: str, then: str) -> None:
    """``then``: the remedy's last step, after the slot was dropped."""
    if slot.plugin != "pgoutput" or slot.database != server.database:
        raise OperatorError(
            f"slot {name} is of plugin {slot.plugin} in database {slot.database}",
            # Progress, and the producer that is fenced, go by the slot's name: another one is another pipeline's.
            remedy=f"somebody else made it; if nobody needs it: SELECT pg_drop_replication_slot('{name}'); "
            f"then {then}; else {NEW_PIPELINE}",
        )


def refuse_foreign_slot(slot: SlotState | None, name: str) -> None:
    """No progress of ours, yet a slot: somebody else's, or our topics were emptied.

    Raises:
        OperatorError: always, when there is a slot.
    """
    if slot is not None:
        mends = f"if nobody needs it: SELECT pg_drop_replication_slot('{name}')"
        if slot.plugin == "pgoutput":
            mends = (
                "if it is this pipeline's, whose topics were deleted, or nobody needs it: walbridge drop --slot-only, "
                "then walbridge produce, which copies all tables"
            )
        raise OperatorError(
            f"slot {name} exists, but <pipeline>.progress says nothing of it",
            remedy=f"{mends}; else name another in [postgres] slot; "
            "if the pipeline had another name before, set formerly to that one",
        )
