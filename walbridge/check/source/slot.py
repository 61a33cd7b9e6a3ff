"""The slot beside what Kafka says of it: the producer's own guards, and the WAL it holds back.

In: the slot's row, progress, who the server is. Out: findings. The guards are those that would
stop the producer at its start, asked here without starting it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from walbridge.check.finding import Finding, advice, error, ok, refused, warning
from walbridge.check.source.session import lost_finding
from walbridge.producer.guards.start import refuse_bad_copy, refuse_start
from walbridge.producer.postgres.facts import ServerIdentity, SlotState
from walbridge.producer.postgres.requirements import stream_options
from walbridge.quantities import bytes_text
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import COPY_ALL, OperatorError, StreamLost
from walbridge.schemas.settings import Settings

AREA = "slot"
MUCH_WAL_BYTES = 10 * 10**9
"""Held back by a slot that nobody reads: worth a warning before it is worth a pager."""


@dataclass(frozen=True, slots=True)
class SlotCase:
    """``retained_bytes``, ``safe_wal_size_bytes`` as in pg_replication_slots; None: not known, or no limit."""

    name: str
    state: SlotState | None
    retained_bytes: int | None = None
    safe_wal_size_bytes: int | None = None
    is_needed: bool = False
    """Whether something was published from it: then it is not the next start that makes it."""


def slot_findings(case: SlotCase) -> Iterator[Finding]:
    """What the server says of the slot."""
    if case.state is None:
        if case.is_needed:  # the guards say what is lost with it
            return
        yield advice(AREA, f"slot {case.name} does not exist yet", "walbridge init")
        return
    held = f"holds {bytes_text(case.retained_bytes)} of WAL" if case.retained_bytes is not None else "holds no WAL"
    if case.state.why_lost is not None:
        if not case.is_needed:
            yield error(AREA, f"slot {case.name} is lost: {case.state.why_lost}", COPY_ALL)
    elif case.state.wal_status == "unreserved":
        yield error(
            AREA,
            f"slot {case.name} {held}, more than max_slot_wal_keep_size: it is lost at the next checkpoint",
            "raise max_slot_wal_keep_size and run SELECT pg_reload_conf(); at once, then start walbridge produce",
        )
    elif case.state.active_pid is None and (case.retained_bytes or 0) > MUCH_WAL_BYTES:
        yield warning(
            AREA,
            f"slot {case.name} {held}, and nobody reads it",
            "walbridge produce; or, if the pipeline is no longer wanted, walbridge drop",
        )
    else:
        use = f"in use (pid {case.state.active_pid})" if case.state.active_pid is not None else "nobody reads it now"
        yield ok(AREA, f"{case.name}: {use}, {held}{_room(case)}")


def failover_findings(case: SlotCase, waits_for: str) -> Iterator[Finding]:
    """Whether a standby that takes over would have the slot, and all that was published.

    Args:
        waits_for: ``synchronized_standby_slots``.
    """
    if case.state is not None and not case.state.failover:
        yield advice(AREA, f"slot {case.name} is not kept by standbys yet", "start walbridge produce again")
    if not waits_for:
        yield advice(
            AREA,
            "synchronized_standby_slots is empty: a standby may take over without changes that were published, and all "
            "tables are then to be copied again",
            "ALTER SYSTEM SET synchronized_standby_slots = '<physical slot of the standby>'; SELECT pg_reload_conf();",
        )
    else:
        yield ok(AREA, f"changes are sent once the standby of {waits_for} has them")


def _room(case: SlotCase) -> str:
    return "" if case.safe_wal_size_bytes is None else f", lost after {bytes_text(case.safe_wal_size_bytes)} more"


def guard_findings(
    settings: Settings,
    progress: Progress | None,
    server: ServerIdentity,
    state: SlotState | None,
    is_copy_asked: Callable[[], bool] = lambda: False,
    former: Callable[[], Progress | None] = lambda: None,
) -> Iterator[Finding]:
    """Would the producer start here?

    Args:
        is_copy_asked: whether it is to copy all tables again.
        former: what was published under the pipeline's name of before; refuses where nothing was.
    """
    if progress is None and settings.formerly is not None:

        def former_guards() -> None:
            if (of_before := former()) is not None:
                refuse_bad_copy(of_before, server, state)

        fits = f"the next start of walbridge produce makes the slot of {settings.formerly} anew, and copies all"
        yield from _guarded(former_guards, fits, is_copy_asked)
        return

    def guards() -> None:
        options = stream_options(settings, server.version)
        refuse_start(progress, server, state, options, settings.postgres.slot)

    stands = "no cut yet" if progress is None else f"cut {progress.cut_id}, {progress.state}"
    yield from _guarded(guards, f"server, slot and progress fit together ({stands})", is_copy_asked)


def _guarded(guards: Callable[[], None], fits: str, is_copy_asked: Callable[[], bool]) -> Iterator[Finding]:
    try:
        guards()
    except StreamLost as lost:
        yield lost_finding(AREA, lost, is_copy_asked=is_copy_asked())
    except OperatorError as refusal:
        yield refused(AREA, refusal)
    else:
        yield ok(AREA, fits)
