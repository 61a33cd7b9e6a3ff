"""A server that crashes whenever it streams to us, told from one that crashed.

In: each crash of the server under a stream of ours, with how far that stream had come. Out: a refusal to stream again,
where ``CRASHES_MAX`` came in a row.

A client is told that some process of the server crashed (57P02), never which one: a walsender that crashed says nothing
more, and from Postgres 13 on one that is ended with all others says nothing either. So the two are told apart by what
repeats. A change that a server cannot decode stays in the WAL, and no stream gets past it. Where other processes crash,
the streams between come further: recovery alone writes WAL, and an idle server tells how far that is within seconds.

What was refused stays refused after a restart of the producer (``crashes_server``), since something may restart it for
ever; only who has read the server's log lets it try again, and then one more crash is enough.
"""

from dataclasses import dataclass

from walbridge.producer.errors.servers import crashes_while_decoding
from walbridge.schemas.control.progress_record import Progress, crashes_server, why_lost
from walbridge.schemas.errors import StreamLost
from walbridge.schemas.position import Lsn, format_lsn

CRASHES_MAX = 3


@dataclass(frozen=True, slots=True)
class Crash:
    """One, under a stream.

    Args:
        pid: the walsender's process.
        lsn: what committed before it had been received or published.
        messages_done: how many changes are published of the transaction that follows, if a part of it is.
    """

    pid: int
    lsn: Lsn
    messages_done: int = 0

    @property
    def reached(self) -> tuple[Lsn, int]:
        """It grows with the stream."""
        return self.lsn, self.messages_done


class ServerCrashes:
    """Those of one process of the producer that came in a row.

    Args:
        tries_again: stream once more though progress says that the server crashes.
    """

    def __init__(self, *, tries_again: bool = False) -> None:
        self._tries_again = tries_again
        self._in_a_row: list[Crash] = []

    def note(self, crash: Crash) -> int:
        """Another one; how many have come in a row now."""
        if all(crash.reached > before.reached for before in self._in_a_row):
            self._in_a_row = []
        self._in_a_row.append(crash)
        return len(self._in_a_row)

    def refuse(self, progress: Progress) -> None:
        """Asked before each stream.

        Raises:
            StreamLost: the server would most likely crash once more.
        """
        if all(max(progress.done, progress.end_lsn) > crash.lsn for crash in self._in_a_row):
            self._in_a_row = []  # a new epoch left the change behind
        known = crashes_known(progress)
        if len(self._in_a_row) >= (CRASHES_MAX if known is None else 1):
            lost = crashes_while_decoding(self._told(progress.slot))
            lost.is_in_wal = True
            raise lost
        if known is not None and not self._tries_again:
            raise known

    def _told(self, slot: str) -> str:
        count, (lsn, _) = len(self._in_a_row), max(each.reached for each in self._in_a_row)
        pids = ", ".join(str(each.pid) for each in self._in_a_row)
        again = "again" if count == 1 else f"{count} times in a row"
        processes = f"process {pids}" if count == 1 else f"processes {pids}"
        return (
            f"Postgres crashed {again}, with all of its sessions, while it decoded for slot {slot} what follows "
            f"{format_lsn(lsn)}; if it is for that, its log says of {processes}: was terminated by signal 11"
        )


def crashes_known(progress: Progress) -> StreamLost | None:
    """What an earlier session ended with, where the server crashed each time and no other has come further since."""
    what = why_lost(progress)
    return crashes_while_decoding(what) if what is not None and crashes_server(progress) else None
