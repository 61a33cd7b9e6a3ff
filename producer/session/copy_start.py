"""What has to be there before a copy beside the stream begins, and what speaks against it.

In: a table as the reader found it. Out: its writer, with topic and metadata acknowledged (I2), and its record of
progress; or why there can be no copy now.
"""

from dataclasses import replace

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.postgres.copy_reader import TableFound
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.table_progress import COPYING, CURRENT, STALE, TableProgress


class NotYet(RetryableError):
    """A table whose copy cannot begin now."""


class Refused(Exception):
    """A table whose copy cannot begin before a person mends what is told."""

    def __init__(self, reason: OperatorError) -> None:
        super().__init__(reason.what)
        self.reason = reason


class CopyStart:
    """Prepares the copies of one session."""

    def __init__(self, tables: Tables, tracker: ProgressTracker, watch: SourceWatch) -> None:
        self._tables, self._tracker, self._watch = tables, tracker, watch

    def writer_of(self, found: TableFound) -> RecordWriter:
        """The writer of the table as it was found.

        Raises:
            Refused, NotYet: there can be no copy of it.
            RetryableError: a server is away.
        """
        name = found.table.qualified_name
        try:
            if found.key_names is None:
                raise _keyless(name)
            self._refuse_shared(found.table)
            self._watch.refuse_unfit([found.table])
            writer = self._tables.announce(found.table, found.facts, found.types)
            if not writer.has_key:
                raise _keyless(name)
            return writer
        except OperatorError as error:
            raise Refused(error) from None

    def _refuse_shared(self, table: PublishedTable) -> None:
        """A table that was made again has to wait until the one before it is known to be gone."""
        topic = self._tables.topic_of(table)
        for each in self._tracker.progress.tables.values():
            if each.topic == topic and each.relation_id != table.relation_id and each.state in (CURRENT, COPYING):
                raise NotYet(f"topic {topic} is still that of relation {each.relation_id}")

    def record_of(self, table: PublishedTable) -> TableProgress:
        """The table's record with its topic and membership as they are now.

        Raises:
            NotYet: it is no member, or the broker does not tell of the topic yet.
        """
        known = self._tracker.progress.tables.get(table.relation_id, TableProgress(table.relation_id, STALE))
        try:
            record = self._watch.baseline_of(replace(known, name=table.qualified_name))
        except RetryableError as error:
            raise NotYet(str(error)) from None
        if record.membership is None:
            raise NotYet(f"table {table.qualified_name} is not in the publication")
        return record


def _keyless(name: str) -> OperatorError:
    return OperatorError(
        "it has no key to read its rows by, and tables without a key are not copied yet",
        remedy=f"give {name} a primary key",
    )
