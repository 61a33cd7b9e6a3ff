"""What the steps of copies beside the stream work with, whether a table is copied by chunks or in one piece.

In: the parts of a session. Out: the same, under one name.
"""

from dataclasses import dataclass

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.session.copies.arrival import Arrival
from walbridge.producer.session.copies.records import CopyRecords
from walbridge.producer.session.copies.start import CopyStart
from walbridge.producer.session.copies.state.reading import CopyReading


@dataclass(frozen=True, slots=True)
class StepParts:
    """``arrival`` and ``start`` say whether a step may be taken, ``records`` puts it into the table's topic."""

    reading: CopyReading
    stream: ReplicationStream
    out: OpenBatch
    arrival: Arrival
    start: CopyStart
    records: CopyRecords
