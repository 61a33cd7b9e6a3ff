"""Finds the columns of an announced relation of which nobody can tell any more which they are, or what older rows have
in them. A table with such a column is copied again (I8). Pure.

In: the relation, the catalogue's facts, the recorded versions of the relation, oldest first. Out: names of columns, by
the kind of what is uncertain; an error for the first of them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile

from walbridge.producer.errors.tables import column_uncertain
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres.facts import TableFacts
from walbridge.producer.relations.column_matching import numbers_of
from walbridge.producer.relations.columns.known_columns import KnownColumns, version_with_same_columns
from walbridge.producer.relations.columns.number_ranges import narrowed
from walbridge.producer.relations.columns.told_columns import NumberedColumns
from walbridge.producer.relations.columns.types_kept import numbers_of_types
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import FIRST_USER_OID

UncertainColumns = Callable[[Relation, TableFacts | None, Sequence[RelationRecord]], list[str]]
"""Returns the names of the columns of one kind."""


def uncertain_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Names of columns that may be different ones. First, those that may be one of several columns of the newest
    version, or none of them. Second, new columns that the catalogue may not have any more, though it has one of this
    name and type: there was a column in between that no Relation has shown, or there is an earlier new column under
    another name, which this Relation would have had to show as well."""
    known = KnownColumns(relation, facts, versions)
    ranges, candidates = known.ranges, known.candidates
    if facts is None or ranges is None or candidates is None:
        return []
    numbers, same = numbers_of(known), version_with_same_columns(relation, versions)
    if same is versions[-1]:
        return []  # made_again_columns
    # What was recorded of just these columns is certain; not so a number that one of them has since.
    recorded = [each.attnum for each in same.table.columns] if same is not None else numbers
    new = candidates - known.recorded
    came_and_went = new - known.present
    # New columns that the relation does not have under the names that they have by now.
    renamed = {each.attnum for each in facts.columns if not each.is_generated} & new - {*numbers}
    of_types = numbers_of_types([each.type_oid for each in relation.columns], candidates, facts, versions[-1])
    newest = {each.name: each.attnum for each in known.newest}
    found = []
    for column, number, was, may_be, as_typed in zip(
        relation.columns, numbers, recorded, ranges, narrowed(ranges, of_types), strict=True
    ):
        others = {*may_be} - {number}
        if not others or (same is not None and number in (None, was)):
            continue
        before = newest.get(column.name)
        if number is None:
            is_uncertain = before is not None or not others.isdisjoint(newest.values())
        elif number in known.recorded:
            is_uncertain = False
        else:
            is_renamed = not ({*as_typed} - {number}).isdisjoint(newest.values())
            # The one of its name is another column by now: this may be that one still, or an older one, renamed.
            is_uncertain = before in as_typed or (is_renamed and before is not None and before not in may_be)
            is_uncertain |= not others.isdisjoint(came_and_went) or any(each < number for each in others & renamed)
        if is_uncertain:
            found.append(column.name)
    return found


def made_again_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Names of columns that the newest version has with another number than the catalogue, where the relation has just
    the columns of that version. From before such a column was dropped and made again there is the same Relation, so
    rows that follow may have a value of the first one."""
    if facts is None or not versions or version_with_same_columns(relation, versions[-1:]) is None:
        return []
    numbers = numbers_of(KnownColumns(relation, facts, versions))
    return [
        column.name
        for column, number in zip(versions[-1].table.columns, numbers, strict=True)
        if column.attnum is not None and number not in (None, column.attnum)
    ]


def retyped_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Names of new columns of user types that the catalogue has with another type by now. If that rewrote no row, as
    between a domain and its base type, nobody can tell whether the first type was altered before that."""
    if facts is None or not versions:
        return []
    recorded = {(each.name, each.type_oid) for version in versions for each in version.table.columns}
    by_number = {each.attnum: each.type_oid for each in facts.columns}
    by_name = {each.name: each.type_oid for each in facts.columns}
    return [
        column.name
        for column, number in zip(relation.columns, numbers_of(KnownColumns(relation, facts, versions)), strict=True)
        if column.type_oid >= FIRST_USER_OID
        and (column.name, column.type_oid) not in recorded
        and (by_name.get(column.name) if number is None else by_number.get(number)) not in (None, column.type_oid)
    ]


def altered_types_of_told(
    told: NumberedColumns, relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]
) -> list[str]:
    """The same where event triggers tell the columns' numbers, and of columns that are gone as well: values of a type
    may have changed before."""
    recorded = {(each.name, each.type_oid) for version in versions for each in version.table.columns}
    by_number = {each.attnum: each.type_oid for each in (facts.columns if facts is not None else ())}
    return [
        column.name
        for column, number in zip(relation.columns, told.numbers, strict=True)
        if column.type_oid >= FIRST_USER_OID
        and (column.name, column.type_oid) not in recorded
        and by_number.get(number) != column.type_oid
    ]


def unfilled_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Names of columns of which nobody can tell any more what older rows have in them. These are new columns that are
    dropped by now, with their value for older rows; that may be a column for which the catalogue has such a value; or
    whose value is of another type by now. And they are columns that may be a recorded one with such a value, under a
    name that it has lost since."""
    if facts is None or not versions:
        return []
    known = KnownColumns(relation, facts, versions)
    # Given since the newest version, and dropped by now: the value that older rows had went with the column.
    gone = {*range(max(filter(None, known.recorded), default=0) + 1, facts.attnum_max + 1)} - known.present
    # New columns whose older rows have a value, with the type that this value is of.
    valued = {
        each.attnum: (each.type_oid, each.typmod)
        for each in facts.columns
        if each.missing_value is not None and each.attnum not in known.recorded
    }
    filled = {each.attnum for each in known.newest if each.missing_value is not None}
    if not valued and not gone and not filled:
        return []
    numbers = numbers_of(known)
    # What the newest version has and is there still was there when this was told: without a number it may be that.
    unmatched = known.kept - {*numbers}
    may_have_any = bool(valued or filled & unmatched) or numbers.count(None) > len(unmatched)
    of_types = ((column.type_oid, column.typmod) for column in relation.columns)
    return [
        column.name
        for column, number, of_type in zip(relation.columns, numbers, of_types, strict=True)
        if (may_have_any if number is None else number in gone or valued.get(number, of_type) != of_type)
    ]


def unidentified_columns(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> list[str]:
    """Names of columns that may be ones of the newest version without a known number, or have such a column's name and
    are different ones: where a number is missing, readers go by names."""
    known = KnownColumns(relation, facts, versions)
    unnumbered = {each.name: each.type_oid for each in known.newest if each.attnum is None}
    if not unnumbered or version_with_same_columns(relation, versions[-1:]) is not None:
        return []
    numbers = [column.attnum for column in known.newest]
    *_, after_unknown = [None, *takewhile(lambda each: each is not None, reversed(numbers))]
    found = []
    for column, number in zip(relation.columns, numbers_of(known), strict=True):
        if number is None:
            is_other = unnumbered.get(column.name, column.type_oid) != column.type_oid
        else:
            is_other = number not in numbers and (
                column.name in unnumbered or after_unknown is None or number < after_unknown
            )
        if is_other:
            found.append(column.name)
    return found


IN_LOOKS: tuple[UncertainColumns, ...] = (unfilled_columns, unidentified_columns)
"""The kinds of uncertainty that a look at the catalogue can find, too."""
AT_RELATION: tuple[UncertainColumns, ...] = (uncertain_columns, made_again_columns, retyped_columns, *IN_LOOKS)
"""All kinds, as a Relation can show them."""


def kinds_at_relation(told: NumberedColumns | None) -> tuple[UncertainColumns, ...]:
    """The kinds that a Relation can show; fewer where its columns are told with their numbers."""
    return AT_RELATION if told is None else (partial(altered_types_of_told, told),)


def _is_as_recorded(relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> bool:
    """Whether the newest version has just these columns, and the catalogue each of them with the number that was
    recorded. No kind finds a column then, as most often; all of them take ten times as long to say so."""
    if facts is None or version_with_same_columns(relation, versions[-1:]) is None:
        return False
    present = {(each.attnum, each.name, each.type_oid, each.typmod) for each in facts.columns}
    recorded = versions[-1].table.columns
    return all((each.attnum, each.name, each.type_oid, each.typmod) in present for each in recorded)


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
    if _is_as_recorded(relation, facts, versions):
        return
    for column in (column for columns in kinds for column in columns(relation, facts, versions)):
        raise column_uncertain(f"{relation.namespace}.{relation.name}", column)
