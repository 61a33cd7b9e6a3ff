"""From where in the WAL on labels have the names that they have, as looks at the catalogue have shown.

In: facts of labels (``TableStorage.labels``) as a look found them, with a WAL position behind that look. Out: whether a
label had its name when a transaction made its first change. A label that was renamed, and renamed back, has another
writer, so the fact that tells its writer has to hold as well.
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

    def had_its_name(self, label: EnumLabel, first_lsn: Lsn) -> bool:
        """Whether the label had the name that it has now before this WAL position."""
        dated = self._since.get(type_of(label.fact), {})
        since = [dated.get(fact) for fact in (label.fact, label.writer_fact)]
        return label.is_old or all(each is not None and each <= first_lsn for each in since)
