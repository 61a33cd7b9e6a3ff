"""The catalogue's facts of announced tables, asked of many tables at once where that is as good as one by one.

In: an announced relation, and the transaction that is being read. Out: facts of the table and its types.

The catalogue says *now*, the stream said *then*. An answer must show at least what was announced: it must
not be older than any alteration before it. Asked singly, that is waited for, since a commit is in the WAL a
moment before the catalogue shows it. An answer that was given earlier will do where its snapshot shows the
transaction that is being read:

- what this transaction altered itself is in that snapshot then;
- who altered the table before held a lock that kept this transaction away from it, and let it go only
  when its commit was visible, so that is in the snapshot, too;
- what a new answer would show beyond it came later than what was announced. A quicker producer would have been
  given the earlier answer, and it is the closer one.

A transaction that committed after the snapshot is not in it, nor is one whose commit was still invisible:
for these the catalogue is asked again. So an answer holds for a backlog as long as that reaches, and for
nothing that is committed later.
"""

from collections.abc import Collection

from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableFacts
from walbridge.schemas.pg_types import TypeFacts

Facts = tuple[TableFacts | None, dict[int, TypeFacts]]
_SINGLY_MIN, _TABLES_A_SINGLE_ANSWER = 3, 100
"""To ask of all tables takes as long as to ask singly of one in about so many. It is done when that time was spent on
single answers, so that it never more than doubles it, however seldom tables are announced."""


class CatalogueFacts:
    """What one session asked."""

    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection
        self._single_answers = 0
        self._seen: Snapshot | None = None
        self._tables: dict[int, TableFacts] = {}
        self._types: dict[int, TypeFacts] = {}
        self._types_asked: set[int] = set()

    def of(self, relation: Relation, xid: int, followed: Collection[int]) -> Facts:
        """Facts of the table, None where it is gone, and of its columns' types.

        Args:
            xid: of the transaction that is being read.
            followed: the tables that may be announced next.
        """
        if not self._shows(xid):
            if self._single_answers < max(_SINGLY_MIN, len(followed) // _TABLES_A_SINGLE_ANSWER):
                return self._singly(relation)
            self.ask(followed)
            if not self._shows(xid):
                return self._singly(relation)
        return self.known(relation.relation_id), self.types_of(relation)

    def forget(self) -> None:
        """Other tables may be announced next: the answers of before do not speak of them."""
        self._seen = None
        self._tables, self._types, self._types_asked = {}, {}, set()

    def ask(self, relation_ids: Collection[int]) -> None:
        """Ask of all these tables at once; what was known before is forgotten."""
        self._single_answers = 0
        self._tables, self._seen = catalog.tables_facts(self._connection, relation_ids)
        self._types_asked = {column.type_oid for facts in self._tables.values() for column in facts.columns}
        self._types = catalog.type_facts(self._connection, self._types_asked)

    def known(self, relation_id: int) -> TableFacts | None:
        """Of a table that was asked of; None where it is gone."""
        return self._tables.get(relation_id)

    def types_of(self, relation: Relation) -> dict[int, TypeFacts]:
        """Facts of its columns' types, and of those within them."""
        wanted = {column.type_oid for column in relation.columns}
        if unknown := wanted - self._types_asked:
            self._types |= catalog.type_facts(self._connection, unknown)
            self._types_asked |= unknown
        return catalog.types_within(self._types, wanted)

    def _shows(self, xid: int) -> bool:
        if self._seen is not None and not self._seen.contains_received(xid):
            self.forget()  # what commits after it will not be shown either
        return self._seen is not None

    def _singly(self, relation: Relation) -> Facts:
        self._single_answers += 1
        catalog.wait_for_alterations(self._connection, relation.relation_id)
        facts = catalog.table_facts(self._connection, relation.relation_id)
        return facts, catalog.type_facts(self._connection, {column.type_oid for column in relation.columns})
