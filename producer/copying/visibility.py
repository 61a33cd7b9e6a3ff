"""Which transactions of the stream a snapshot contains, and which no snapshot has shown yet.

In: the text of a snapshot as Postgres prints it, and the xids of the transactions that the stream
brings. Out: whether rows that were read with the snapshot hold the changes of a transaction.

A commit is in the WAL, and may be received, before it is visible: it leaves the list of running
transactions only afterwards, and before that it may wait for a synchronous standby for as long as
that is away (PostgreSQL ``xact.c``, ``RecordTransactionCommit``, ``ProcArrayEndTransaction``). So no
LSN tells what a snapshot contains, and only its own list does.
Source: PostgreSQL manual, "Transaction ID and Snapshot Information Functions".
"""

import re
from array import array
from dataclasses import dataclass

from walbridge.schemas.errors import ProtocolError

FIRST_NORMAL_XID = 3
"""Those below are special (``access/transam.h``); no transaction has one, in any epoch."""
RECEIVED_MAX = 1_000_000
"""4 MB."""
_SNAPSHOT = re.compile(r"([0-9]{1,20}):([0-9]{1,20}):((?:[0-9]{1,20}(?:,[0-9]{1,20})*)?)")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Xids are 64 bits, epoch included; those in progress are top-level ones."""

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Snapshot":
        """What ``pg_current_snapshot()``, or before Postgres 13 ``txid_current_snapshot()``, prints: xmin:xmax:xip,xip.

        Not for a server in recovery: there Postgres prints no xip, whatever is in progress.

        Raises:
            ProtocolError: it is none.
        """
        parts = _SNAPSHOT.fullmatch(text)
        if parts is None:
            raise ProtocolError(f"not a snapshot: {text!r}")
        xmin, xmax = int(parts[1]), int(parts[2])
        in_progress = frozenset(map(int, parts[3].split(","))) if parts[3] else frozenset()
        if not FIRST_NORMAL_XID <= xmin <= xmax or any(not xmin <= xid < xmax for xid in in_progress):
            raise ProtocolError(f"not a snapshot: {text!r}")
        return cls(xmin, xmax, in_progress)

    def contains(self, xid: int) -> bool:
        """Whether it sees what the transaction with this top-level xid of 64 bits has committed."""
        # At or above xmax nothing had ended yet, though some of it may have been running.
        return xid < self.xmin or (xid < self.xmax and xid not in self.in_progress)

    def contains_received(self, xid: int) -> bool:
        """The same for an xid as the stream tells it."""
        return self.contains(widen(xid, self.xmax))


def widen(xid: int, near: int) -> int:
    """The 64-bit xid of which the stream tells the lower 32 bits: that nearest to ``near``, a 64-bit xid of the time.

    Postgres never lets two xids in use be 2^31 or more apart.

    Raises:
        ProtocolError: no transaction has this xid.
    """
    if not FIRST_NORMAL_XID <= xid < 1 << 32:
        raise ProtocolError(f"not the xid of a transaction: {xid}")
    distance = (xid - near + (1 << 31)) % (1 << 32) - (1 << 31)
    widened = near + distance
    return widened if widened >= 0 else widened + (1 << 32)


@dataclass(frozen=True, slots=True)
class Before:
    """What may have been received before a window opened without being visible.

    ``begun``: no transaction had an xid at or above it when the session began. ``received``: xids of 32 bits.
    """

    begun: int
    received: "array[int]"

    def has_ended_in(self, snapshot: Snapshot) -> bool:
        """Whether everything that was in progress when the session began has ended.

        The session before may have received any of it; it does not come again.
        """
        return snapshot.xmin >= self.begun

    def is_contained_in(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot contains everything that this session had received."""
        return all(map(snapshot.contains_received, self.received))

    def missing_from(self, snapshot: Snapshot) -> int | None:
        """The xid, of 32 bits, of a transaction for which such a snapshot waits; None: for none.

        It may run in any database of the server: snapshots do not tell them apart.
        """
        if not self.has_ended_in(snapshot):
            return snapshot.xmin % (1 << 32)
        return next((xid for xid in self.received if not snapshot.contains_received(xid)), None)


class ReceivedTransactions:
    """The transactions that a session received and no snapshot has shown yet.

    Four bytes each. Each snapshot takes out what it contains, so those are left that were received
    since the last one, or whose commit waits. There are never more than ``count_max``: if nobody looks
    for that long, the session counts as begun anew, after the newest of them.

    Args:
        begun: a 64-bit xid that no transaction reached before the session began, and that was assigned
            (``pg_current_xact_id()``, ``txid_current()``). A snapshot's xmax is none: transactions with
            higher xids may be running when it is taken.
    """

    def __init__(self, begun: int, count_max: int = RECEIVED_MAX) -> None:
        self._begun = begun
        self._near = begun
        self._count_max = count_max
        self._unseen = array("I")

    def __len__(self) -> int:
        return len(self._unseen)

    def receive(self, xid: int) -> None:
        """A committed top-level transaction with this xid of 32 bits begins, whichever tables it changes.

        Before its first change: a window that opens inside it would not see all of them.
        """
        self._unseen.append(xid)
        if len(self._unseen) > self._count_max:
            self._begun = max(self._begun, 1 + max(widen(each, self._near) for each in self._unseen))
            del self._unseen[:]

    def look(self, snapshot: Snapshot) -> None:
        """Take out what the snapshot contains: so does each that is taken from now on."""
        self._near = max(self._near, snapshot.xmax)
        self._unseen = array("I", (xid for xid in self._unseen if not snapshot.contains_received(xid)))

    def before(self) -> Before:
        """As of now, for a window that opens now.

        A copy: a snapshot that is looked at while the window is open may be newer than that of the rows.
        """
        return Before(self._begun, self._unseen[:])
