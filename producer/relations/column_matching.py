"""What the catalogue may say of an announced relation: it says *now*, the stream said *then*.

In: the relation, the catalogue's facts, the versions that were recorded of it, oldest first. Out:
each column's attribute number, as far as that is known. Pure.

Numbers tell a renamed column from a new one. A migration adds, fills and renames in one transaction, and the
catalogue knows its end only: so order tells them first (``columns/number_ranges.py``), and names where that leaves
several. A name is believed where it had the same number in the newest version, or where only one of that version and
the catalogue has a number that this column can have. Who gives a column's name to another, and drops one of the two,
all between two looks, may pass for who did not: of columns that are gone by then there is only the name.

In the code below, numbers are attribute numbers. *Candidates* are those that the columns of a relation may have: what
the newest version had, and all that were given since. *Recorded* ones were told with any version; *present* ones are in
the catalogue now; one that is a candidate and neither of these came and went before anybody was told of it.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from walbridge.producer.errors.tables import column_uncertain
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts
from walbridge.producer.relations.columns.number_ranges import Ranges, fit, narrowed, number_ranges
from walbridge.producer.relations.columns.types_kept import of_types
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import FIRST_USER_OID

Numbers = list[int | None]
UncertainColumns = Callable[[Relation, TableFacts | None, Sequence[RelationRecord]], list[str]]
"""Names of the columns of a relation of which nobody can tell any more what they are, or what older rows have there."""


def column_numbers(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> Numbers:
    """By column; None where nobody can tell.

    The order of numbers tells them for certain where a column can have one only. Else its name tells, in the newest
    version or in the catalogue, which may speak of another column under the same name. A version with the same columns
    tells what theirs were.
    """
    by_name = _by_name(relation, facts)
    by_order = _by_order(relation, facts, versions)
    same = same_columns(relation, versions)
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
    """By column, the catalogue's facts of the column with this name and type; None where there is none."""
    known = {(each.name, each.type_oid, each.typmod): each for each in facts.columns} if facts else {}
    return [known.get(_told(column)) for column in relation.columns]


def uncertain_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Columns that may be one of several of the newest version, or none of it. And those that are told for the first
    time, and that the catalogue may know no more: one of their name and type is there now, and a column came and went
    of which the stream told nothing yet; or one came before it and is there under another name, which would have been
    told with it."""
    ranges = _ranges(relation, facts, versions)
    if facts is None or ranges is None or same_columns(relation, versions) is not None:
        return []
    newest = {each.name: each.attnum for each in versions[-1].table.columns}
    recorded = {column.attnum for version in versions for column in version.table.columns}
    numbers = column_numbers(relation, facts, versions)
    free = _candidates(facts, versions) or set()
    candidates = free - recorded
    came_and_went = candidates - {column.attnum for column in facts.columns}
    # New columns that the relation does not have under the names that they have by now.
    renamed = {each.attnum for each in facts.columns if not each.is_generated} & candidates - {*numbers}
    typed = narrowed(ranges, of_types([each.type_oid for each in relation.columns], free, facts, versions[-1]))
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
    if not versions or same_columns(relation, versions[-1:]) is not None:
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


def _told(column: RelationColumn) -> tuple[str, int, int]:
    return column.name, column.type_oid, column.typmod


def same_columns(relation: Relation, versions: Sequence[RelationRecord]) -> RelationRecord | None:
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
    # A new column that is generated has its table rewritten, and so copied, or is not published.
    generated = {each.attnum for each in facts.columns if each.is_generated}
    return (known & newest) | (set(range(max(known, default=0) + 1, facts.attnum_max + 1)) - generated)


def _ranges(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> Ranges | None:
    """Which numbers each column may have, if this is newer than all versions; None where that is not known, or where
    names account for others, as of a column that was not published before."""
    candidates = _candidates(facts, versions)
    if candidates is None or facts is None:
        return None
    by_name, kept = {*_by_name(relation, facts)} - {None}, _kept(facts, versions)
    others = by_name - candidates - {each.attnum for each in facts.columns if each.is_generated}
    if others and kept <= by_name:
        return None
    return number_ranges(len(relation.columns), candidates, kept)


def _kept(facts: TableFacts, versions: Sequence[RelationRecord]) -> set[int]:
    """The numbers of the newest version that are there still."""
    newest = {column.attnum for column in versions[-1].table.columns}
    return {each.attnum for each in facts.columns} & newest


def _skips_none(numbers: Numbers, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> bool:
    """Whether there is a column for each that the newest version had, and that is there still."""
    return facts is None or _kept(facts, versions) <= {*numbers}


def _by_order(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> Numbers | None:
    """One number for each column where it can have one only, or where names do not contradict each other."""
    ranges, candidates = _ranges(relation, facts, versions), _candidates(facts, versions)
    if ranges is None or candidates is None or facts is None:
        return None
    kept, by_name = _kept(facts, versions), _by_name(relation, facts)
    if None not in by_name and fit(by_name, candidates, kept):
        return by_name  # all are as they are now
    certain: Numbers = [each[0] if len(each) == 1 else None for each in ranges]
    found = [*certain]
    for place, (column, number) in enumerate(zip(relation.columns, by_name, strict=True)):
        if found[place] is None:
            numbers = {number, _before(column, number, versions)} & {*ranges[place]}
            found[place] = numbers.pop() if len(numbers) == 1 else None
    return found if fit(found, candidates, kept) else certain


def _before(column: RelationColumn, number: int | None, versions: Sequence[RelationRecord]) -> int | None:
    """The number that a column of this name had in the newest version. One of another type may have been made anew
    under its name, where the catalogue has one."""
    before = next((each for each in versions[-1].table.columns if each.name == column.name), None)
    if before is None or (number is not None and before.type_oid != column.type_oid):
        return None
    return before.attnum


def _is_older(by_name: Numbers, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> bool:
    """Whether this relation is older than the newest version: it has more columns than could be there now."""
    candidates = _candidates(facts, versions)
    return candidates is not None and len(candidates) < len(by_name)


def _agreed(one: Numbers, other: Numbers, by_name: Numbers) -> Numbers:
    """What both say, or one of them with the catalogue."""
    numbers = zip(one, other, by_name, strict=True)
    return [a if a == b else now if now in (a, b) else None for a, b, now in numbers]


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
