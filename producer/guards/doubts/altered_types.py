"""Whether the types of a table's columns print values otherwise than rows were sent with. Pure.

In: labels and attributes as progress remembers them and as they are; of a type that is new to the table, when its rows
of the catalogue were written. Out: whether rows may read otherwise.

ALTER TYPE rewrites nothing. A row holds a label's id and prints the label; a composite prints the attributes that its
type has now, also those that came later. What a table's types printed at the last look is remembered with the table.
Of a type that it has got since, nothing is: rows may have come between the column and an alteration of its type. Which
of the two was first is told by their transactions, and within one by its commands. A savepoint has a transaction of
its own, with a higher number; and one with a lower number may have gone on for long when the column came. So only what
had ended before is older for certain: below what the slot holds back, or, of a column that came behind a look at all
tables, below all that was running then. Adding a label leaves the same trace as renaming one.
"""

from collections.abc import Iterable

from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.postgres.facts import RowVersion, TableStorage, UsedType


def is_printed_otherwise(before: TableStorage, now: TableStorage) -> bool:
    """Whether a label or an attribute that rows may hold is called otherwise, or is gone; not so with its column."""
    types = _types_of(now.labels)
    return any(type_of(each) in types for each in before.labels - now.labels)


def new_types(before: TableStorage, now: TableStorage) -> set[int]:
    """Types of columns, or within them, that no column was of when the table was last looked at."""
    if not before.files or not before.knows_labels:
        return set()  # it was not, or by earlier code
    return _types_of(now.labels) - _types_of(before.labels)


def new_facts(before: TableStorage, now: TableStorage) -> frozenset[str]:
    """What is said of types that the table had when it was last looked at, and was not said then."""
    types = _types_of(before.labels) if before.files and before.knows_labels else set()
    return frozenset(each for each in now.labels - before.labels if type_of(each) in types)


def type_of(fact: str) -> int:
    """Of which type one of ``TableStorage.labels`` is."""
    return int(fact.partition("-")[0])


def _types_of(facts: Iterable[str]) -> set[int]:
    return {type_of(each) for each in facts}


def is_altered_since(used: UsedType, seen: Snapshot | None = None) -> bool:
    """Whether the type may have been altered since the column is of it.

    Args:
        seen: of the last look at all tables before.
    """
    is_new = seen is not None and used.column.xid >= seen.xmax
    ended_below = max(used.ended_below, seen.xmin) if seen is not None and is_new else used.ended_below
    return any(_is_behind(fact, used.column, ended_below) for fact in used.facts)


def altered_tables(new: dict[int, set[int]], used: Iterable[UsedType], seen: Snapshot | None = None) -> set[int]:
    """Tables of whose new types one may have been altered behind its column.

    Args:
        new: by table, the types that are new to it.
        seen: as ``is_altered_since``.
    """
    return {
        each.relation_id for each in used if each.type_oid in new[each.relation_id] and is_altered_since(each, seen)
    }


def _is_behind(one: RowVersion, other: RowVersion, ended_below: int) -> bool:
    """Whether the one may have been written behind the other."""
    if one.is_first:
        return False
    if one.xid != other.xid:
        return one.xid > other.xid or one.xid >= ended_below > 0
    return one.xid > 0 and (one.is_stamped or other.is_stamped or one.command > other.command)
