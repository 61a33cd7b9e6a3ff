"""What becomes of a table that is not current any more: it is copied again, but not for ever. Pure.

Troubles count while they are recent, by the time in which no copy went on: else one that takes long, and does not help,
would be made for ever.
"""

from collections.abc import Sequence
from dataclasses import replace

from walbridge.schemas.control.table_progress import COPYING, QUARANTINED, STALE, TableProgress
from walbridge.schemas.position import Lsn

WITHIN_S = 3600
"""Those in which a copy of the table goes on do not count."""
AGAIN_MAX = 10
"""So often a table is copied again within that time. What comes back so soon no copy mends."""


def after_trouble(
    known: TableProgress, name: str, since: Lsn, why: str, *, may_copy: bool, now_s: float, counts: bool = True
) -> TableProgress:
    """The table's record: ``stale`` where it is to be copied again, else ``quarantined``.

    Args:
        now_s: by the wall clock, since records outlive processes. One from after it is of a clock that was set since.
        counts: whether it is one of those that no copy mends if they come too often.
    """
    recent = _recent(known, now_s)
    state = STALE if may_copy and (not counts or len(recent) < AGAIN_MAX) else QUARANTINED
    troubles = _counted(recent, now_s) if counts else recent
    return replace(known, state=state, name=name, since=since, why=why, copy=None, troubles=troubles)


def with_trouble(known: TableProgress, now_s: float) -> TableProgress:
    """The table's record: it stands as it did, with one trouble more."""
    return replace(known, troubles=_counted(_recent(known, now_s), now_s))


def with_fault(known: TableProgress, now_s: float) -> TableProgress:
    """The same of a fault that its copy meets, and goes on: of those only the ones of the last hour count, since one
    copy may take days and meet many."""
    return replace(known, troubles=_counted(_of_last_hour(known, now_s), now_s))


def with_copy_begun(known: TableProgress, now_s: float) -> TableProgress:
    """The record of a table whose copy begins: what it keeps are the troubles that count at its end."""
    return replace(known, troubles=_of_last_hour(known, now_s))


def with_copy_ended(known: TableProgress, now_s: float) -> TableProgress:
    """The record of a table whose copy has ended: its troubles are as recent as if the newest were of now."""
    since_s = int(now_s) - max(known.troubles, default=int(now_s))
    return replace(known, troubles=tuple(each + max(since_s, 0) for each in known.troubles))


def _recent(known: TableProgress, now_s: float) -> tuple[int, ...]:
    return known.troubles if known.state == COPYING else _of_last_hour(known, now_s)


def _of_last_hour(known: TableProgress, now_s: float) -> tuple[int, ...]:
    return tuple(each for each in known.troubles if now_s - WITHIN_S < each <= now_s)


def _counted(recent: tuple[int, ...], now_s: float) -> tuple[int, ...]:
    return (*recent, int(now_s))[-AGAIN_MAX - 1 :]


def is_copied_too_often(troubles: Sequence[int]) -> bool:
    """Whether these troubles are why a table is quarantined."""
    return len(troubles) > AGAIN_MAX
