"""Relation versions as the stream announces them, each made ready for its table's next change.

In: Relations, when a change needs them. Out: installed versions, or why one cannot be followed; and the tables that
were announced since their last change. Such a table is looked at before its next change: the server announces a table
again after it was altered or rewritten.
"""

from walbridge.producer.errors.tables import UnfitTable
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.guards.unfit.partitions import announced_fault
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.schemas.ddl_row import is_ddl_table


class AnnouncedTables:
    """The tables that one session announced."""

    def __init__(self, followed: FollowedTables, watch: SourceWatch) -> None:
        self._followed, self._watch = followed, watch
        self._announced: set[int] = set()
        self._refused: dict[int, UnfitTable] = {}
        """Why tables cannot be followed as they were announced last; used at their next change."""
        self._maybe_partitions: dict[int, tuple[Relation, Relation]] = {}
        """By root: its Relation and that of a followed table which came right after it. If a row of the root comes
        next, it is of this one, which is its partition by then; a TRUNCATE is of both."""

    def receive(self, relation: Relation) -> None:
        """Install a version of a table, which the next change needs."""
        if is_ddl_table(relation.namespace, relation.name):
            return
        relation_id = relation.relation_id
        self.take_refusal(relation_id)
        try:
            self._followed.install(relation)
        except UnfitTable as reason:
            self._refused[relation_id] = reason
        self._announced.add(relation_id)

    def notice(self, relation: Relation) -> None:
        """A Relation came. That of a partition comes right after its root's: the next change is one of its rows."""
        if is_ddl_table(relation.namespace, relation.name):
            return
        self._watch.stream_facts.note_relation(relation.relation_id)
        root = self._followed.root_of(relation)
        if root is None:
            return
        self._announced.add(root.relation_id)
        if relation.relation_id in self._followed:
            self._maybe_partitions[root.relation_id] = root, relation
        else:
            self._note_partition(root, relation)

    def _note_partition(self, root: Relation, partition: Relation) -> None:
        self._watch.stream_facts.note_partition_change(partition.relation_id, root.relation_id)
        fault = announced_fault(root, partition)
        if fault is not None:
            self._watch.doubts.add({root.relation_id: fault})

    def note_truncate(self) -> None:
        """A TRUNCATE comes: its tables were announced one after the other, without being partitions."""
        self._maybe_partitions.clear()

    def take_announced(self, relation_id: int) -> bool:
        """Whether the table was announced since its last change; true only once for each announcement. The change that
        asks is a row, or comes after ``note_truncate``."""
        if relation_id not in self._announced:
            return False
        self._announced.discard(relation_id)
        if (announced := self._maybe_partitions.pop(relation_id, None)) is not None:
            self._note_partition(*announced)
        return True

    def take_refusal(self, relation_id: int) -> UnfitTable | None:
        """Why the table cannot be followed as it was announced last, returned once; None where it can."""
        return self._refused.pop(relation_id, None)
