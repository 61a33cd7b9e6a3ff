"""Rewrites that changed no value, as rows about DDL say: they explain a table's new file. Pure.

In: rewrites that cannot change a value, with the file that each replaced and the one that was there in the end. Out:
whether such rewrites alone lead from one file to another. What is not told, as TRUNCATE and VACUUM FULL, breaks the
chain; so does a column that was added on the way, whose value is in the new file.

Which casts keep every value is told by ``kept_casts.py``. What they are cast from is known of the version that was
told last, and of the command before: some types are called otherwise without a rewrite. Of labels that became texts
each has to be called as it was when the table was last looked at: renaming one is not announced, and no column is of
that type any more.
"""

from collections.abc import Callable, Iterable, Mapping

from walbridge.producer.guards.doubts.altered_types import type_of
from walbridge.producer.guards.doubts.kept_casts import NO_ENUMS, Enums
from walbridge.producer.guards.doubts.rewrites import by_relation
from walbridge.producer.postgres.facts import TableFile, TableStorage

LabelsOf = Callable[[Enums], frozenset[str]]
"""As ``TableStorage.labels``: what the catalogue says of enums."""


class ToldRewrites:
    """Those of one session."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[int, Enums]] = {}
        self._became: dict[int, dict[int, tuple[int, Enums]]] = {}

    def begin(self, relation_id: int, file: int, enums: Enums = NO_ENUMS) -> None:
        """This file of the table is about to be replaced, and labels of these become texts."""
        self._begun[relation_id] = file, enums

    def end(self, relation_id: int, file: int) -> bool:
        """The command ended with this file. Whether that explains one."""
        before, enums = self._begun.pop(relation_id, (None, NO_ENUMS))
        if before is None or before == file:
            return False
        self._became.setdefault(relation_id, {})[before] = file, enums
        return True

    def explain(self, before: TableFile, now: TableFile) -> bool:
        """Whether all that happened between the two is told, and changed no row."""
        return self._enums_between(before, now) is not None

    def compare_labels(
        self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage], labels_of: LabelsOf
    ) -> None:
        """Forget rewrites that made texts of labels which may have been called otherwise when rows came.

        Args:
            labels_of: asked once the catalogue shows these rewrites.
        """
        for relation_id in self._became.keys() & found.keys():
            before, now = (by_relation(each[relation_id]).get(relation_id) for each in (known, found))
            enums = self._enums_between(before, now) if before is not None and now is not None else None
            if enums and not _are_known(enums, known[relation_id].labels, labels_of(enums)):
                del self._became[relation_id]

    def _enums_between(self, before: TableFile, now: TableFile) -> Enums | None:
        """Whose labels became texts, where all is told; else None."""
        became, file, enums = dict(self._became.get(now.relation_id, {})), before.file, NO_ENUMS
        while file != now.file and file in became:
            file, cast = became.pop(file)
            enums |= cast
        return enums if file == now.file != before.file and before.column_count == now.column_count else None

    def forget(self, files: Iterable[TableFile]) -> None:
        """These are remembered as they are now; unless the catalogue does not show a command yet."""
        for now in files:
            if now.file not in self._became.get(now.relation_id, ()):
                self._became.pop(now.relation_id, None)


def _are_known(enums: Enums, known: frozenset[str], now: frozenset[str]) -> bool:
    """Whether all labels are those that were known, and as they were written then: one that came since may have been
    renamed, too."""
    told = {each for each in known if type_of(each) in enums}
    return told == now and {type_of(each) for each in told} == enums
