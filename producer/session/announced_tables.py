"""Relation versions as the stream announces them, each made ready for its table's next change.

In: Relations, when a change needs them. Out: versions installed, or why one cannot be followed; and which tables
were announced since their last change: each is looked at before its next one, since a table that was altered or
rewritten is announced again.
"""

from walbridge.producer.errors.tables import UnfitTable
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.schemas.ddl_row import is_ddl_table


class AnnouncedTables:
    """One for each session."""

    def __init__(self, followed: FollowedTables, watch: SourceWatch) -> None:
        self._followed, self._watch = followed, watch
        self._announced: set[int] = set()
        self._refused: dict[int, UnfitTable] = {}
        """Tables that were announced as what cannot be followed: told at their next change."""

    def receive(self, relation: Relation) -> None:
        """A version of a table, which a change needs next."""
        if is_ddl_table(relation.namespace, relation.name):
            return
        relation_id = relation.relation_id
        self.take_refused(relation_id)
        try:
            self._followed.install(relation)
        except UnfitTable as reason:
            self._refused[relation_id] = reason
        self._announced.add(relation_id)

    def notice(self, relation: Relation) -> None:
        """A Relation came: that of a partition comes behind its root's, whose next change is one of its rows."""
        if is_ddl_table(relation.namespace, relation.name):
            return
        self._watch.stream_facts.note_relation(relation.relation_id)
        root = self._followed.root_of(relation.relation_id)
        if root is not None:
            self._watch.stream_facts.note_partition_change(relation.relation_id, root)
            self._announced.add(root)

    def take(self, relation_id: int) -> bool:
        """Whether the table was announced since its last change; told once."""
        if relation_id not in self._announced:
            return False
        self._announced.discard(relation_id)
        return True

    def take_refused(self, relation_id: int) -> UnfitTable | None:
        """Why the table cannot be followed as it was announced last, told once."""
        return self._refused.pop(relation_id, None)
