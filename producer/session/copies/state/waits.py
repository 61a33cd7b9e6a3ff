"""Logs that a copy waits for a transaction at the source, and how to find who holds it.

In: which table waits, why, and the xid that it waits for; or why no copy can begin. Out: a line in the log at once, and
every 10 s from then on. It may be a prepared or an idle transaction that somebody forgot, in any database.
"""

import time

import structlog

from walbridge.producer.copying.window import Void
from walbridge.schemas.errors import RetryableError, back_again

log = structlog.get_logger()

LOG_AGAIN_S = 10.0
_ALL = 0
"""No relation has this id."""
_HOLDER = (
    "SELECT 'pid ' || pid AS holder, datname, state, xact_start FROM pg_stat_activity WHERE backend_xid = '{xid}' "
    "UNION ALL SELECT 'prepared ' || gid, database, 'prepared', prepared FROM pg_prepared_xacts "
    "WHERE transaction = '{xid}'"
)


class CopyWaits:
    """Logs the waits of one session's copies."""

    def __init__(self) -> None:
        self._logged_s: dict[int, float] = {}
        """When each table was told last."""

    def log(self, relation_id: int, table: str, why: Void, xid: int | None) -> None:
        """The table waits, as it may have done before. ``xid``: of 32 bits; None where it is not known."""
        if not self._is_due(relation_id):
            return
        remedy = None if xid is None else remedy_of(why, xid)
        log.warning("copy of a table waits", table=table, relation_id=relation_id, reason=why.value, remedy=remedy)

    def log_all(self, away: RetryableError) -> None:
        """Every copy that has not begun waits, since nobody can say now what is published."""
        if self._is_due(_ALL):
            remedy = back_again(away, otherwise="none is needed: the publication is listed again")
            log.warning("copies of tables wait to begin", reason=str(away), remedy=remedy)

    def _is_due(self, relation_id: int) -> bool:
        now_s = time.monotonic()
        logged_s = self._logged_s.get(relation_id)
        if logged_s is not None and now_s - logged_s < LOG_AGAIN_S:
            return False
        self._logged_s[relation_id] = now_s
        return True


def remedy_of(why: Void, xid: int) -> str:
    """How to find who holds the transaction, and what to do then."""
    end = "end it there: pg_terminate_backend(pid), or in its database COMMIT PREPARED or ROLLBACK PREPARED"
    if why is Void.NOT_VISIBLE:
        end = "where it waits for a synchronous standby, bring that back"
    return f"none if it ends soon. A superuser finds who holds it by {_HOLDER.format(xid=xid)}; then {end}"
