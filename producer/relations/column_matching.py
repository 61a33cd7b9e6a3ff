"""Matches the columns of an announced relation with the catalogue, which says *now* where the stream said *then*.

In: the relation, the catalogue's facts, the recorded versions of the relation, oldest first. Out: the attribute number
of each column, as far as it can be known. Pure.

The stream sends no attribute numbers, but only these tell a renamed column from a new one. A migration may add, fill
and rename columns in one transaction, of which the catalogue shows the end only. So numbers are derived from the order
of columns first (``columns/number_ranges.py``), and from names where order leaves several. A name is trusted if the
column of this name has the same number in the newest version and in the catalogue, or if only one of the two is
possible here. One case stays open: if a column's name goes to another column and one of the two is dropped, all between
two looks, that looks as if nothing had happened, since only the name of a dropped column is known.

In the code below, numbers are attribute numbers. *Candidates* are the numbers that columns of this relation may have:
those of the newest version, and all that were given since. *Recorded* numbers are in any recorded version; *present*
numbers are in the catalogue now. The column of a candidate that is neither came and went before any Relation had it.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from walbridge.producer.errors.tables import column_uncertain
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts
from walbridge.producer.relations.columns.number_ranges import Ranges, are_possible, narrowed, number_ranges
from walbridge.producer.relations.columns.types_kept import numbers_of_types
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import FIRST_USER_OID

Numbers = list[int | None]
UncertainColumns = Callable[[Relation, TableFacts | None, Sequence[RelationRecord]], list[str]]
"""Returns the names of the columns of which nobody can tell any more which they are, or what older rows have in
them."""


def column_numbers(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> Numbers:
    """The number of each column; None where nobody can tell.

    The order of numbers is certain where it leaves a column only one. Else the column's name decides, in the newest
    version or in the catalogue, which may mean another column of that name. If a version was recorded with exactly
    these columns, its numbers count.
    """
    by_name = _by_name(relation, facts)
    by_order = _by_order(relation, facts, versions)
    same = version_with_same_columns(relation, versions)
    if same is None:
        return _possible(by_name, facts) if by_order is None else by_order
    recorded = [column.attnum for column in same.table.columns]
    if same is versions[-1] or _is_older(by_name, facts, versions):
        # A column may have been made again under its name, so the catalogue's numbers count before recorded ones, as
        # long as their order allows them.
        now = [a if a is not None else b for a, b in zip(by_name, recorded, strict=True)]
        return now if _possible(now, facts) == now and _skips_none(now, facts, versions) else recorded
    # Either it is read again after a crash, or columns came back under names of old ones.
    return _possible(by_name, facts) if by_order is None else _agreed(by_order, recorded, by_name)


def _by_name(relation: Relation, facts: TableFacts | None) -> Numbers:
    return [each.attnum if each else None for each in described_columns(relation, facts)]


def described_columns(relation: Relation, facts: TableFacts | None) -> list[ColumnFacts | None]:
    """For each column, the facts of the catalogue's column with the same name and type; None where there is none."""
    known = {(each.name, each.type_oid, each.typmod): each for each in facts.columns} if facts else {}
    return [known.get(_signature(column)) for column in relation.columns]


def uncertain_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Names of columns that may be different ones. First, those that may be one of several columns of the newest
    version, or none of them. Second, new columns that the catalogue may not have any more, though it has one of this
    name and type: there was a column in between that no Relation has shown, or there is an earlier new column under
    another name, which this Relation would have had to show as well."""
    ranges = _ranges(relation, facts, versions)
    if facts is None or ranges is None or version_with_same_columns(relation, versions) is not None:
        return []
    newest = {each.name: each.attnum for each in versions[-1].table.columns}
    recorded = {column.attnum for version in versions for column in version.table.columns}
    numbers = column_numbers(relation, facts, versions)
    free = _candidates(facts, versions) or set()
    candidates = free - recorded
    came_and_went = candidates - {column.attnum for column in facts.columns}
    # New columns that the relation does not have under the names that they have by now.
    renamed = {each.attnum for each in facts.columns if not each.is_generated} & candidates - {*numbers}
    typed = narrowed(ranges, numbers_of_types([each.type_oid for each in relation.columns], free, facts, versions[-1]))
    found = []
    for column, number, may_be, as_typed in zip(relation.columns, numbers, ranges, typed, strict=True):
        others = {*may_be} - {number}
        if not others:
            continue
        before = newest.get(column.name)
        was_any = not others.isdisjoint(newest.values())
        if number is None:
            is_uncertain = was_any or before is not None
        elif number in recorded:
            is_uncertain = False
        else:
            is_renamed = not ({*as_typed} - {number}).isdisjoint(newest.values())
            is_uncertain = is_renamed and before is not None and before not in may_be
            is_uncertain |= not others.isdisjoint(came_and_went) or any(each < number for each in others & renamed)
        if is_uncertain:
            found.append(column.name)
    return found


def retyped_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Names of new columns of user types that the catalogue has with another type by now. If that rewrote no row, as
    between a domain and its base type, nobody can tell whether the first type was altered before that."""
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
    """Names of columns of which nobody can tell any more what older rows have in them. These are new columns that are
    dropped by now, with their value for older rows; that may be a column for which the catalogue has such a value; or
    whose value is of another type by now. And they are columns that may be a recorded one with such a value, under a
    name that it has lost since."""
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
    """Names of columns that may be ones of the newest version without a known number, or have such a column's name and
    are different ones: where a number is missing, readers go by names."""
    if not versions or version_with_same_columns(relation, versions[-1:]) is not None:
        return []
    numbers = [column.attnum for column in versions[-1].table.columns]
    unnumbered = {each.name: each.type_oid for each in versions[-1].table.columns if each.attnum is None}
    if not unnumbered:
        return []
    known = {each for each in numbers if each is not None}
    *_, after_unknown = [None, *takewhile(lambda each: each is not None, reversed(numbers))]
    found = []
    for column, number in zip(relation.columns, column_numbers(relation, facts, versions), strict=True):
        if number is None:
            is_other = unnumbered.get(column.name, column.type_oid) != column.type_oid
        else:
            is_other = number not in known and (
                column.name in unnumbered or after_unknown is None or number < after_unknown
            )
        if is_other:
            found.append(column.name)
    return found


def _signature(column: RelationColumn) -> tuple[str, int, int]:
    return column.name, column.type_oid, column.typmod


def version_with_same_columns(relation: Relation, versions: Sequence[RelationRecord]) -> RelationRecord | None:
    """The newest version with exactly these columns; None where there is none."""
    wanted = [_signature(column) for column in relation.columns]
    for version in reversed(versions):
        if [(each.name, each.type_oid, each.typmod) for each in version.table.columns] == wanted:
            return version
    return None


def _candidates(facts: TableFacts | None, versions: Sequence[RelationRecord]) -> set[int] | None:
    """The numbers of the newest version, and all that were given since; None where some are not known."""
    if facts is None or not versions:
        return None
    recorded = {column.attnum for version in versions for column in version.table.columns}
    newest = {column.attnum for column in versions[-1].table.columns}
    if None in newest or not facts.attnum_max:
        return None
    known = {number for number in recorded if number is not None}
    # A new column that is generated has its table rewritten, and so copied, or is not published.
    generated = {each.attnum for each in facts.columns if each.is_generated}
    return (known & newest) | (set(range(max(known, default=0) + 1, facts.attnum_max + 1)) - generated)


def _ranges(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> Ranges | None:
    """The numbers that each column may have, if the relation is newer than all versions. None where candidates are not
    known, or a name has a number that is no candidate, as that of a column that was not published before."""
    candidates = _candidates(facts, versions)
    if candidates is None or facts is None:
        return None
    by_name, kept = {*_by_name(relation, facts)} - {None}, _kept(facts, versions)
    others = by_name - candidates - {each.attnum for each in facts.columns if each.is_generated}
    if others and kept <= by_name:
        return None
    return number_ranges(len(relation.columns), candidates, kept)


def _kept(facts: TableFacts, versions: Sequence[RelationRecord]) -> set[int]:
    """The numbers of the newest version that the catalogue still has."""
    newest = {column.attnum for column in versions[-1].table.columns}
    return {each.attnum for each in facts.columns} & newest


def _skips_none(numbers: Numbers, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> bool:
    """Whether each column that the newest version had, and the catalogue still has, is among these numbers."""
    return facts is None or _kept(facts, versions) <= {*numbers}


def _by_order(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> Numbers | None:
    """For each column its number, if it can have only one, or if its name decides; None as a whole where the ranges are
    not known."""
    ranges, candidates = _ranges(relation, facts, versions), _candidates(facts, versions)
    if ranges is None or candidates is None or facts is None:
        return None
    kept, by_name = _kept(facts, versions), _by_name(relation, facts)
    if None not in by_name and are_possible(by_name, candidates, kept):
        return by_name  # all are as they are now
    certain: Numbers = [each[0] if len(each) == 1 else None for each in ranges]
    found = [*certain]
    for place, (column, number) in enumerate(zip(relation.columns, by_name, strict=True)):
        if found[place] is None:
            numbers = {number, _before(column, number, versions)} & {*ranges[place]}
            found[place] = numbers.pop() if len(numbers) == 1 else None
    return found if are_possible(found, candidates, kept) else certain


def _before(column: RelationColumn, number: int | None, versions: Sequence[RelationRecord]) -> int | None:
    """The number of the column with this name in the newest version. If its type differs and the catalogue has a column
    of this name, it may have been made anew under the name: then None."""
    before = next((each for each in versions[-1].table.columns if each.name == column.name), None)
    if before is None or (number is not None and before.type_oid != column.type_oid):
        return None
    return before.attnum


def _is_older(by_name: Numbers, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> bool:
    """Whether this relation is older than the newest version: it has more columns than could be there now."""
    candidates = _candidates(facts, versions)
    return candidates is not None and len(candidates) < len(by_name)


def _agreed(one: Numbers, other: Numbers, by_name: Numbers) -> Numbers:
    """For each column, the number on which two of the three agree, the catalogue being one of them or not; else
    None."""
    numbers = zip(one, other, by_name, strict=True)
    return [a if a == b else now if now in (a, b) else None for a, b, now in numbers]


def _possible(numbers: Numbers, facts: TableFacts | None) -> Numbers:
    """These numbers, with None for each that is not above all before it, or leaves too few for the columns after it."""
    last = facts.attnum_max if facts else 0
    kept: Numbers = []
    highest = 0
    for place, number in enumerate(numbers):
        after = len(numbers) - place - 1
        if number is not None and (number <= highest or (last and number + after > last)):
            number = None
        highest = number or highest
        kept.append(number)
    return kept


IN_LOOKS: tuple[UncertainColumns, ...] = (unfilled_columns, unidentified_columns)
"""The kinds of uncertainty that a look at the catalogue can find, too."""


def refuse_uncertain(
    relation: Relation,
    facts: TableFacts | None,
    versions: Sequence[RelationRecord],
    kinds: Iterable[UncertainColumns],
) -> None:
    """Refuse a relation with a column of any of these kinds.

    Raises:
        UncertainColumn: of the first of them.
    """
    for column in (column for columns in kinds for column in columns(relation, facts, versions)):
        raise column_uncertain(f"{relation.namespace}.{relation.name}", column)
