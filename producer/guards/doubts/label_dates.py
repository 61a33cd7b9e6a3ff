"""From when on labels have the names that they have, as looks at the catalogue have shown. Pure.

In: facts of labels (``TableStorage.labels``) as a look found them, with a WAL position behind that look; and those that
are older than the columns of a table. Out: whether a label had its name when a transaction wrote rows of a table. A
label that was renamed, and renamed back, has another writer, so the fact that tells its writer has to hold as well.

A label that is as its type was made never had another name. One that was written last before a table had any column of
its type had its name in all rows of that table, whatever transaction wrote them and when it began.
"""

from collections.abc import Callable, Collection

from walbridge.producer.guards.doubts.columns.altered_types import type_of
from walbridge.producer.postgres.storage.enum_labels import EnumLabel
from walbridge.schemas.position import Lsn

_NEVER = Lsn(0)


class LabelDates:
    """What one session's looks have shown."""

    def __init__(self) -> None:
        self._since: dict[int, dict[str, Lsn]] = {}
        """By type and fact."""
        self._before_columns: dict[int, frozenset[str]] = {}
        """By table: facts that are older than its columns of their type."""

    def see(
        self, facts: Collection[str], insert_lsn: Callable[[], Lsn], known: Collection[str] = (), done: Lsn = _NEVER
    ) -> None:
        """A look has found these facts, and no others of their types.

        Args:
            insert_lsn: returns a WAL position behind the look; not asked for what earlier looks have found.
            known: what progress remembered when it ended at ``done``; it counts for types of which no look came before.
        """
        found: dict[int, list[str]] = {}
        for fact in facts:
            found.setdefault(type_of(fact), []).append(fact)
        after = None
        for of_type, now in found.items():
            dated = self._since.get(of_type)
            if dated is None:
                dated = {fact: done for fact in now if fact in known}
            if dated.keys() != {*now}:
                after = insert_lsn() if after is None else after
                dated = {fact: dated.get(fact, after) for fact in now}
            self._since[of_type] = dated

    def note_older(self, relation_id: int, facts: Collection[str]) -> None:
        """A look has found these facts, and that they were so before the table had any column of their types."""
        self._before_columns[relation_id] = self._before_columns.get(relation_id, frozenset()).union(facts)

    def had_its_name(self, label: EnumLabel, relation_id: int, first_lsn: Lsn) -> bool:
        """Whether the label had the name that it has now in all rows of the table by transactions whose first change
        does not stand before this WAL position."""
        facts = {label.fact, label.writer_fact}
        if label.is_old or label.is_as_made or facts <= self._before_columns.get(relation_id, frozenset()):
            return True
        dated = self._since.get(type_of(label.fact), {})
        since = [dated.get(fact) for fact in facts]
        return all(each is not None and each <= first_lsn for each in since)
