"""The attribute numbers that the columns of a relation may have, by their order alone. Pure.

In: how many columns there are; the numbers that they can have; which of these are there all the time. Out: a range of
numbers for each column.

Columns are announced in the order of their numbers, and a number is never given twice. What the newest version had and
the catalogue has still was there in between, whatever it was called: a relation that is newer than that version has a
column for each such number. Names say less, since a migration gives the name of one column to another.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence

Ranges = list[Sequence[int]]
"""By column, in their order."""


def number_ranges(count: int, candidates: Collection[int], kept: Collection[int]) -> Ranges | None:
    """The possible numbers of each of ``count`` columns; None where so many columns cannot have such numbers.

    Args:
        kept: the candidates that one of the columns must have.
    """
    ordered, must = sorted(candidates), sorted(kept)
    spare = len(ordered) - count
    if spare < 0 or len(must) > count:
        return None
    found: Ranges = []
    for place in range(count):
        # Every kept number needs a column: enough of them must be left before this column, and after it.
        highest = must[place] if place < len(must) else ordered[-1]
        after = len(must) - count + place
        lowest = must[after] if after >= 0 else ordered[0]
        begin, end = bisect_left(ordered, lowest), bisect_right(ordered, highest)
        found.append(ordered[max(begin, place) : min(end, place + spare + 1)])
    return found


def narrowed(ranges: Ranges, allowed: Sequence[Collection[int]]) -> Ranges:
    """The ranges reduced to each column's allowed numbers, and to those that can be in ascending order. If that leaves
    a column without a number, the ranges are returned as they are."""
    found = [[each for each in may_be if each in own] for may_be, own in zip(ranges, allowed, strict=True)]
    below = 0
    for place, may_be in enumerate(found):
        found[place] = [each for each in may_be if each > below]
        if not found[place]:
            return ranges
        below = found[place][0]
    above = below + max((each[-1] for each in ranges), default=0)
    for place in reversed(range(len(found))):
        found[place] = [each for each in found[place] if each < above]
        if not found[place]:
            return ranges
        above = found[place][-1]
    return [*found]


def are_possible(numbers: Sequence[int | None], candidates: Collection[int], kept: Collection[int]) -> bool:
    """Whether the columns can have these numbers together, None standing for any number."""
    ordered, must = sorted(candidates), sorted(kept)
    end = ordered[-1] + 1 if ordered else 1
    below, unknown = 0, 0
    for number in [*numbers, end]:
        if number is None:
            unknown += 1
            continue
        room = bisect_left(ordered, number) - bisect_right(ordered, below)
        skipped = bisect_left(must, number) - bisect_right(must, below)
        if number <= below or not skipped <= unknown <= room or number not in (end, *candidates):
            return False
        below, unknown = number, 0
    return True
