"""Partitions below published roots that came or went: whether rows of the root came or went with them.

In: the partitions of a root as progress remembers them and as they are, and which the server announced. Out: whether
the root is in doubt, and what is to be remembered of each.

Postgres sends nothing of rows that come with a partition, or go. One of which no row ever came takes none along: it was
made as a partition, or was empty when it was attached or its root was copied, and was never announced since. The server
announces a partition once a session, before its first change, and the next session again. So what is remembered says
that it is *unused*, until it is announced; in a session that heard of it before, nobody can say so again. One that was
emptied or rewritten while it was unused is *replaced*: if it is announced later, its rows may be of before.
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
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.told_ddl import Attached

Files = Mapping[int, TableFile]


class PartitionRows:
    """Those of one session.

    Args:
        may_mark: whether each partition of which changes come is announced in the session that publishes them; a
            prepared transaction that is rolled back announces some that are then taken for known.
    """

    def __init__(
        self, connection: SqlConnection, tracker: ProgressTracker, name: Callable[[int], str], *, may_mark: bool
    ) -> None:
        self._connection, self._tracker, self._name, self._may_mark = connection, tracker, name, may_mark
        self._announced: set[int] = set()
        """Relations that this session heard of."""
        self._unknown: dict[int, set[int]] = {}
        """By root: partitions of which the stream brought changes, and which it did not have when last looked at."""
        self._roots: dict[int, int] = {}
        """By partition that is remembered as unused."""
        self._roots_of: Mapping[int, TableProgress] = {}

    def announce(self, relation_id: int) -> Mapping[int, OperatorError]:
        """The server announces any relation: before the first change of a partition, too. The root that is in doubt."""
        self._announced.add(relation_id)
        tables = self._tracker.progress.tables
        if tables is not self._roots_of:
            self._roots = {
                leaf: each
                for each, table in tables.items()
                if rewrites.has_marks(table.storage or "")
                for leaf, file in by_relation(from_text(table.storage or "")).items()
                if file.mark
            }
            self._roots_of = tables
        root = self._roots.get(relation_id)
        if root is None:
            return {}
        known = from_text(tables[root].storage or "")
        was_replaced = by_relation(known)[relation_id].mark == REPLACED
        files = tuple(replace(each, mark="") if each.relation_id == relation_id else each for each in known.files)
        self._tracker.remember_tables({root: replace(tables[root], storage=as_text(replace(known, files=files)))})
        return {root: partitions_changed(self._name(root))} if was_replaced else {}

    def announce_below(self, relation_id: int, root: int, known: Files) -> None:
        """The stream brings a change of this partition, under its root's name."""
        if relation_id not in known:
            self._unknown.setdefault(root, set()).add(relation_id)

    def knows_all_of(self, root: int) -> bool:
        """Whether the last comparison showed every partition of which changes came: one that came and went since takes
        its rows with it."""
        return root not in self._unknown

    def note_compared(self, root: int) -> None:
        """The root's partitions were compared with what is known of them."""
        self._unknown.pop(root, None)

    def has_any(self, root: int, relation_ids: Collection[int], known: Files) -> bool:
        """Whether one of these is known to be below this root, and may have rows."""
        used = {each for each, file in known.items() if each != root and not self.is_unused(file)}
        return not (used | self._unknown.get(root, set())).isdisjoint(relation_ids)

    def may_bring_rows(self, attached: Attached) -> bool:
        """Whether its root needs a copy: it has rows, or what was written to it before keeps the server from sending
        what is written to it now."""
        return not attached.is_empty or self._connection.info.server_version < SINCE_VERSION

    def is_unused(self, file: TableFile) -> bool:
        """Whether no row of this partition ever came."""
        return bool(file.mark) and file.relation_id not in self._announced

    def is_other_tree(self, root: int, before: Files, now: Files) -> bool:
        """Whether partitions came or went that may have rows."""
        left = rewrites.left_partitions(before, now)
        # One that is partitioned itself has the rows of those below it.
        if any(each in now or (before[each].file and not self.is_unused(before[each])) for each in left):
            return True
        if self._unknown.get(root, set()) - now.keys():
            return True
        came = rewrites.new_partitions(before, now)
        if not all(rewrites.is_in_first_file(each) for each in came):
            return True
        attached = [each for each in came if not each.is_born]
        if not attached:
            return False
        if self._connection.info.server_version < SINCE_VERSION:
            return True  # what was written to it before keeps the server from sending what is written to it now
        # One that is partitioned itself may have brought others, which were born below it.
        suspects = came if any(not each.file for each in attached) else attached
        wanted = {each.relation_id for each in suspects}
        return not empty_of(self._connection, wanted) >= wanted

    def marked(self, root: int, before: Files, now: TableStorage) -> TableStorage:
        """What is to be remembered of a root that is in no doubt, with its unused partitions."""
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

    def with_empty(self, table: TableProgress) -> TableProgress:
        """A table that is to be copied, with its partitions that are empty now: what comes to them will be told.

        What came of partitions before is no doubt about a copy that is read from now on; a table that is current until
        the copy's end stays in doubt.
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
