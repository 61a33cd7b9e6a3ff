"""Which tables a reader's names mean, under whatever names, relation ids and topics they were written.

In: names, and the relations that were read so far. Out: whether an event is of one of the tables, and their topics in
the order in which they are to be read.
"""

from collections.abc import Collection

from walbridge.consumer.relations import Relations
from walbridge.schemas.errors import OperatorError


class WantedTables:
    """All tables that have or ever had one of some names: also a table that was renamed since, and every table that was
    dropped and made again under such a name.

    Raises:
        OperatorError: a name that no table ever had.
    """

    def __init__(self, relations: Relations, tables: Collection[str]) -> None:
        self._relations = relations
        self._names = frozenset(name if "." in name else f"public.{name}" for name in tables)
        self._ids: set[int] = set()
        self.refresh()
        if missing := sorted(self._names - relations.names.keys()):
            raise OperatorError(
                f"this pipeline has no table {', '.join(missing)}",
                remedy=f"name some of those it has: {', '.join(sorted(relations.names)) or 'none yet'}",
            )

    def refresh(self) -> None:
        """Take in the tables that ``relations`` has read since."""
        for name in self._names:
            self._ids |= self._relations.names.get(name, set())

    def has(self, relation_id: int, topic: str) -> bool:
        """Whether this relation of a cut, in this topic, is one of the tables."""
        return any(
            self._relations.newest[each].table.relation_id == relation_id and topic in self._relations.topics[each]
            for each in self._ids
        )

    @property
    def topics(self) -> set[str]:
        """The topics that the tables' events go to now."""
        return {self._relations.newest[each].topic for each in self._ids}

    @property
    def topic_histories(self) -> list[list[str]]:
        """For each table: every topic that its events ever went to, in their order; the last one is the current one."""
        found = []
        for each in self._ids:
            newest = self._relations.newest[each].topic
            found.append([topic for topic in self._relations.topics[each] if topic != newest] + [newest])
        return found

    def topics_before(self, topic: str) -> set[str]:
        """Earlier topics of the tables that have or had this topic; without topics that are still current for any."""
        before = (history[: history.index(topic)] for history in self.topic_histories if topic in history)
        return set[str]().union(*before) - self.topics

    @property
    def topics_ever(self) -> set[str]:
        """All topics that the tables ever had; one that is not current may have been deleted."""
        return set[str]().union(*self.topic_histories)
