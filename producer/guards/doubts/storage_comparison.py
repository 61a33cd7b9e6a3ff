"""Compares tables' files, partitions, keys and types as the catalogue shows them with what progress remembers.

In: tables to look at, and what the stream said of them (``stream_facts.py``). Out: a doubt (``doubts.py``) for each
table that may not equal the source any more. For all others progress remembers the new state, for the next comparison.
Of a table in doubt it keeps the old state, so that a restart finds the same doubt (I7, I8).
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.errors.tables import (
    DatedByDdlRow,
    key_made_again,
    labels_changed,
    partition_not_sent,
    partitions_changed,
    table_rewritten,
)
from walbridge.producer.guards.doubts import altered_types, rewrites
from walbridge.producer.guards.doubts.altered_columns import AlteredColumns
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.guards.doubts.keys_made_again import KeysMadeAgain
from walbridge.producer.guards.doubts.new_labels import NewLabels
from walbridge.producer.guards.doubts.rewrites import as_text, by_relation
from walbridge.producer.guards.doubts.stream_facts import StreamFacts
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState, TableFile, TableStorage
from walbridge.producer.postgres.publications.combined_publications import operations_in
from walbridge.producer.postgres.publications.publication import insert_lsn
from walbridge.producer.postgres.storage.table_files import labels_of, table_storages
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings


class StorageComparison:
    """The comparisons of one session."""

    def __init__(
        self,
        settings: Settings,
        connection: SqlConnection,
        tables: Tables,
        tracker: ProgressTracker,
        facts: StreamFacts,
        doubts: Doubts,
    ) -> None:
        self._connection, self._tables, self._tracker = connection, tables, tracker
        self._facts, self._doubts = facts, doubts
        self._publications = settings.postgres.publication_names
        self._columns = AlteredColumns(settings.postgres, connection, tables, self._name)
        self._keys = KeysMadeAgain(tables, tracker, lambda: insert_lsn(connection))
        self._labels = NewLabels(connection, tracker, tables.writers, lambda: insert_lsn(connection))
        self._values_not_recorded: set[int] = set()
        """Tables with a new column of which no recorded version has the value of older rows yet."""

    def look_up_labels(self) -> None:
        """Look up every new label name of encoded rows in the catalogue. Raises as ``Doubts.add`` and ``compare``."""
        self._doubts.add_mislabelled(self._labels.look_up())

    def pass_to(self, end: Lsn) -> None:
        """The stream has brought all transactions that ended before this position."""
        self._labels.pass_to(end)

    def awaits_relation(self, relation_id: int) -> bool:
        """Whether the last comparison found a key or a column that the stream has not announced yet. A rewrite takes a
        new column's value for older rows out of the catalogue, so files are compared again when its Relation comes."""
        return relation_id in self._values_not_recorded or self._keys.has_pending_key(relation_id)

    def announce_key(self, relation_id: int) -> None:
        """The stream announced the table, and it was compared after that. Raises as ``Doubts.add``."""
        if self._keys.is_doubt(relation_id):
            self._doubts.add({relation_id: key_made_again(self._name(relation_id))})

    def compare(self, relation_ids: Iterable[int], snapshot: Snapshot | None) -> set[int]:
        """Find the tables of which rows may have come, gone or changed without a message in the stream, and remember
        the state of all others.

        Returns the tables that the catalogue does not have any more: nobody knows what was done to them before.

        Args:
            snapshot: taken a moment before.
        """
        self.look_up_labels()  # it compares with what progress remembers, which the following replaces
        tables, wanted = self._tracker.progress.tables, set(relation_ids)
        found = table_storages(self._connection, wanted, self._publications)
        known = {each: self._facts.known(each) for each in found}
        self._facts.rewrites.compare_labels(known, found, partial(labels_of, self._connection))
        columns, untold = self._columns.compare(known, found)
        self._values_not_recorded = (self._values_not_recorded - wanted) | untold
        not_yet = untold | self._labels.compare(known, found)
        reasons: dict[int, OperatorError] = {}
        unexplained: dict[int, tuple[list[TableFile], OperatorError]] = {}
        to_remember = {}
        for relation_id, now in found.items():
            self._keys.note_compared(relation_id, known[relation_id], now)
            reason = self._reason(relation_id, known[relation_id], now, columns.get(relation_id))
            if (what := self._explicable_files(relation_id, known[relation_id], now, reason)) is not None:
                unexplained[relation_id] = what
            elif reason is not None:
                reasons[relation_id] = reason
            # If the new state were remembered, a restart would not find the doubt again.
            elif relation_id in self._doubts or relation_id in not_yet:
                continue
            elif tables[relation_id].storage != (storage := self._remembered(relation_id, known[relation_id], now)):
                to_remember[relation_id] = replace(tables[relation_id], storage=storage)
        self._doubts.add(reasons)
        self._doubts.truncations.note_compared(found, unexplained, snapshot, partial(insert_lsn, self._connection))
        for relation_id in found.keys() - unexplained.keys():
            self._facts.partitions.note_compared(relation_id)
            self._facts.rewrites.forget(found[relation_id].files)
        if to_remember:
            self._tracker.remember_tables(to_remember)
        return wanted - found.keys()

    def _remembered(self, relation_id: int, known: TableStorage, now: TableStorage) -> str:
        now = replace(now, key=self._keys.remembered(relation_id, known, now))
        return as_text(self._facts.partitions.marked(relation_id, by_relation(known), now))

    def _explicable_files(
        self, relation_id: int, known: TableStorage, now: TableStorage, reason: OperatorError | None
    ) -> tuple[list[TableFile], OperatorError] | None:
        """The new files of a table that the stream may still explain, and the doubt if it does not; None where the
        stream explains nothing more."""
        if reason is not None:
            # A DDL row that is still to come gives the position. When the file was made is not known
            # (``truncations.py``).
            undated = [replace(each, written_by_xid=0) for each in now.files]
            return (undated, reason) if self._facts.has_ddl_rows and isinstance(reason, DatedByDdlRow) else None
        new = self._rewritten(relation_id, known, now, may_be_truncated=self._leaves_truncates_out(relation_id))
        return (new, table_rewritten(self._name(relation_id))) if new else None

    def note_look(self, state: PublicationState, snapshot: Snapshot | None) -> None:
        """All tables were looked at when the publication was in this state."""
        self._facts.is_look_due, self._columns.seen = False, snapshot
        self._doubts.truncations.note_look(state.lsn, snapshot)

    def _reason(
        self, relation_id: int, known: TableStorage, now: TableStorage, columns: OperatorError | None
    ) -> OperatorError | None:
        """Why the table may not equal its source any more; ``columns``: what speaks against its columns alone."""
        before, files = by_relation(known), by_relation(now)
        if not all(file.is_logged for file in now.files if file.relation_id != relation_id):
            return partition_not_sent(self._name(relation_id))
        if before and self._facts.partitions.came_or_went_with_rows(relation_id, before, files):
            return partitions_changed(self._name(relation_id))
        if self._rewritten(relation_id, known, now, may_be_truncated=True):
            return table_rewritten(self._name(relation_id))
        if columns is None and altered_types.prints_differently(known, now):
            return labels_changed(self._name(relation_id))
        return columns

    def _rewritten(
        self, relation_id: int, known: TableStorage, now: TableStorage, *, may_be_truncated: bool
    ) -> list[TableFile]:
        """The table's new files that no TRUNCATE explains.

        Args:
            may_be_truncated: assume that a TRUNCATE made each file, though the stream has not brought it yet.
        """
        before = by_relation(known)
        return [
            file
            for file in now.files
            if file.relation_id in before
            and not self._facts.partitions.is_unused(before[file.relation_id])
            and not self._facts.rewrites.explains(before[file.relation_id], file)
            and rewrites.is_rewritten(
                before[file.relation_id],
                file,
                is_partition=file.relation_id != relation_id,
                is_truncated=may_be_truncated or self._doubts.truncations.is_truncated(relation_id),
                truncated_by=file.written_by_xid
                if may_be_truncated
                else self._doubts.truncations.xid_of_last_truncate(relation_id),
            )
        ]

    def _leaves_truncates_out(self, relation_id: int) -> bool:
        """Whether the publications leave TRUNCATE out: then an emptied table is no doubt about its archive."""
        table = self._tracker.progress.tables.get(relation_id)
        operations = operations_in(table.membership) if table is not None else None
        return operations is not None and "truncate" not in operations

    def _name(self, relation_id: int) -> str:
        return self._tables.versions.name(relation_id)
