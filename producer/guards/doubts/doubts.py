"""Tables that are followed and may not equal the source any more: which, and why.

In: the tables' files, partitions and types as they are, compared with what progress remembers; what others find
(``memberships.py``). Out: what the next cut has to say (``session/table_trouble.py``). Nothing is remembered of a table
in doubt before its next copy begins, so that a doubt which no cut told is found again after a restart (I7, I8).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.errors.tables import (
    RewriteTold,
    found_unequal,
    key_made_again,
    labels_changed,
    partition_not_sent,
    partitions_changed,
    table_rewritten,
)
from walbridge.producer.guards.doubts import altered_types, rewrites
from walbridge.producer.guards.doubts.altered_columns import AlteredColumns
from walbridge.producer.guards.doubts.kept_casts import NO_ENUMS, Enums
from walbridge.producer.guards.doubts.keys_made_again import KeysMadeAgain
from walbridge.producer.guards.doubts.new_labels import NewLabels
from walbridge.producer.guards.doubts.partition_rows import PartitionRows
from walbridge.producer.guards.doubts.rewrites import as_text, by_relation, from_text
from walbridge.producer.guards.doubts.told_rewrites import ToldRewrites
from walbridge.producer.guards.doubts.truncations import Truncations
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState, TableFile, TableStorage
from walbridge.producer.postgres.publications.combined_publications import operations_in
from walbridge.producer.postgres.publications.publication import insert_lsn
from walbridge.producer.postgres.storage.table_files import labels_of, table_storages
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.told_ddl import Attached

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Doubts:
    """Those of one session."""

    def __init__(self, settings: Settings, connection: SqlConnection, tables: Tables, tracker: ProgressTracker) -> None:
        self._connection, self._tables, self._tracker = connection, tables, tracker
        self._publications = settings.postgres.publication_names
        self._stops = settings.producer.on_table_error == "stop"
        self._doubted: dict[int, OperatorError] = {}
        self._options: dict[str, str] = {}
        """What is to be remembered with what is doubted for it."""
        self.is_look_due = False
        """Whether what came since the last look at all tables may end a doubt."""
        self._truncations = Truncations()
        self.is_told = False
        """Whether the source tells DDL as rows in the stream: those say of which position a doubt is."""
        self._told = ToldRewrites()
        self._partitions = PartitionRows(connection, tracker, self._name, may_mark=not settings.postgres.two_phase)
        self._columns = AlteredColumns(settings.postgres, connection, tables, self._name)
        self._keys = KeysMadeAgain(tables, tracker, lambda: insert_lsn(connection))
        self._labels = NewLabels(connection, tracker, tables.writers, lambda: insert_lsn(connection))
        self._mislabelled: set[int] = set()
        """Tables that are doubted for what their rows hold: a start would not find it again."""
        self._untold: set[int] = set()
        """Tables that got a column in which older rows have a value, which no version of them tells yet."""

    def __len__(self) -> int:
        return len(self._doubted) + len(self._truncations)

    def __contains__(self, relation_id: int) -> bool:
        return relation_id in self._doubted

    @property
    def reasons(self) -> Mapping[int, OperatorError]:
        """By table, those that nothing which the stream may still bring explains."""
        return dict(self._doubted)

    def truncate(self, relation_ids: Iterable[int], xid: int) -> None:
        """The stream brings a TRUNCATE of these, in this transaction."""
        self.is_look_due |= self._truncations.receive(relation_ids, xid)

    def write(self, relation_id: int, xid: int) -> None:
        """The stream brings the first change of this table behind a TRUNCATE, in this transaction."""
        if self._truncations.xid_of(relation_id) == xid and len(self._known(relation_id).files) > 1:
            self.add({relation_id: table_rewritten(self._name(relation_id))})

    def add(self, reasons: Mapping[int, OperatorError], options: Mapping[str, str] = NO_OPTIONS) -> None:
        """These tables are not current.

        Args:
            options: facts that hold for all of them, to be remembered once they are told.

        Raises:
            OperatorError: settings say that this stops all.
        """
        if reasons and self._stops:
            raise next(iter(reasons.values()))
        self._doubted = {**reasons, **self._doubted}
        self._options |= options

    def find_unequal(self, relation_ids: Iterable[int], options: Mapping[str, str]) -> None:
        """Somebody compared these with their source, and rows of them differ in the lake. As ``add``."""
        self.add({each: found_unequal(self._name(each)) for each in relation_ids}, options)

    def has_untold(self, option: str) -> bool:
        """Whether this is to be remembered with what is doubted, and is not yet."""
        return option in self._options

    def may_be_explained(self, end: Lsn, received: Lsn) -> bool:
        """Whether what the stream brings next, which was received until there, may spare a cut that ends at ``end`` to
        call a table stale."""
        return self._truncations.may_explain(end, received)

    def take(self, end: Lsn) -> dict[int, OperatorError]:
        """All of them, each told once, to be said in the cut that is made next, which ends there."""
        doubted, self._doubted = self._truncations.take(end) | self._doubted, {}
        self._labels.pass_to(end)
        self._mislabelled.clear()
        if self._options:
            self._tracker.remember_options(self._options)
            self._options = {}
        return doubted

    def explain_labels(self) -> None:
        """Look whether rows that were encoded hold labels. Raises as ``add``, and as ``compare_storage``."""
        mislabelled = self._labels.explain()
        self._mislabelled |= mislabelled
        self.add({each: labels_changed(self._name(each)) for each in mislabelled})

    def take_mislabelled(self) -> dict[int, OperatorError]:
        """Tables that hold what is no label, each told once. Raises as ``explain_labels``."""
        self.explain_labels()
        mislabelled, self._mislabelled = self._mislabelled & self._doubted.keys(), set()
        return {each: self._doubted.pop(each) for each in mislabelled}

    def take_of(self, relation_id: int) -> OperatorError | None:
        """Why this table is not current, told once."""
        return self._doubted.pop(relation_id, None)

    def announce(self, relation_id: int) -> None:
        """The server announces any relation. Raises as ``add``."""
        self.add(self._partitions.announce(relation_id))

    def announce_partition(self, relation_id: int, root: int) -> None:
        """The stream brings a change of this partition, under its root's name."""
        self._partitions.announce_below(relation_id, root, by_relation(self._known(root)))

    def with_empty_partitions(self, table: TableProgress) -> TableProgress:
        """A table that is to be copied, with what is to be remembered of its partitions. Labels are met anew."""
        self._tables.writers.label_texts.forget(table.relation_id)
        return self._partitions.with_empty(table)

    def tell_rewrite(self, relation_id: int, file: int, enums: Enums = NO_ENUMS) -> None:
        """A row about DDL tells that one with the same rows is to replace this file, labels of these enums as texts."""
        self._told.begin(relation_id, file, enums)

    def tell_file(self, relation_id: int, file: int) -> None:
        """A row about DDL tells where the table lies at the end of a command."""
        self.is_look_due |= self._told.end(relation_id, file)

    def has_partition(self, root: int, relation_ids: Collection[int]) -> bool:
        """Whether one of these is known to be below this root, and may have rows."""
        return self._partitions.has_any(root, relation_ids, by_relation(self._known(root)))

    def may_bring_rows(self, attached: Attached) -> bool:
        """Whether its root needs a copy."""
        return self._partitions.may_bring_rows(attached)

    def knows_partitions_of(self, root: int) -> bool:
        """Whether the last comparison showed every partition of which changes came."""
        return self._partitions.knows_all_of(root)

    def awaits(self, relation_id: int) -> bool:
        """Whether the last comparison showed a column that is to be told with what older rows have in it, or another
        key. A rewrite takes that value out of the catalogue, so the files are compared again when a Relation brings the
        column."""
        return relation_id in self._untold or self._keys.awaits(relation_id)

    def announce_key(self, relation_id: int) -> None:
        """The stream announced the table, which was compared since. Raises as ``add``."""
        if self._keys.is_doubt(relation_id):
            self.add({relation_id: key_made_again(self._name(relation_id))})

    def compare_storage(self, relation_ids: Iterable[int], snapshot: Snapshot | None) -> set[int]:
        """Whether rows came, went or changed unsaid; what is no doubt is remembered for the next comparison.

        Returns those that are gone: nobody knows what was done to them before.

        Args:
            snapshot: of a moment before.
        """
        self.explain_labels()  # by what progress has of them, before that is what is found now
        tables, wanted = self._tracker.progress.tables, set(relation_ids)
        found = table_storages(self._connection, wanted, self._publications)
        known = {each: self._known(each) for each in found}
        self._told.compare_labels(known, found, partial(labels_of, self._connection))
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
            elif relation_id in self._doubted or relation_id in held:
                continue
            elif tables[relation_id].storage != (storage := self._remembered(relation_id, known[relation_id], now)):
                others[relation_id] = replace(tables[relation_id], storage=storage)
        self.add(reasons)
        self._truncations.note_compared(found, unexplained, snapshot, partial(insert_lsn, self._connection))
        for relation_id in found.keys() - unexplained.keys():
            self._partitions.note_compared(relation_id)
            self._told.forget(found[relation_id].files)
        if others:
            self._tracker.remember_tables(others)
        return wanted - found.keys()

    def _remembered(self, relation_id: int, known: TableStorage, now: TableStorage) -> str:
        now = replace(now, key=self._keys.remembered(relation_id, known, now))
        return as_text(self._partitions.marked(relation_id, by_relation(known), now))

    def _yet_to_come(
        self, relation_id: int, known: TableStorage, now: TableStorage, reason: OperatorError | None
    ) -> tuple[list[TableFile], OperatorError] | None:
        """What the stream may still bring of a table that differs, and what to say once it has passed this look."""
        if reason is not None:
            # Rows about DDL say where; of what they do not tell it is not known when it was (``truncations.py``).
            undated = [replace(each, made_by=0) for each in now.files]
            return (undated, reason) if self.is_told and isinstance(reason, RewriteTold) else None
        new = self._rewritten(relation_id, known, now, may_be_truncated=self._hides_truncates(relation_id))
        return (new, table_rewritten(self._name(relation_id))) if new else None

    def note_look(self, state: PublicationState, snapshot: Snapshot | None) -> None:
        """All tables were looked at when the publication was in this state."""
        self.is_look_due, self._columns.seen = False, snapshot
        self._truncations.note_look(state.lsn, snapshot)

    def _reason(
        self, relation_id: int, known: TableStorage, now: TableStorage, columns: OperatorError | None
    ) -> OperatorError | None:
        """Why the table may not equal its source any more; ``columns``: what speaks against its columns alone."""
        before, files = by_relation(known), by_relation(now)
        if not all(file.is_logged for file in now.files if file.relation_id != relation_id):
            return partition_not_sent(self._name(relation_id))
        if before and self._partitions.is_other_tree(relation_id, before, files):
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
            and not self._partitions.is_unused(before[file.relation_id])
            and not self._told.explain(before[file.relation_id], file)
            and rewrites.is_rewritten(
                before[file.relation_id],
                file,
                is_partition=file.relation_id != relation_id,
                is_truncated=may_be_truncated or self._truncations.is_truncated(relation_id),
                truncated_by=file.made_by if may_be_truncated else self._truncations.xid_of(relation_id),
            )
        ]

    def _hides_truncates(self, relation_id: int) -> bool:
        """Whether a table may be emptied without a word, and its archive is as it should be."""
        table = self._tracker.progress.tables.get(relation_id)
        operations = operations_in(table.membership) if table is not None else None
        return operations is not None and "truncate" not in operations

    def _known(self, relation_id: int) -> TableStorage:
        table = self._tracker.progress.tables.get(relation_id)
        return from_text((table.storage if table is not None else None) or "")

    def _name(self, relation_id: int) -> str:
        return self._tables.versions.name(relation_id)
