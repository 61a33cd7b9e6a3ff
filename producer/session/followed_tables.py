"""The tables whose copy this pipeline holds, in one session.

In: Relations, when a change needs them, and tables that come and go. Out: relation versions installed for the
changes that follow. A version joins the fast path only at its first change, which has a barrier before it.
"""

from collections.abc import Iterable

from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.schemas.position import Lsn


class FollowedTables:
    """The tables that one session follows."""

    def __init__(
        self, tables: Tables, fast_path: FastPath, transactions: TransactionTracker, relation_ids: Iterable[int]
    ) -> None:
        self._tables = tables
        self._transactions = transactions
        self._fast_path = fast_path
        self._relation_ids = frozenset(relation_ids)
        self._told: dict[int, Lsn] = {}
        """By table: the commit LSN of the transaction that brought its newest version."""
        self._last: tuple[Relation | None, tuple[Lsn, int] | None] = None, None
        """The last Relation, and the place of the change after it (``next_change_place``)."""

    def __contains__(self, relation_id: int) -> bool:
        return relation_id in self._relation_ids

    def root_of(self, relation: Relation) -> Relation | None:
        """The Relation of the root of the one that was announced just now, if that is a partition of a followed table.

        The server announces a partition that is published through its root right after that, before the same change.
        So it does with the tables of a TRUNCATE. The root's next change goes the general way.
        """
        at, (before, before_at) = self._transactions.next_change_place, self._last
        self._last = relation, at
        if before is None or at is None or at != before_at or before.relation_id not in self:
            return None
        if not any(each.table.is_root for each in self._tables.versions.newest([before.relation_id])):
            return None
        self._fast_path.forget(before.relation_id)
        return before

    def install(self, relation: Relation) -> None:
        """Make the table ready for changes of this version.

        Raises:
            UnfitTable: nothing can be published with it.
        """
        begin = self._transactions.inside().begin
        self._fast_path.forget(relation.relation_id)
        self._told[relation.relation_id] = begin.final_lsn
        self._tables.receive(relation, self._relation_ids, begin.xid)

    def is_announced_since(self, relation_id: int, lsn: Lsn) -> bool:
        """Whether a transaction that committed at or after this LSN brought a version of the table."""
        told = self._told.get(relation_id)
        return told is not None and told >= lsn

    def add(self, relation_id: int) -> None:
        """Follow the table from here on. Its next change goes the general way."""
        self._relation_ids |= {relation_id}
        self._fast_path.forget(relation_id)

    def drop(self, relation_id: int) -> None:
        """Stop following the table: later Relations of it are foreign."""
        self._relation_ids -= {relation_id}
        self._fast_path.forget(relation_id)
