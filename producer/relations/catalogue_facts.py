"""The catalogue's facts of announced tables, queried for many tables at once where that is as good as one by one.

In: an announced relation, and the transaction that is being read. Out: facts of the table and its types.

The catalogue says *now*, the stream said *then*. An answer must not be older than what was announced, so it must show
every alteration before the Relation. A query for one table waits for that, since a commit is in the WAL a moment before
the catalogue shows it. An earlier answer for many tables will do if its snapshot shows the transaction that is being
read:

- The snapshot then shows what this transaction altered itself.
- Whoever altered the table before held a lock that kept this transaction away from it, and released it only when the
  commit was visible. So the snapshot shows that alteration, too.
- What a new answer would show beyond that came later than the Relation. A faster producer would have got the earlier
  answer, so it is the closer one.

For a transaction that the snapshot does not show, since it committed later or was not visible yet, the catalogue is
queried again. So one answer serves a whole backlog, and nothing that is committed later.
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
"""A query for all tables takes as long as single queries for about one table in a hundred. It is made once single
queries have taken that long, so that it at most doubles the time, however seldom tables are announced."""


class CatalogueFacts:
    """The answers of the catalogue in one session."""

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
        """Forget all answers: other tables may be announced next, which they do not contain."""
        self._seen = None
        self._tables, self._types, self._types_asked = {}, {}, set()

    def ask(self, relation_ids: Collection[int]) -> None:
        """Query the facts of all these tables at once; earlier answers are forgotten."""
        self._single_answers = 0
        self._tables, self._seen = catalog.tables_facts(self._connection, relation_ids)
        self._types_asked = {column.type_oid for facts in self._tables.values() for column in facts.columns}
        self._types = catalog.type_facts(self._connection, self._types_asked)

    def known(self, relation_id: int) -> TableFacts | None:
        """The facts of a table that was queried; None where the catalogue does not have it any more."""
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
