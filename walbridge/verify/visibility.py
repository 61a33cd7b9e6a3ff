"""Whether the source shows all that the lake's cut holds: not while a commit waits for a synchronous standby.

In: a connection, just after a cut was found. Out: whether all commits that were in the WAL then are visible to
statements from now on. A commit is decoded and published once it is in the WAL; it becomes visible only when the
standby has it, however long that takes (PostgreSQL ``xact.c``, ``RecordTransactionCommit``). Until a moment after that
its transaction holds the lock of its xid. Only few roles may see which transactions wait in their commit, so every
transaction that holds such a lock when the wait begins has to release it. ``pg_current_snapshot()`` is no help: it does
not list the newest transactions. Without synchronous standbys a commit is visible microseconds after it is in the WAL,
long before any lake has it.
"""

import time
from collections.abc import Callable

from walbridge.verify.source_connection import Connection

WAIT_S = 10.0
"""Longer than commits take while their standby is there."""
_POLL_INTERVAL_S = 0.05
_COMMITS_WAIT = "SELECT current_setting('synchronous_standby_names') <> '' AS they_do"
_IN_PROGRESS = """
SELECT l.transactionid::text AS xid FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
  AND (a.datname IS NULL OR a.datname = current_database())
"""


def is_visible(connection: Connection, beat: Callable[[], None], wait_s: float = WAIT_S) -> bool:
    """Whether every transaction that may be in its commit now ends within ``wait_s``. True at once where commits do not
    wait for a standby.

    Args:
        beat: called again and again during the wait; it may raise.
    """
    if not connection.execute(_COMMITS_WAIT).fetchall()[0]["they_do"]:
        return True
    deadline = time.monotonic() + wait_s
    waited_for = _in_progress(connection)
    while waited_for and time.monotonic() < deadline:
        beat()
        time.sleep(_POLL_INTERVAL_S)
        waited_for &= _in_progress(connection)
    return not waited_for


def _in_progress(connection: Connection) -> set[str]:
    return {row["xid"] for row in connection.execute(_IN_PROGRESS)}
