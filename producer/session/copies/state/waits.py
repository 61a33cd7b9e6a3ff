"""Tells that a copy waits for a transaction of the source, and how to find who holds it.

In: which table waits, why, and the xid that it waits for. Out: a line in the log at once, and every 10 s from then on:
it may be a prepared or an idle transaction that somebody forgot, in any database of the server.
"""

import time

import structlog

from walbridge.producer.copying.window import Void

log = structlog.get_logger()

TELL_AGAIN_S = 10.0
_HOLDER = (
    "SELECT 'pid ' || pid AS holder, datname, state, xact_start FROM pg_stat_activity WHERE backend_xid = '{xid}' "
    "UNION ALL SELECT 'prepared ' || gid, database, 'prepared', prepared FROM pg_prepared_xacts "
    "WHERE transaction = '{xid}'"
)


class CopyWaits:
    """Those of one session."""

    def __init__(self) -> None:
        self._told_s: dict[int, float] = {}
        """When each table was told last."""

    def tell(self, relation_id: int, table: str, why: Void, xid: int | None) -> None:
        """The table waits, as it may have done before. ``xid``: of 32 bits; None where it is not known."""
        now_s = time.monotonic()
        told_s = self._told_s.get(relation_id)
        if told_s is not None and now_s - told_s < TELL_AGAIN_S:
            return
        self._told_s[relation_id] = now_s
        remedy = None if xid is None else remedy_of(why, xid)
        log.warning("copy of a table waits", table=table, relation_id=relation_id, reason=why.value, remedy=remedy)


def remedy_of(why: Void, xid: int) -> str:
    """How to find who holds the transaction, and what to do then."""
    end = "end it there: pg_terminate_backend(pid), or in its database COMMIT PREPARED or ROLLBACK PREPARED"
    if why is Void.NOT_VISIBLE:
        end = "where it waits for a synchronous standby, bring that back"
    return f"none if it ends soon. A superuser finds who holds it by {_HOLDER.format(xid=xid)}; then {end}"
