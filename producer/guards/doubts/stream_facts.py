"""What the stream tells of tables besides their rows, which explains other files and partitions, or puts in doubt.

In: TRUNCATEs, Relations, rows about DDL, as they come. Out: facts that ``storage_comparison.py`` goes by when the
catalogue shows other files or partitions; and doubts, where a row comes of which others may be missing (I8).
"""

from collections.abc import Collection, Iterable

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.errors.tables import table_rewritten
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.guards.doubts.kept_casts import NO_ENUMS, Enums
from walbridge.producer.guards.doubts.partition_rows import PartitionRows
from walbridge.producer.guards.doubts.rewrites import by_relation, from_text
from walbridge.producer.guards.doubts.told_rewrites import ToldRewrites
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableStorage
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.settings import Settings


class StreamFacts:
    """Those of one session."""

    def __init__(
        self, settings: Settings, connection: SqlConnection, tables: Tables, tracker: ProgressTracker, doubts: Doubts
    ) -> None:
        self._tables, self._tracker, self._doubts = tables, tracker, doubts
        may_mark = not settings.postgres.two_phase
        self.partitions = PartitionRows(connection, tracker, tables.versions.name, may_mark=may_mark)
        self.rewrites = ToldRewrites()
        self.is_look_due = False
        """Whether what came since the last look at all tables may end a doubt."""
        self.is_ddl_told = False
        """Whether the source tells DDL as rows in the stream: those say of which position a doubt is."""

    def truncate(self, relation_ids: Iterable[int], xid: int) -> None:
        """A TRUNCATE of these, in this transaction."""
        self.is_look_due |= self._doubts.truncations.receive(relation_ids, xid)

    def write(self, relation_id: int, xid: int) -> None:
        """The first change of this table behind a TRUNCATE, in this transaction. Raises as ``Doubts.add``."""
        if self._doubts.truncations.xid_of(relation_id) == xid and len(self.known(relation_id).files) > 1:
            self._doubts.add({relation_id: table_rewritten(self._tables.versions.name(relation_id))})

    def announce(self, relation_id: int) -> None:
        """The server announces any relation. Raises as ``Doubts.add``."""
        self._doubts.add(self.partitions.announce(relation_id))

    def announce_partition(self, relation_id: int, root: int) -> None:
        """A change of this partition comes next, under its root's name."""
        self.partitions.announce_below(relation_id, root, by_relation(self.known(root)))

    def has_partition(self, root: int, relation_ids: Collection[int]) -> bool:
        """Whether one of these is known to be below this root, and may have rows."""
        return self.partitions.has_any(root, relation_ids, by_relation(self.known(root)))

    def tell_rewrite(self, relation_id: int, file: int, enums: Enums = NO_ENUMS) -> None:
        """A row about DDL: a file with the same rows is to replace this one, labels of these enums as texts."""
        self.rewrites.begin(relation_id, file, enums)

    def tell_file(self, relation_id: int, file: int) -> None:
        """A row about DDL: where the table lies at the end of a command."""
        self.is_look_due |= self.rewrites.end(relation_id, file)

    def with_empty_partitions(self, table: TableProgress) -> TableProgress:
        """A table that is to be copied, with what is to be remembered of its partitions. Labels are met anew."""
        self._tables.writers.label_texts.forget(table.relation_id)
        return self.partitions.with_empty(table)

    def known(self, relation_id: int) -> TableStorage:
        """The table's files, partitions and types as progress remembers them."""
        table = self._tracker.progress.tables.get(relation_id)
        return from_text((table.storage if table is not None else None) or "")
