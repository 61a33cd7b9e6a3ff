"""Relations as the server believes this session to know them, and as they were when the change at hand was made.

In: Relations in the order in which they came, and which of them a transaction brings that is
replayed later. Out: each table installed as its next change wants it. The server announces a table
once and then takes it for known (PostgreSQL ``pgoutput.c``, ``maybe_send_schema``):

- what came in a streamed block counts for that transaction alone, from its commit on for the
  session, from its abort on for nobody; after a prepare it is announced again;
- what came in a prepared transaction that was not streamed counts for the session at once, also
  where it is rolled back.

So a transaction that is replayed shows its own Relations, change by change, and leaves behind what
came last of all that is known: an ordinary transaction between its blocks may have brought a newer
one. A table is installed when a change wants it, since that asks the catalogue.
"""

from collections.abc import Callable, Iterable

from walbridge.producer.pgoutput.messages import Relation


class SessionRelations:
    """The Relations of one session.

    Args:
        install: makes the table ready for changes of this version.
        on_due: told that a table must be settled before its next change.
    """

    def __init__(self, install: Callable[[Relation], None], on_due: Callable[[int], None]) -> None:
        self._install = install
        self._on_due = on_due
        self._known: dict[int, tuple[int, Relation]] = {}
        """With the number under which it came."""
        self._installed: dict[int, Relation] = {}
        self._due: dict[int, Relation] = {}
        self._arrivals = 0

    def arrive(self) -> int:
        """The number of a Relation that came just now."""
        self._arrivals += 1
        return self._arrivals

    def receive(self, relation: Relation) -> None:
        """A Relation of an ordinary transaction. A repeated one is installed too: the catalogue may say more now."""
        self._known[relation.relation_id] = self.arrive(), relation
        self._due.pop(relation.relation_id, None)
        self._installed[relation.relation_id] = relation
        self._install(relation)

    def note(self, relation: Relation) -> None:
        """A Relation of a transaction that waits for its commit, but which the server takes for known at once."""
        self._known[relation.relation_id] = self.arrive(), relation
        self._want(relation)

    def show(self, relation: Relation, arrival: int | None) -> None:
        """One of the transaction that is replayed.

        Args:
            arrival: its number, if the server takes it for known with this commit.
        """
        self._want(relation)
        known = self._known.get(relation.relation_id)
        if arrival is not None and (known is None or known[0] < arrival):
            self._known[relation.relation_id] = arrival, relation

    def wanted(self, relation_id: int) -> Relation | None:
        """What the next change of this table wants, installed or not; None where none was announced."""
        return self._due.get(relation_id) or self._installed.get(relation_id)

    def known(self) -> list[Relation]:
        """All that the server takes for known."""
        return [relation for _, relation in self._known.values()]

    def show_all(self, relations: Iterable[Relation]) -> None:
        """Show the Relations that were known when the transaction arrived that is replayed now."""
        for relation in relations:
            self._want(relation)

    def put_back(self) -> None:
        """The replay is over: from here on changes are read with the newest Relations that are known."""
        self.show_all(self.known())

    def settle(self, relation_id: int) -> None:
        """Install what the next change of this table wants."""
        relation = self._due.pop(relation_id, None)
        if relation is not None:
            self._installed[relation_id] = relation
            self._install(relation)

    def _want(self, relation: Relation) -> None:
        relation_id = relation.relation_id
        if self._installed.get(relation_id) == relation:
            self._due.pop(relation_id, None)
        elif self._due.get(relation_id) != relation:
            self._due[relation_id] = relation
            self._on_due(relation_id)
