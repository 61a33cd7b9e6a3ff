"""Steps of a correction: rows of a table that is current are read again, those whose keys an operator listed.

In: what the reader found of the table, chunks of listed keys. Out: each chunk in the topic, in a Kafka transaction of
its own with the progress that goes with it; keys that the source lacks are deleted.

The table stays current, so a correction has no ``copy_begin`` and no ``copy_end``. What the window of a chunk says of
moved keys does not count: the lake has the values that the topic lacks of such a row.
"""

from dataclasses import replace

import structlog

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.guards.doubts.rewrites import with_labels
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkRead, TableFound
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.session.copies.chunk_rows import keys_gone, rows_at_end
from walbridge.producer.session.copies.records import CopyRecords
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.copies.state.open_chunk import OpenChunk
from walbridge.producer.session.copies.state.reading import CopyReading
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.control.table_request import key_values
from walbridge.schemas.errors import ProtocolError

log = structlog.get_logger()


class Corrections:
    """Takes the steps of one session's corrections."""

    def __init__(
        self, reading: CopyReading, stream: ReplicationStream, tracker: ProgressTracker, records: CopyRecords
    ) -> None:
        self._reading, self._stream, self._tracker, self._records = reading, stream, tracker, records

    def install(self, copied: CopiedTable, found: TableFound, writer: RecordWriter, begun: int) -> None:
        """The table is known in this session. A correction whose keys are not of the table's key ends."""
        if writer.has_key and copied.fits(found):
            copied.install(found, writer, begun)
            return
        self._end_of_others(copied, writer)

    def enter(self, copied: CopiedTable, writer: RecordWriter, chunk: OpenChunk, read: ChunkRead) -> bool:
        """Send the rows of a chunk. False where one of them cannot be published: the table is left there."""

        def progress_after() -> TableProgress:
            entered = replace(chunk.entered(read), moved=(), read_again={})
            return with_labels(copied.become(copied.state.enter(entered), self._tracker.progress), chunk.labels)

        is_encoded, asked = chunk.writer is writer, map(key_values, chunk.asked or ())
        try:
            gone = keys_gone(read, chunk.window, writer, asked, is_encoded=is_encoded)
        except ProtocolError:  # the key's type was altered since they were printed
            self._end_of_others(copied, writer)
            return False
        rows = rows_at_end(read, chunk.window, writer, is_encoded=is_encoded)
        if not self._records.enter(writer, rows, progress_after, self._stream.received, gone):
            return False
        table = writer.relation.table
        log.info("rows of listed keys are copied", table=table.qualified_name, rows=read.row_count, deleted=len(gone))
        if not copied.state.corrects and table.relation_id in self._reading.copied:
            self._reading.end_copy(table.relation_id)
        return True

    def end_truncated(self, copied: CopiedTable) -> None:
        """The table was truncated: no row of a listed key is left to be read."""
        self._end(copied)

    def _end_of_others(self, copied: CopiedTable, writer: RecordWriter) -> None:
        why = "not copied again: the listed keys are not of the key that the table has"
        self._end(copied, why)
        log.warning("keys are not read again", table=writer.relation.table.qualified_name, reason=why)

    def _end(self, copied: CopiedTable, why: str = "") -> None:
        """The next cut says so."""
        relation_id = copied.state.relation_id
        ended = copied.become(copied.state.end_correction(why), self._tracker.progress)
        self._tracker.remember_tables({relation_id: ended})
        self._reading.end_copy(relation_id)
