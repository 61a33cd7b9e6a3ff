"""What the stream says of tables besides their rows: it explains new files and partitions, or puts a table in doubt.

In: TRUNCATEs, Relations and DDL rows as they come. Out: facts that ``storage_comparison.py`` uses when the catalogue
shows other files or partitions; and doubts, where a change shows that rows before it may be missing (I8).
"""

from collections.abc import Collection, Iterable

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.errors.tables import table_rewritten
from walbridge.producer.guards.doubts.columns.kept_casts import NO_ENUMS, Enums
from walbridge.producer.guards.doubts.ddl_rewrites import DdlRewrites
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.guards.doubts.label_dates import LabelDates
from walbridge.producer.guards.doubts.partition_rows import PartitionRows
from walbridge.producer.guards.doubts.rewrites import by_relation, from_text
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableStorage
from walbridge.producer.postgres.publications.publication import insert_lsn
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.settings import Settings


class StreamFacts:
    """Collects the facts of one session's stream."""

    def __init__(
        self, settings: Settings, connection: SqlConnection, tables: Tables, tracker: ProgressTracker, doubts: Doubts
    ) -> None:
        self._connection, self._tables, self._tracker, self._doubts = connection, tables, tracker, doubts
        may_mark = not settings.postgres.two_phase
        self.partitions = PartitionRows(connection, tracker, tables.versions.name, may_mark=may_mark)
        self.rewrites = DdlRewrites()
        self.label_dates = LabelDates()
        self._read: dict[int, tuple[str, TableStorage]] = {}
        """By relation, what was read of its text: each look asks for all of them, and few have another one by then."""
        self.is_look_due = False
        """Whether what came since the last look at all tables may end a doubt."""
        self.has_ddl_rows = False
        """Whether the stream brings DDL rows: they give the position at which a table became doubtful."""

    def note_truncate(self, relation_ids: Iterable[int], xid: int) -> None:
        """The stream brings a TRUNCATE of these tables, in this transaction."""
        self.is_look_due |= self._doubts.truncations.receive(relation_ids, xid)

    def note_change(self, relation_id: int, xid: int) -> None:
        """The stream brings a change of this table, in this transaction. It must be called for the first change after a
        TRUNCATE. Raises as ``Doubts.add``."""
        if self._doubts.truncations.xid_of_last_truncate(relation_id) == xid and len(self.known(relation_id).files) > 1:
            self._doubts.add({relation_id: table_rewritten(self._tables.versions.name(relation_id))})

    def note_relation(self, relation_id: int) -> None:
        """The stream brings a Relation message, of whatever relation. Raises as ``Doubts.add``."""
        self._doubts.add(self.partitions.announce(relation_id))

    def note_partition_change(self, relation_id: int, root: int) -> None:
        """The next change is one of this partition, under its root's name."""
        self.partitions.note_change_of(relation_id, root, by_relation(self.known(root)))

    def has_used_partition(self, root: int, relation_ids: Collection[int]) -> bool:
        """Whether one of these is known to be below this root, and may have rows."""
        return self.partitions.has_used_partition(root, relation_ids, by_relation(self.known(root)))

    def note_rewrite(self, relation_id: int, file: int, enums: Enums = NO_ENUMS) -> None:
        """A DDL row says that a file with the same rows will replace this one, with labels of these enums as text."""
        self.rewrites.begin(relation_id, file, enums)

    def note_file_after_command(self, relation_id: int, file: int) -> None:
        """A DDL row says that the table has this file at the end of a command."""
        self.is_look_due |= self.rewrites.end(relation_id, file)

    def with_unused_partitions(self, table: TableProgress) -> TableProgress:
        """The record of a table that is about to be copied, with its empty partitions marked as unused. Labels in its
        rows count as not seen before."""
        self._tables.writers.label_texts.forget(table.relation_id)
        self.label_dates.see(from_text(table.storage or "").labels, lambda: insert_lsn(self._connection))
        return self.partitions.with_unused_marks(table)

    def known(self, relation_id: int) -> TableStorage:
        """The table's files, partitions and types as progress remembers them."""
        table = self._tracker.progress.tables.get(relation_id)
        text = (table.storage if table is not None else None) or ""
        read = self._read.get(relation_id)
        if read is None or read[0] != text:
            self._read[relation_id] = read = text, from_text(text)
        return read[1]
