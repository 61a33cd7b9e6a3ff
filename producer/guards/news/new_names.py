"""Tables that the catalogue knows by another name than the stream announced last. Pure.

In: names from the catalogue, and the LSN of that look. Out: each new name, from the LSN on after which no Relation
message has an earlier name.
"""

from collections.abc import Callable, Mapping

from walbridge.producer.relations.table_names import Name
from walbridge.schemas.position import Lsn


class NewNames:
    """Tracks the tables that are renamed during one session."""

    def __init__(self) -> None:
        self._renamed: dict[int, tuple[Name, Lsn]] = {}
        """By table: its new name, and the LSN after which no Relation message has an earlier name."""

    def note_look(self, names: Mapping[int, Name], lsn: Lsn, announced_name: Callable[[int], Name | None]) -> None:
        """The catalogue shows these names. Renaming locks the table, and a commit is in the WAL before the catalogue
        shows it, so no change after ``lsn`` was made under an earlier name."""
        for relation_id, name in names.items():
            if name == announced_name(relation_id):
                self._renamed.pop(relation_id, None)
            elif self._renamed.get(relation_id, (None,))[0] != name:
                self._renamed[relation_id] = name, lsn

    def is_due_at(self, lsn: Lsn) -> bool:
        """Whether ``take`` would return a name."""
        return any(since <= lsn for _, since in self._renamed.values())

    def take(self, lsn: Lsn) -> dict[int, Name]:
        """The new names of tables of which no Relation message has an earlier name after ``lsn``. Each is returned
        once."""
        taken = {relation_id: name for relation_id, (name, since) in self._renamed.items() if since <= lsn}
        for relation_id in taken:
            del self._renamed[relation_id]
        return taken
