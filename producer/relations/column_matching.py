"""What the catalogue may say of an announced relation: it says *now*, the stream said *then*.

In: the relation, the catalogue's facts, the versions that were recorded of it, oldest first. Out:
each column's attribute number, as far as that is known, and the key that the stream does not tell. Pure.

Numbers tell a renamed column from a new one. Columns are announced in their order, and numbers are
never given twice: so where there are as many columns as numbers that they can have, each has its own,
whatever the columns are called by now. A migration adds, fills and renames in one transaction, and the
catalogue knows its end only.

In the code below, numbers are attribute numbers. *Candidates* are those that the columns of a relation may have: what
the newest version had, and all that were given since. *Recorded* ones were told with any version; *present* ones are in
the catalogue now; one that is a candidate and neither of these came and went before anybody was told of it.

Under FULL and NOTHING the key is the catalogue's primary key. One that was added later says nothing of
rows before it, of which several may be equal in it: a delete of one of them would take all. A table
without a key is right then too, so a key is never gained, and never changed where rows need no key for
their order.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import takewhile

from walbridge.producer.errors.tables import column_uncertain
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import FIRST_USER_OID

Numbers = list[int | None]
UncertainColumns = Callable[[Relation, TableFacts | None, Sequence[RelationRecord]], list[str]]
"""Names of the columns of a relation of which nobody can tell any more what they are, or what older rows have there."""


def column_numbers(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> Numbers:
    """By column; None where nobody can tell.

    The catalogue tells a number by name and type, and may speak of another column under the same name. The order of
    numbers tells it for certain where there are as many as columns. A version with the same columns tells what theirs
    were.
    """
    by_name = [each.attnum if each else None for each in described_columns(relation, facts)]
    certain = _by_order(by_name, facts, versions)
    same = _same_columns(relation, versions)
    if same is None:
        return certain or _between(_possible(by_name, facts), facts, versions)
    recorded = [column.attnum for column in same.table.columns]
    if same is versions[-1] or _is_older(by_name, facts, versions):
        # A column may have been made again under its name, so the catalogue's numbers count before recorded ones, as
        # long as their order allows them.
        now = [a if a is not None else b for a, b in zip(by_name, recorded, strict=True)]
        return now if _possible(now, facts) == now else recorded
    # Either it is read again after a crash, or columns came back under names of old ones.
    return _agreed(certain, recorded) if certain else _possible(by_name, facts)


def described_columns(relation: Relation, facts: TableFacts | None) -> list[ColumnFacts | None]:
    """By column, the catalogue's facts of the column with this name and type; None where there is none."""
    known = {(each.name, each.type_oid, each.typmod): each for each in facts.columns} if facts else {}
    return [known.get(_told(column)) for column in relation.columns]


def uncertain_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Columns that are told for the first time, and that the catalogue may know no more: one of their name and type is
    there now, and a column came and went of which the stream told nothing yet; or one came before it and is there under
    another name, which would have been told with it."""
    candidates = _candidates(facts, versions)
    if facts is None or candidates is None or _same_columns(relation, versions) is not None:
        return []
    recorded = {column.attnum for version in versions for column in version.table.columns}
    present = {column.attnum for column in facts.columns}
    came_and_went = candidates - recorded - present
    if candidates <= recorded:
        return _renamed(relation, facts, versions)
    numbers = _possible([each.attnum if each else None for each in described_columns(relation, facts)], facts)
    # New columns that the relation does not have under the names that they have by now.
    renamed = {each.attnum for each in facts.columns if not each.is_generated} & candidates - recorded - {*numbers}
    if not (came_and_went or renamed) or len(candidates) == len(numbers):
        return []  # each has its own by their order
    found = []
    for place, (column, number) in enumerate(zip(relation.columns, numbers, strict=True)):
        # The recorded columns on either side of it: columns are announced in the order of their numbers.
        before = max((each for each in numbers[:place] if each is not None and each in recorded), default=0)
        behind = min(
            (each for each in numbers[place:] if each is not None and each in recorded), default=max(candidates) + 1
        )
        if number is None or number in recorded:
            continue
        if any(before < each < behind for each in came_and_went) or any(before < each < number for each in renamed):
            found.append(column.name)
    return found


def _renamed(relation: Relation, facts: TableFacts, versions: Sequence[RelationRecord]) -> list[str]:
    """Where no column came: those that are none of the newest version by name, and could be several by number. A reader
    would take one for a column that came."""
    named = {column.name for column in versions[-1].table.columns}
    pairs = zip(relation.columns, column_numbers(relation, facts, versions), strict=True)
    return [column.name for column, number in pairs if number is None and column.name not in named]


def retyped_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Columns of user types that are told for the first time, and that the catalogue has with another type. Where no
    row was rewritten for that, as between a domain and the type under it, nothing tells any more whether their type
    was altered before, too."""
    if facts is None or not versions:
        return []
    recorded = {(each.name, each.type_oid) for version in versions for each in version.table.columns}
    by_number = {each.attnum: each.type_oid for each in facts.columns}
    by_name = {each.name: each.type_oid for each in facts.columns}
    numbers = column_numbers(relation, facts, versions)
    return [
        column.name
        for column, number in zip(relation.columns, numbers, strict=True)
        if column.type_oid >= FIRST_USER_OID
        and (column.name, column.type_oid) not in recorded
        and (by_name.get(column.name) if number is None else by_number.get(number)) not in (None, column.type_oid)
    ]


def unfilled_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Columns of which nobody can tell any more what older rows have. Those that are told for the first time: they are
    gone, and the value with them; the catalogue has such a value of a column that came, which may be this one's; or
    it has another type by now. And those that may be a column with such a value under the name that it has lost since.
    """
    if facts is None or not versions:
        return []
    recorded = {column.attnum for version in versions for column in version.table.columns}
    present = {each.attnum for each in facts.columns}
    # Given since the newest version, and dropped by now: the value that older rows had went with the column.
    gone = {*range(max(filter(None, recorded), default=0) + 1, facts.attnum_max + 1)} - present
    # New columns whose older rows have a value, with the type that this value is of.
    valued = {
        each.attnum: (each.type_oid, each.typmod)
        for each in facts.columns
        if each.missing_value is not None and each.attnum not in recorded
    }
    filled = {each.attnum for each in versions[-1].table.columns if each.missing_value is not None}
    if not valued and not gone and not filled:
        return []
    numbers = column_numbers(relation, facts, versions)
    # What the newest version has and is there still was there when this was told: without a number it may be that.
    known = {column.attnum for column in versions[-1].table.columns} & present - {*numbers}
    may_have_any = bool(valued or filled & known) or numbers.count(None) > len(known)
    of_types = ((column.type_oid, column.typmod) for column in relation.columns)
    return [
        column.name
        for column, number, of_type in zip(relation.columns, numbers, of_types, strict=True)
        if (may_have_any if number is None else number in gone or valued.get(number, of_type) != of_type)
    ]


def unidentified_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Columns that may be those of the newest version whose number nobody could tell then, or bear their names and are
    others: a reader goes by names where a number is missing."""
    if not versions or _same_columns(relation, versions[-1:]) is not None:
        return []
    numbers = [column.attnum for column in versions[-1].table.columns]
    unnumbered = {each.name: each.type_oid for each in versions[-1].table.columns if each.attnum is None}
    if not unnumbered:
        return []
    known = {each for each in numbers if each is not None}
    *_, behind = [None, *takewhile(lambda each: each is not None, reversed(numbers))]
    found = []
    for column, number in zip(relation.columns, column_numbers(relation, facts, versions), strict=True):
        if number is None:
            is_other = unnumbered.get(column.name, column.type_oid) != column.type_oid
        else:
            is_other = number not in known and (column.name in unnumbered or behind is None or number < behind)
        if is_other:
            found.append(column.name)
    return found


def catalogue_key(
    relation: Relation, facts: TableFacts | None, numbers: Numbers, versions: Sequence[RelationRecord]
) -> Collection[str]:
    """The key of a relation whose identity does not tell it: names of columns."""
    if facts is None:
        same = _same_columns(relation, [each for each in versions if _identity(each) == relation.replica_identity])
        return {column.name for column in same.table.key_columns} if same else set()
    primary = {each.attnum: each.name for each in facts.columns if each.in_primary_key}
    key = {
        column.name: number
        for column, number in zip(relation.columns, numbers, strict=True)
        if (number in primary if number is not None else column.name in primary.values())
    }
    # A column list that leaves out a part of the key leaves no key.
    is_whole = len(key) == len(primary)
    return key.keys() if is_whole and _was_key(key, versions) else set()


def _was_key(key: dict[str, int | None], versions: Sequence[RelationRecord]) -> bool:
    if not versions:
        return True  # of a copy, whose snapshot has this key
    if not all(each.table.key_columns for each in versions):
        return False
    newest = {column.name: column.attnum for column in versions[-1].table.key_columns}
    is_same = newest.keys() == key.keys() or set(newest.values()) == set(key.values())
    return is_same or versions[-1].partition_count > 1


def _identity(version: RelationRecord) -> str:
    return version.table.replica_identity


def _told(column: RelationColumn) -> tuple[str, int, int]:
    return column.name, column.type_oid, column.typmod


def _same_columns(relation: Relation, versions: Sequence[RelationRecord]) -> RelationRecord | None:
    """The newest version that was announced with these very columns."""
    wanted = [_told(column) for column in relation.columns]
    for version in reversed(versions):
        if [(each.name, each.type_oid, each.typmod) for each in version.table.columns] == wanted:
            return version
    return None


def _candidates(facts: TableFacts | None, versions: Sequence[RelationRecord]) -> set[int] | None:
    """The numbers that the newest version had, and all that were given since; None where some are not known."""
    if facts is None or not versions:
        return None
    recorded = {column.attnum for version in versions for column in version.table.columns}
    newest = {column.attnum for column in versions[-1].table.columns}
    if None in newest or not facts.attnum_max:
        return None
    known = {number for number in recorded if number is not None}
    return (known & newest) | set(range(max(known, default=0) + 1, facts.attnum_max + 1))


def _by_order(by_name: Numbers, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> Numbers | None:
    """One number for each column, if there are as many."""
    candidates = _candidates(facts, versions)
    if candidates is None or len(candidates) != len(by_name) or not candidates >= {*by_name} - {None}:
        return None
    return [*sorted(candidates)]


def _between(by_name: Numbers, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> Numbers:
    """With the numbers of columns that stand behind one of the newest version, and before another one, where there are
    as many columns as numbers: a number before them that is too high would hide some, one behind them hides none."""
    candidates = _candidates(facts, versions)
    if candidates is None:
        return by_name
    newest = {0, *(column.attnum for column in versions[-1].table.columns)}
    numbers = list(by_name)
    below, unknown = 0, 0
    # One more than the last, so that the columns behind the last known one are looked at as well.
    for place, number in enumerate([*by_name, max(candidates, default=0) + 1]):
        if number is None:
            unknown += 1
            continue
        between = sorted(each for each in candidates if below < each < number)
        if below in newest and len(between) == unknown:
            numbers[place - unknown : place] = between
        below, unknown = number, 0
    return numbers


def _is_older(by_name: Numbers, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> bool:
    """Whether this relation is older than the newest version: it has more columns than could be there now."""
    candidates = _candidates(facts, versions)
    return candidates is not None and len(candidates) < len(by_name)


def _agreed(one: Numbers, other: Numbers) -> Numbers:
    return [a if a == b else None for a, b in zip(one, other, strict=True)]


def _possible(numbers: Numbers, facts: TableFacts | None) -> Numbers:
    """The same numbers, with None for one that is not above all before it or leaves too few for those behind it."""
    last = facts.attnum_max if facts else 0
    kept: Numbers = []
    highest = 0
    for place, number in enumerate(numbers):
        behind = len(numbers) - place - 1
        if number is not None and (number <= highest or (last and number + behind > last)):
            number = None
        highest = number or highest
        kept.append(number)
    return kept


IN_LOOKS: tuple[UncertainColumns, ...] = (unfilled_columns, unidentified_columns)
"""What may be uncertain of columns that the catalogue has just now, too."""


def refuse_uncertain(
    relation: Relation,
    facts: TableFacts | None,
    versions: Sequence[RelationRecord],
    kinds: Iterable[UncertainColumns],
) -> None:
    """Raises UncertainColumn: which column a value is of cannot be told."""
    for column in (column for columns in kinds for column in columns(relation, facts, versions)):
        raise column_uncertain(f"{relation.namespace}.{relation.name}", column)
