"""Matches the columns of an announced relation with the catalogue, which says *now* where the stream said *then*.

In: the relation, the catalogue's facts, the recorded versions of the relation, oldest first. Out: the attribute number
of each column, as far as it can be known. Pure.

The stream sends no attribute numbers, but only these tell a renamed column from a new one. A migration may add, fill
and rename columns in one transaction, of which the catalogue shows the end only. So numbers are derived from the order
of columns first (``columns/number_ranges.py``), and from names where order leaves several. A name is trusted if the
column of this name has the same number in the newest version and in the catalogue, or if only one of the two is
possible here. One case stays open: if a column's name goes to another column and one of the two is dropped, all between
two looks, that looks as if nothing had happened, since only the name of a dropped column is known.

Columns that cannot be told are found by ``columns/uncertain_columns.py``.
"""

from walbridge.producer.pgoutput.messages import RelationColumn
from walbridge.producer.postgres.facts import TableFacts
from walbridge.producer.relations.columns.known_columns import KnownColumns, Numbers, version_with_same_columns
from walbridge.producer.relations.columns.number_ranges import are_possible


def numbers_of(known: KnownColumns) -> Numbers:
    """The number of each column; None where nobody can tell.

    The order of numbers is certain where it leaves a column only one. Else the column's name decides, in the newest
    version or in the catalogue, which may mean another column of that name. If a version was recorded with exactly
    these columns, its numbers count.
    """
    by_name, by_order = known.by_name, _by_order(known)
    same = version_with_same_columns(known.relation, known.versions)
    if same is None:
        return _possible(by_name, known.facts) if by_order is None else by_order
    recorded = [column.attnum for column in same.table.columns]
    if same is known.versions[-1] or _is_older(known):
        # A column may have been made again under its name, so the catalogue's numbers count before recorded ones, as
        # long as their order allows them.
        now = [a if a is not None else b for a, b in zip(by_name, recorded, strict=True)]
        return now if _possible(now, known.facts) == now and known.kept <= {*now} else recorded
    # Either it is read again after a crash, or columns came back under names of old ones.
    return _possible(by_name, known.facts) if by_order is None else _agreed(by_order, recorded, by_name)


def _by_order(known: KnownColumns) -> Numbers | None:
    """For each column its number, if it can have only one, or if its name decides; None as a whole where the ranges are
    not known."""
    ranges, candidates, by_name = known.ranges, known.candidates, known.by_name
    if ranges is None or candidates is None:
        return None
    if None not in by_name and are_possible(by_name, candidates, known.kept):
        return by_name  # all are as they are now
    certain: Numbers = [each[0] if len(each) == 1 else None for each in ranges]
    found = [*certain]
    for place, (column, number) in enumerate(zip(known.relation.columns, by_name, strict=True)):
        if found[place] is None:
            numbers = {number, _number_before(column, number, known)} & {*ranges[place]}
            found[place] = numbers.pop() if len(numbers) == 1 else None
    return found if are_possible(found, candidates, known.kept) else certain


def _number_before(column: RelationColumn, number: int | None, known: KnownColumns) -> int | None:
    """The number of the column with this name in the newest version. If its type differs and the catalogue has a column
    of this name, it may have been made anew under the name: then None."""
    before = next((each for each in known.newest if each.name == column.name), None)
    if before is None or (number is not None and before.type_oid != column.type_oid):
        return None
    return before.attnum


def _is_older(known: KnownColumns) -> bool:
    """Whether this relation is older than the newest version: it has more columns than could be there now."""
    return known.candidates is not None and len(known.candidates) < len(known.relation.columns)


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
