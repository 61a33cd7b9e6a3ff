"""Whether the server still has the transaction that was published last.

A server that was brought back by a snapshot of its disks, without recovery, has the same system id and timeline, and
once its WAL has outgrown what was published no LSN tells. But its slot then stands where it stood in the snapshot, so
the server sends the last published transaction again if it is asked to, or another one at that place, or none.

In: a stream that has not begun, progress, the slot. Out: nothing, or a refusal (I7).
"""

from collections.abc import Callable, Mapping

from walbridge.producer.pgoutput.decoder import decode_message
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES, decode_keepalive
from walbridge.producer.pgoutput.messages import Begin
from walbridge.producer.postgres.facts import SlotState
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.relations.partition_sessions import SINCE_VERSION as PARTITIONS_NOTICED_SINCE
from walbridge.producer.relations.publication_sessions import remembers_what_was_published
from walbridge.schemas.control.progress_record import DDL_OPTION, OWN_OPTIONS, Progress, last_commit
from walbridge.schemas.errors import StreamLost
from walbridge.schemas.position import Lsn, format_lsn

_WAIT_S = 1.0
_BEGIN, _KEEPALIVE = b"B", b"k"
_UNASKED = ("streaming", "proto_version")
"""Of a transaction that comes before its commit the begin tells no LSN."""


def can_be_asked(progress: Progress, slot: SlotState, options: Mapping[str, str], server_version: int) -> bool:
    """Whether the server has to send the last published transaction once more.

    Not where the slot stands behind it already, nor where other changes are asked for than were: the transaction may
    hold none of them. Of prepared transactions it may send only the end. A walsender of an old version may send changes
    of a partition that was detached, or of a table that has left the publication, which another one then does not send.
    """
    if server_version < PARTITIONS_NOTICED_SINCE or remembers_what_was_published(server_version):
        return False
    last = last_commit(progress)
    if last is None or slot.confirmed_flush is None or "two_phase" in options:
        return False
    return slot.confirmed_flush <= last[0] and _changes_of(options) == _changes_of(progress.options)


def refuse_other_past(
    stream: ReplicationStream,
    progress: Progress,
    slot: SlotState,
    options: Mapping[str, str],
    check_stop: Callable[[], None],
) -> None:
    """Ask the server, if ``can_be_asked``. Nothing is confirmed.

    Args:
        options: those of START_REPLICATION.

    Raises:
        StreamLost: it has another transaction there, or none.
        RetryableError: it went away.
    """
    last = last_commit(progress)
    assert last is not None
    stream.start(last[0], {name: options[name] for name in options if name != "streaming"}, slot.confirmed_flush)
    if _first_commit(stream, last[0], check_stop) != last:
        raise StreamLost(
            f"the transaction at {format_lsn(last[0])} that was published last is not in the server's WAL: an older "
            "state of the server was restored, and has been written to since"
        )


def _first_commit(stream: ReplicationStream, asked: Lsn, check_stop: Callable[[], None]) -> tuple[Lsn, int] | None:
    """LSN and time of the first transaction that the server sends; None where it is past the LSN and sent none."""
    while True:
        frame = stream.read()
        if frame is None:
            check_stop()
            stream.wait(_WAIT_S)
        elif frame.startswith(_KEEPALIVE):
            if decode_keepalive(frame).wal_end > asked:
                return None
            stream.keep_alive()
        elif frame[XLOG_DATA_HEADER_BYTES:].startswith(_BEGIN):
            begin = decode_message(frame[XLOG_DATA_HEADER_BYTES:])
            assert isinstance(begin, Begin)
            return begin.final_lsn, begin.commit_time_us


def _changes_of(options: Mapping[str, str]) -> dict[str, str]:
    """The options that decide which changes come."""
    own = {name for name in options if name.startswith(OWN_OPTIONS)} - {DDL_OPTION}
    return {name: value for name, value in options.items() if name not in _UNASKED and name not in own}
