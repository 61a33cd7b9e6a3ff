"""Whether the types of a table's columns print stored values in another way than the rows were sent. Pure.

In: enum labels and composite attributes as progress remembers them and as they are; for a type that is new to the
table, the transactions that wrote its rows of the catalogue. Out: whether rows may print differently now.

ALTER TYPE rewrites nothing. A row holds a label's id and prints the label's name; a composite prints the attributes
that its type has now, also later ones. Progress remembers with each table what its types printed at the last look. It
remembers nothing of a type that the table got since then: rows may have come between the new column and an alteration
of its type. So it must be told which of the two was first. A higher xid is not always later: savepoints have xids of
their own, and a transaction with a lower xid may have gone on for long after the column came. Only what had ended
before is older for certain: what is below the slot's catalogue horizon or, if the column came after a look at all
tables, what is below all transactions that ran at that look. Within one transaction, commands decide, if the column
shows that it was added there: one that was given its type again may have been of it before. Adding a label leaves the
same trace as renaming one, and so counts as an alteration.
"""

from collections.abc import Iterable

from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.postgres.facts import RowVersion, TableStorage, UsedType


def prints_differently(before: TableStorage, now: TableStorage) -> bool:
    """Whether a label or an attribute that rows may hold was renamed or dropped, while a column still uses its type."""
    types = _types_of(now.labels)
    return any(type_of(each) in types for each in before.labels - now.labels)


def new_types(before: TableStorage, now: TableStorage) -> set[int]:
    """Types that the table's columns use now, and did not use at the last look."""
    if not before.files or not before.knows_labels:
        return set()  # there was no look yet, or earlier code did not ask for types
    added = now.labels - before.labels
    return _types_of(added) - _types_of(before.labels) if added else set()


def new_label_facts(before: TableStorage, now: TableStorage) -> frozenset[str]:
    """Facts of ``TableStorage.labels`` that are new, of types that the table already used at the last look."""
    types = _types_of(before.labels) if before.files and before.knows_labels else set()
    return frozenset(each for each in now.labels - before.labels if type_of(each) in types)


def type_of(fact: str) -> int:
    """The oid of the type that a fact of ``TableStorage.labels`` is about."""
    return int(fact.partition("-")[0])


def _types_of(facts: Iterable[str]) -> set[int]:
    return {type_of(each) for each in facts}


def is_altered_since(used: UsedType, seen: Snapshot | None = None) -> bool:
    """Whether the type may have been altered after the column got it.

    Args:
        seen: the snapshot of the look at all tables before this one.
    """
    is_new = seen is not None and used.column.xid >= seen.xmax
    ended_below = max(used.ended_below, seen.xmin) if seen is not None and is_new else used.ended_below
    return any(_may_be_later(fact, used.column, ended_below) for fact in used.facts)


def altered_tables(new: dict[int, set[int]], used: Iterable[UsedType], seen: Snapshot | None = None) -> set[int]:
    """Tables with a new type that may have been altered after a column got it.

    Args:
        new: by table, the types that are new to it.
        seen: as ``is_altered_since``.
    """
    return {
        each.relation_id for each in used if each.type_oid in new[each.relation_id] and is_altered_since(each, seen)
    }


def _may_be_later(one: RowVersion, other: RowVersion, ended_below: int) -> bool:
    """Whether ``one`` may have been written after ``other``."""
    if one.is_first:
        return False
    if one.xid != other.xid:
        return one.xid > other.xid or one.xid >= ended_below > 0
    is_order_told = other.is_first and not (one.is_stamped or other.is_stamped)
    return one.xid > 0 and (not is_order_told or one.command > other.command)
