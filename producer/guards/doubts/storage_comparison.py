"""Compares tables' files, partitions, keys and types as the catalogue shows them with what progress remembers.

In: tables to look at, and what the stream told of them (``stream_facts.py``). Out: those that may not equal the source
any more, as doubts (``doubts.py``); of all others progress remembers what there is now, for the next comparison. A
table in doubt is remembered as it was, so that a restart finds the same (I7, I8).
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.errors.tables import (
    RewriteTold,
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
        self._untold: set[int] = set()
        """Tables that got a column in which older rows have a value, which no version of them tells yet."""

    def explain_labels(self) -> None:
        """Look whether rows that were encoded hold labels. Raises as ``Doubts.add``, and as ``compare``."""
        self._doubts.add_mislabelled(self._labels.explain())

    def pass_to(self, end: Lsn) -> None:
        """All transactions that ended before this position have come."""
        self._labels.pass_to(end)

    def awaits(self, relation_id: int) -> bool:
        """Whether the last comparison showed a column that is to be told with what older rows have in it, or another
        key. A rewrite takes that value out of the catalogue, so the files are compared again when a Relation brings the
        column."""
        return relation_id in self._untold or self._keys.awaits(relation_id)

    def announce_key(self, relation_id: int) -> None:
        """The stream announced the table, which was compared since. Raises as ``Doubts.add``."""
        if self._keys.is_doubt(relation_id):
            self._doubts.add({relation_id: key_made_again(self._name(relation_id))})

    def compare(self, relation_ids: Iterable[int], snapshot: Snapshot | None) -> set[int]:
        """Whether rows came, went or changed unsaid; what is no doubt is remembered for the next comparison.

        Returns those that are gone: nobody knows what was done to them before.

        Args:
            snapshot: of a moment before.
        """
        self.explain_labels()  # by what progress has of them, before that is what is found now
        tables, wanted = self._tracker.progress.tables, set(relation_ids)
        found = table_storages(self._connection, wanted, self._publications)
        known = {each: self._facts.known(each) for each in found}
        self._facts.rewrites.compare_labels(known, found, partial(labels_of, self._connection))
        columns, untold = self._columns.compare(known, found)
        self._untold = (self._untold - wanted) | untold
        held = untold | self._labels.compare(known, found)
        reasons: dict[int, OperatorError] = {}
        unexplained: dict[int, tuple[list[TableFile], OperatorError]] = {}
        others = {}
        for relation_id, now in found.items():
            self._keys.note_compared(relation_id, known[relation_id], now)
            reason = self._reason(relation_id, known[relation_id], now, columns.get(relation_id))
            if (what := self._yet_to_come(relation_id, known[relation_id], now, reason)) is not None:
                unexplained[relation_id] = what
            elif reason is not None:
                reasons[relation_id] = reason
            # Remembered as it is now, it would be no doubt any more after a restart.
            elif relation_id in self._doubts or relation_id in held:
                continue
            elif tables[relation_id].storage != (storage := self._remembered(relation_id, known[relation_id], now)):
                others[relation_id] = replace(tables[relation_id], storage=storage)
        self._doubts.add(reasons)
        self._doubts.truncations.note_compared(found, unexplained, snapshot, partial(insert_lsn, self._connection))
        for relation_id in found.keys() - unexplained.keys():
            self._facts.partitions.note_compared(relation_id)
            self._facts.rewrites.forget(found[relation_id].files)
        if others:
            self._tracker.remember_tables(others)
        return wanted - found.keys()

    def _remembered(self, relation_id: int, known: TableStorage, now: TableStorage) -> str:
        now = replace(now, key=self._keys.remembered(relation_id, known, now))
        return as_text(self._facts.partitions.marked(relation_id, by_relation(known), now))

    def _yet_to_come(
        self, relation_id: int, known: TableStorage, now: TableStorage, reason: OperatorError | None
    ) -> tuple[list[TableFile], OperatorError] | None:
        """What the stream may still bring of a table that differs, and what to say once it has passed this look."""
        if reason is not None:
            # Rows about DDL say where; of what they do not tell it is not known when it was (``truncations.py``).
            undated = [replace(each, made_by=0) for each in now.files]
            return (undated, reason) if self._facts.is_ddl_told and isinstance(reason, RewriteTold) else None
        new = self._rewritten(relation_id, known, now, may_be_truncated=self._hides_truncates(relation_id))
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
        if before and self._facts.partitions.is_other_tree(relation_id, before, files):
            return partitions_changed(self._name(relation_id))
        if self._rewritten(relation_id, known, now, may_be_truncated=True):
            return table_rewritten(self._name(relation_id))
        if columns is None and altered_types.is_printed_otherwise(known, now):
            return labels_changed(self._name(relation_id))
        return columns

    def _rewritten(
        self, relation_id: int, known: TableStorage, now: TableStorage, *, may_be_truncated: bool
    ) -> list[TableFile]:
        """Its new files that no TRUNCATE explains.

        Args:
            may_be_truncated: as if the stream had brought all TRUNCATEs that there may be.
        """
        before = by_relation(known)
        return [
            file
            for file in now.files
            if file.relation_id in before
            and not self._facts.partitions.is_unused(before[file.relation_id])
            and not self._facts.rewrites.explain(before[file.relation_id], file)
            and rewrites.is_rewritten(
                before[file.relation_id],
                file,
                is_partition=file.relation_id != relation_id,
                is_truncated=may_be_truncated or self._doubts.truncations.is_truncated(relation_id),
                truncated_by=file.made_by if may_be_truncated else self._doubts.truncations.xid_of(relation_id),
            )
        ]

    def _hides_truncates(self, relation_id: int) -> bool:
        """Whether a table may be emptied without a word, and its archive is as it should be."""
        table = self._tracker.progress.tables.get(relation_id)
        operations = operations_in(table.membership) if table is not None else None
        return operations is not None and "truncate" not in operations

    def _name(self, relation_id: int) -> str:
        return self._tables.versions.name(relation_id)
