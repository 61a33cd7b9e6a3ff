"""Partitions that were attached, detached or dropped below a published root: whether rows came or went with them.

In: the partitions of a root as progress remembers them and as they are, and those that the server announced. Out:
whether the root is in doubt, and what progress is to remember of each partition.

Postgres sends nothing of the rows that come or go with a partition. A partition that never had a row takes none along:
it was created as a partition, or was empty when it was attached or its root was copied, and has not been announced
since. The server announces a partition in each session, before its first change there. So progress marks a partition as
*unused* until it is announced; once it was, a session cannot mark it again. An unused partition that got another file
is *replaced*: if it is announced later, its rows may have been written before the other file.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.errors.tables import partitions_changed
from walbridge.producer.guards.doubts import rewrites
from walbridge.producer.guards.doubts.rewrites import REPLACED, UNUSED, as_text, by_relation, from_text
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableFile, TableStorage
from walbridge.producer.postgres.publications.combined_publications import operations_in
from walbridge.producer.postgres.storage.table_files import empty_of
from walbridge.producer.relations.partition_sessions import SINCE_VERSION
from walbridge.schemas.control.table_progress import CURRENT, TableProgress
from walbridge.schemas.ddl_row import Attached
from walbridge.schemas.errors import OperatorError

Files = Mapping[int, TableFile]


class PartitionRows:
    """Compares the partitions of one session's roots.

    Args:
        may_mark: whether each partition is announced in the session that publishes its changes. Not so with two-phase
            commit: a prepared transaction that is rolled back may hold the only announcement.
    """

    def __init__(
        self, connection: SqlConnection, tracker: ProgressTracker, name: Callable[[int], str], *, may_mark: bool
    ) -> None:
        self._connection, self._tracker, self._name, self._may_mark = connection, tracker, name, may_mark
        self._announced: set[int] = set()
        """Relations that this session announced."""
        self._unknown: dict[int, set[int]] = {}
        """By root: partitions with changes in the stream that the root did not have at the last look."""
        self._roots: dict[int, int] = {}
        """The root of each partition that progress marks as unused."""
        self._roots_are_of: Mapping[int, TableProgress] = {}
        """The tables of progress that ``_roots`` was made of."""

    def announce(self, relation_id: int) -> Mapping[int, OperatorError]:
        """The server announced this relation, as it does before the first change of a partition. Returns the root that
        is in doubt by that, if there is one."""
        self._announced.add(relation_id)
        tables = self._tracker.progress.tables
        if tables is not self._roots_are_of:
            self._roots = {
                leaf: each
                for each, table in tables.items()
                if rewrites.has_marks(table.storage or "")
                for leaf, file in by_relation(from_text(table.storage or "")).items()
                if file.mark
            }
            self._roots_are_of = tables
        root = self._roots.get(relation_id)
        if root is None:
            return {}
        known = from_text(tables[root].storage or "")
        was_replaced = by_relation(known)[relation_id].mark == REPLACED
        files = tuple(replace(each, mark="") if each.relation_id == relation_id else each for each in known.files)
        self._tracker.remember_tables({root: replace(tables[root], storage=as_text(replace(known, files=files)))})
        return {root: partitions_changed(self._name(root))} if was_replaced else {}

    def note_change_of(self, relation_id: int, root: int, known: Files) -> None:
        """The stream brings a change of this partition, under its root's name. ``known``: the root's remembered
        files."""
        if relation_id not in known:
            self._unknown.setdefault(root, set()).add(relation_id)

    def knows_all_partitions_of(self, root: int) -> bool:
        """Whether the last comparison found every partition with changes in the stream. One that was attached and
        detached in between took its rows along."""
        return root not in self._unknown

    def note_compared(self, root: int) -> None:
        """The root's partitions were compared with those that progress remembers."""
        self._unknown.pop(root, None)

    def has_used_partition(self, root: int, relation_ids: Collection[int], known: Files) -> bool:
        """Whether one of these relations is a known partition of this root, and may have rows."""
        used = {each for each, file in known.items() if each != root and not self.is_unused(file)}
        return not (used | self._unknown.get(root, set())).isdisjoint(relation_ids)

    def may_bring_rows(self, attached: Attached) -> bool:
        """Whether its root needs a copy: the partition has rows, or the walsender may not send its changes, since it
        remembers the table from before (``partition_sessions.py``)."""
        return not attached.is_empty or self._connection.info.server_version < SINCE_VERSION

    def is_unused(self, file: TableFile) -> bool:
        """Whether this partition never had a row."""
        return bool(file.mark) and file.relation_id not in self._announced

    def came_or_went_with_rows(self, root: int, before: Files, now: Files) -> bool:
        """Whether partitions came or went that may have had rows."""
        left = rewrites.left_partitions(before, now)
        # One that is partitioned itself has the rows of those below it.
        if any(each in now or (before[each].file and not self.is_unused(before[each])) for each in left):
            return True
        if self._unknown.get(root, set()) - now.keys():
            return True
        came = rewrites.new_partitions(before, now)
        if not all(rewrites.is_in_first_file(each) for each in came):
            return True
        attached = [each for each in came if not each.was_created_as_partition]
        if not attached:
            return False
        if self._connection.info.server_version < SINCE_VERSION:
            return (
                True  # the walsender may remember it from before, and not send its changes (``partition_sessions.py``)
            )
        # One that is partitioned itself may have brought others, which were born below it.
        suspects = came if any(not each.file for each in attached) else attached
        wanted = {each.relation_id for each in suspects}
        return not empty_of(self._connection, wanted) >= wanted

    def marked(self, root: int, before: Files, now: TableStorage) -> TableStorage:
        """What progress is to remember of a root that is in no doubt, with its unused partitions marked."""
        table = self._tracker.progress.tables.get(root)
        if len(now.files) < 2 or not before or table is None or not self._sends_inserts(table):
            return now
        return replace(
            now, files=tuple(self._with_mark(root, before.get(each.relation_id), each) for each in now.files)
        )

    def _with_mark(self, root: int, before: TableFile | None, now: TableFile) -> TableFile:
        if now.relation_id in (root, *self._announced) or not now.file:
            return now
        if before is None:
            return replace(now, mark=UNUSED)
        return replace(now, mark=REPLACED if before.mark and before.file != now.file else before.mark)

    def with_unused_marks(self, table: TableProgress) -> TableProgress:
        """The record of a table that is about to be copied, with its empty partitions marked as unused.

        Changes of partitions before are no doubt about a copy that is read from now on. A table that stays current
        until the end of its copy stays in doubt.
        """
        if table.state != CURRENT:
            self._unknown.pop(table.relation_id, None)
        known = from_text(table.storage or "")
        leaves = [each.relation_id for each in known.files if each.relation_id != table.relation_id and each.file]
        unheard = [each for each in leaves if each not in self._announced]
        if not unheard or not self._sends_inserts(table):
            return table
        empty = empty_of(self._connection, unheard)
        files = tuple(replace(each, mark=UNUSED if each.relation_id in empty else "") for each in known.files)
        return replace(table, storage=as_text(replace(known, files=files)))

    def _sends_inserts(self, table: TableProgress) -> bool:
        return self._may_mark and operations_in(table.membership) is None
