"""The published states of a lake, for readers of any engine.

In: the lake's path, and an LSN or a time if wanted. Out: the newest published row, or the newest one that ends by
then: versions of all tables that belong to one LSN (I8).
"""

import re
from collections.abc import Mapping
from datetime import date, datetime

from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.position import format_lsn, parse_lsn
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_published, open_table, published_rows
from walbridge.spark_consumer.plan.manifest_row import CutRow

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
At = int | str | datetime | None
"""An LSN as a number or as ``16/B374D848``, or a time with its zone, which may be text in ISO 8601."""


def published_at(lake: str, at: At = None, *, storage_options: Mapping[str, str] | None = None) -> CutRow:
    """The newest published row, or the newest that ends at or before an LSN or a time.

    A row ends with its last transaction, by the source's clock. One without a transaction ends when it was written:
    all that it holds had been committed before.

    Raises:
        OperatorError: there is none, or ``at`` is neither.
    """
    table = open_table(lake, dict(storage_options or {}))
    limit = None if at is None else _limit(at)
    row = newest_published(table, limit) if table is not None else None
    if row is not None:
        return row
    if table is None or limit is None:
        raise OperatorError(
            f"nothing is published in {lake} yet",
            remedy="check the path; else let the Spark job finish the first copy: walbridge status",
        )
    shown, later = (limit, "time") if isinstance(limit, datetime) else (format_lsn(limit), "LSN")
    raise OperatorError(
        f"nothing is published in {lake} at or before {shown}",
        remedy=f"ask for a later {later}; how long published states are kept is said by [lake] cut_retention_hours",
    )


def published(lake: str, *, storage_options: Mapping[str, str] | None = None) -> list[CutRow]:
    """Every published cut that is kept, oldest first; empty for a lake without one."""
    table = open_table(lake, dict(storage_options or {}))
    return published_rows(table) if table is not None else []


def _limit(at: object) -> int | datetime:
    try:
        match at:
            case bool():
                raise ValueError("no number")
            case int():
                return parse_lsn(format_lsn(at))
            case str():
                return parse_lsn(at) if "/" in at else _with_zone(datetime.fromisoformat(at))
            case datetime():
                return _with_zone(at)
        raise ValueError("another type")
    except (ProtocolError, ValueError):
        raise _no_moment(at) from None


def _no_moment(at: object) -> OperatorError:
    what = f"{at!r} is no LSN, and no time with its zone"
    # Some expect its first moment, others its end, and both in their own zone.
    if (isinstance(at, date) and not isinstance(at, datetime)) or (isinstance(at, str) and _DAY.fullmatch(at)):
        return OperatorError(
            f"{what}: a day has many states", remedy=f'give the moment, for instance "{at}T00:00:00Z" where it begins'
        )
    return OperatorError(what, 'write it as "16/B374D848", or as "2026-07-01T12:00:00Z" (other zones: +02:00)')


def _with_zone(time: datetime) -> datetime:
    """The time, refused without a zone: it would be another moment on each machine."""
    if time.tzinfo is None:
        raise ValueError("no time zone")
    return time
