"""Which Relation each change has to be read with: the server announces a table once, and then takes it for known.

In: Relations in the order in which they came, those of transactions that are replayed later among them. Out: each table
installed with the Relation that its next change needs. The rules of the server (PostgreSQL ``pgoutput.c``,
``maybe_send_schema``):

- A Relation in a streamed block holds for that transaction only. When the transaction commits it holds for the session;
  when it aborts it holds for nobody; after a prepare the server announces the table again.
- A Relation in a prepared transaction that was not streamed holds for the session at once, even if the transaction is
  rolled back.

So a replayed transaction is shown its own Relations, change by change. After that the session goes on with the Relation
that came last: an ordinary transaction between the blocks may have brought a newer one. A table is installed only when
a change needs it, since that asks the catalogue.
"""

from collections.abc import Callable, Iterable

from walbridge.producer.pgoutput.messages import Relation


class SessionRelations:
    """The Relations of one session.

    Args:
        install: makes the table ready for changes of this version.
        on_due: told a table for which ``install_due`` has to be called before its next change.
    """

    def __init__(self, install: Callable[[Relation], None], on_due: Callable[[int], None]) -> None:
        self._install = install
        self._on_due = on_due
        self._known: dict[int, tuple[int, Relation]] = {}
        """By relation id: the Relation that the server takes for known, with its arrival number."""
        self._installed: dict[int, Relation] = {}
        self._due: dict[int, Relation] = {}
        self._altered: set[int] = set()
        """Tables that a DDL row told of since they were installed: an equal Relation may be of other columns."""
        self._arrivals = 0

    def number_arrival(self) -> int:
        """A Relation came just now; returns its arrival number."""
        self._arrivals += 1
        return self._arrivals

    def receive(self, relation: Relation) -> None:
        """Take a Relation of an ordinary transaction. A repeated one is installed too: the catalogue may say more
        now."""
        self._known[relation.relation_id] = self.number_arrival(), relation
        self._due.pop(relation.relation_id, None)
        self._install_now(relation)

    def receive_prepared(self, relation: Relation) -> None:
        """Take a Relation of a prepared transaction: it waits for its commit, but the server takes the Relation for
        known at once."""
        self._known[relation.relation_id] = self.number_arrival(), relation
        self._make_due(relation)

    def show(self, relation: Relation, arrival: int | None) -> None:
        """Take a Relation of the transaction that is replayed.

        Args:
            arrival: its arrival number, if the server takes it for known from this commit on.
        """
        self._make_due(relation)
        known = self._known.get(relation.relation_id)
        if arrival is not None and (known is None or known[0] < arrival):
            self._known[relation.relation_id] = arrival, relation

    def of_next_change(self, relation_id: int) -> Relation | None:
        """The Relation for the next change of this table, installed or not; None where none was announced."""
        return self._due.get(relation_id) or self._installed.get(relation_id)

    def all_known(self) -> list[Relation]:
        """All Relations that the server takes for known."""
        return [relation for _, relation in self._known.values()]

    def show_all(self, relations: Iterable[Relation]) -> None:
        """Show the Relations that were known when the transaction arrived that is replayed now."""
        for relation in relations:
            self._make_due(relation)

    def end_replay(self) -> None:
        """The replay is over: from here on changes are read with the newest Relations that are known."""
        self.show_all(self.all_known())

    def install_due(self, relation_id: int) -> None:
        """Install the Relation for the next change of this table, unless it is installed."""
        relation = self._due.pop(relation_id, None)
        if relation is not None:
            self._install_now(relation)

    def note_altered(self, relation_id: int) -> None:
        """The table's columns were altered: the Relation of its next change is installed, though it may be equal."""
        self._altered.add(relation_id)

    def _install_now(self, relation: Relation) -> None:
        self._installed[relation.relation_id] = relation
        self._altered.discard(relation.relation_id)
        self._install(relation)

    def _make_due(self, relation: Relation) -> None:
        relation_id = relation.relation_id
        if self._installed.get(relation_id) == relation and relation_id not in self._altered:
            self._due.pop(relation_id, None)
        elif self._due.get(relation_id) != relation:
            self._due[relation_id] = relation
            self._on_due(relation_id)
