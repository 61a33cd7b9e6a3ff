"""The tables whose copy this pipeline holds, in one session.

In: Relations as changes want them, and tables that are dropped. Out: each installed for the changes that
follow, on the fast path only from its first change on.
"""

from collections.abc import Iterable

from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.fast_path import FastPath


class FollowedTables:
    """Of one session."""

    def __init__(self, tables: Tables, fast_path: FastPath, relation_ids: Iterable[int]) -> None:
        self._tables = tables
        self._fast_path = fast_path
        self._relation_ids = frozenset(relation_ids)

    def install(self, relation: Relation) -> None:
        """Make the table ready for changes of this version."""
        self._fast_path.forget(relation.relation_id)
        self._tables.receive(relation, self._relation_ids)

    def drop(self, relation_id: int) -> None:
        """It is followed no more."""
        self._relation_ids -= {relation_id}
        self._fast_path.forget(relation_id)
