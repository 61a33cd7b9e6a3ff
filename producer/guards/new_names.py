"""Tables that the catalogue knows under another name than the stream announced last. Pure.

In: names at the LSN of a look. Out: each new name, once nothing comes under an earlier one.
"""

from collections.abc import Callable, Mapping

from walbridge.producer.relations.table_names import Name
from walbridge.schemas.position import Lsn


class NewNames:
    """One for each session."""

    def __init__(self) -> None:
        self._renamed: dict[int, tuple[Name, Lsn]] = {}
        """By table: its new name, and from where on nothing comes under an earlier one."""

    def look(self, names: Mapping[int, Name], lsn: Lsn, told_name: Callable[[int], Name | None]) -> None:
        """A commit is in the WAL before the catalogue shows it, and renaming a table locks it."""
        for relation_id, name in names.items():
            if name == told_name(relation_id):
                self._renamed.pop(relation_id, None)
            elif self._renamed.get(relation_id, (None,))[0] != name:
                self._renamed[relation_id] = name, lsn

    def is_due_at(self, lsn: Lsn) -> bool:
        """Whether ``take`` returns something."""
        return any(since <= lsn for _, since in self._renamed.values())

    def take(self, lsn: Lsn) -> dict[int, Name]:
        """What tables are called of which nothing comes under another name after ``lsn``. Each is returned once."""
        told = {relation_id: name for relation_id, (name, since) in self._renamed.items() if since <= lsn}
        for relation_id in told:
            del self._renamed[relation_id]
        return told
