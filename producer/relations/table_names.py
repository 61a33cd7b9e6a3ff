"""What tables are called, and which topics they have. Pure.

In: Relations of one session, and names that the catalogue told. Out: the name that a Relation counts under.

A Relation has the name that the table had when the change was made. But the server takes a Relation for known:
of a renamed table without a later change it sends none, and until Postgres 16 none of a table whose schema was
renamed. There the catalogue tells the new name, and a Relation under the old one that is read again counts under
the new one.

A topic is its table's for life, whatever the table is called: a new table that wants it gets another one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from walbridge.producer.errors.tables import names_alike
from walbridge.producer.pgoutput.messages import Relation
from walbridge.schemas.topics import free_topic, is_same_topic, refuse_topic_collisions

Name = tuple[str, str]
"""Schema and table."""


class TableNames:
    """Names in one session, by relation id."""

    def __init__(self) -> None:
        self._announced: dict[int, Name] = {}
        self._told: dict[int, tuple[Name, Name]] = {}
        """By relation id: the name in the stream, and the name that the catalogue told since."""

    def receive(self, relation: Relation) -> Relation:
        """The Relation with the name that counts: the catalogue's, if the stream still sends the name before it."""
        relation_id, announced = relation.relation_id, (relation.namespace, relation.name)
        self._announced[relation_id] = announced
        before, now = self._told.get(relation_id, (None, announced))
        if before == announced:
            return replace(relation, namespace=now[0], name=now[1])
        self._told.pop(relation_id, None)
        return relation

    def rename(self, relation_id: int, name: Name) -> None:
        """The catalogue has this name for the table, and every Relation with another name has come."""
        self._told.pop(relation_id, None)
        announced = self._announced.get(relation_id, name)
        if announced != name:
            self._told[relation_id] = announced, name


class Named(Protocol):
    """A table, published or recorded."""

    @property
    def qualified_name(self) -> str: ...

    @property
    def quoted_name(self) -> str: ...


def refuse_names_alike(tables: Iterable[Named]) -> None:
    """Refuse two tables of which dots make one name: ``"a.b".c`` and ``a."b.c"``.

    Raises:
        OperatorError: naming both.
    """
    seen: dict[str, str] = {}
    for table in tables:
        other = seen.setdefault(table.qualified_name, table.quoted_name)
        if other != table.quoted_name:
            raise names_alike(other, table.quoted_name, table.qualified_name)


def first_topics(named: Mapping[int, str], own: Mapping[int, str], others: Iterable[str]) -> dict[int, str]:
    """Topics of tables that are copied together, by relation id.

    Args:
        named: the topic of each table's name.
        own: of tables that have one.
        others: that are no table's.

    Raises:
        OperatorError: the names of two tables want one topic.
    """
    new = {relation_id: topic for relation_id, topic in named.items() if relation_id not in own}
    others = [*others]
    refuse_topic_collisions([*others, *new.values()])
    topics = {relation_id: own.get(relation_id, topic) for relation_id, topic in named.items()}
    for relation_id, topic in new.items():
        if any(is_same_topic(topic, each) for each in own.values()):
            taken = [each for other, each in topics.items() if other != relation_id]
            topics[relation_id] = free_topic(topic, [*others, *taken])
    return topics
