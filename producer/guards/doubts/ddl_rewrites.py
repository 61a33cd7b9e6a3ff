"""Rewrites that changed no value, according to DDL rows: they explain why a table has a new file. Pure.

In: rewrites that cannot change a value, each with the file that it replaced and the file after it. Out: whether such
rewrites alone lead from one file to another. What no DDL row reports, as TRUNCATE and VACUUM FULL, breaks the chain. So
does a column that was added in between, since its value in older rows is in the new file.

``columns/kept_casts.py`` says which casts keep every value, given the columns' types of the last Relation and of the
last DDL row. Labels that became text must have the names that they had at the last look at the table: renaming a label
is not announced, and no column has the enum's type any more.
"""

from collections.abc import Callable, Iterable, Mapping

from walbridge.producer.guards.doubts.columns.altered_types import type_of
from walbridge.producer.guards.doubts.columns.kept_casts import NO_ENUMS, Enums
from walbridge.producer.guards.doubts.rewrites import by_relation
from walbridge.producer.postgres.facts import TableFile, TableStorage

LabelsOf = Callable[[Enums], frozenset[str]]
"""As ``TableStorage.labels``: what the catalogue says of enums."""


class DdlRewrites:
    """Collects the rewrites of one session."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[int, Enums]] = {}
        """By table: its file before the rewrite, and the enums whose labels it turns into text."""
        self._replaced_by: dict[int, dict[int, tuple[int, Enums]]] = {}
        """By table and file: the file that took its place, and those enums."""

    def begin(self, relation_id: int, file: int, enums: Enums = NO_ENUMS) -> None:
        """This file of the table is about to be replaced, and labels of these enums become text."""
        self._begun[relation_id] = file, enums

    def end(self, relation_id: int, file: int) -> bool:
        """The command ended with this file. Returns whether that explains a new file."""
        before, enums = self._begun.pop(relation_id, (None, NO_ENUMS))
        if before is None or before == file:
            return False
        self._replaced_by.setdefault(relation_id, {})[before] = file, enums
        return True

    def explains(self, before: TableFile, now: TableFile) -> bool:
        """Whether DDL rows report all that happened between the two files, and none of it changed a row."""
        return self._enums_between(before, now) is not None

    def compare_labels(
        self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage], labels_of: LabelsOf
    ) -> None:
        """Forget rewrites that turned labels into text which may have had other names when their rows were sent.

        Args:
            labels_of: called once the catalogue shows these rewrites.
        """
        for relation_id in self._replaced_by.keys() & found.keys():
            before, now = (by_relation(each[relation_id]).get(relation_id) for each in (known, found))
            enums = self._enums_between(before, now) if before is not None and now is not None else None
            if enums and not _are_labels_unchanged(enums, known[relation_id].labels, labels_of(enums)):
                del self._replaced_by[relation_id]

    def _enums_between(self, before: TableFile, now: TableFile) -> Enums | None:
        """The enums whose labels became text, if DDL rows report all that happened; else None."""
        became, file, enums = dict(self._replaced_by.get(now.relation_id, {})), before.file, NO_ENUMS
        while file != now.file and file in became:
            file, cast = became.pop(file)
            enums |= cast
        return enums if file == now.file != before.file and before.column_count == now.column_count else None

    def forget(self, files: Iterable[TableFile]) -> None:
        """Progress remembers these files now, so their past is not needed, unless the catalogue does not show a command
        yet."""
        for now in files:
            if now.file not in self._replaced_by.get(now.relation_id, ()):
                self._replaced_by.pop(now.relation_id, None)


def _are_labels_unchanged(enums: Enums, known: frozenset[str], now: frozenset[str]) -> bool:
    """Whether these enums have exactly the labels that were known, as they were written then. A label that was added
    since may have been renamed as well."""
    told = {each for each in known if type_of(each) in enums}
    return told == now and {type_of(each) for each in told} == enums
