"""The parts of a session that both kinds of copy beside the stream work with: by chunks and in one piece."""

from collections.abc import Callable
from dataclasses import dataclass

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.session.copies.arrival import Arrival
from walbridge.producer.session.copies.records import CopyRecords
from walbridge.producer.session.copies.start import CopyStart
from walbridge.producer.session.copies.state.reading import CopyReading
from walbridge.producer.session.copies.state.record_queue import RecordQueue
from walbridge.schemas.position import Lsn


@dataclass(frozen=True, slots=True)
class CopiedChanges:
    """What a session does with the changes of tables that are copied.

    ``follow``, ``leave_out``: told the relation id of a table whose changes are published from here on, or are not.
    ``is_announced_since``: whether the stream brought a version of a table at or above an LSN. ``queue``: makes one for
    the changes of a table that is copied in one piece.
    """

    follow: Callable[[int], None]
    leave_out: Callable[[int], None]
    is_announced_since: Callable[[int, Lsn], bool]
    queue: Callable[[], RecordQueue]


@dataclass(frozen=True, slots=True)
class StepParts:
    """``arrival`` and ``start`` say whether a step may be taken, ``records`` puts it into the table's topic."""

    reading: CopyReading
    stream: ReplicationStream
    out: OpenBatch
    arrival: Arrival
    start: CopyStart
    records: CopyRecords
    changes: CopiedChanges
