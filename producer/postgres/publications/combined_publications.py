"""What several publications publish together of one table, as the server combines them in the stream.

In: memberships, each of one table in one publication. Out: which rows and columns come, for which operations; where
that is no answer, why not. Pure. Held against real subscribers by tests. Source: pgoutput.c, get_rel_sync_entry,
pgoutput_row_filter_init, pgoutput_column_list_init, check_and_init_gencol.

- A change of a partition is sent once, under the topmost of its parents that a publication publishes via root.
  Only publications that publish it under this name say which rows and columns come.
- Row filters count per operation: those of all publications that publish it are OR'ed; one without a filter, or
  with all tables or the table's schema, makes them void.
- Columns must be the same in all of them. A list of all columns is as none.

A copy reads one set of rows, so inserts, updates and deletes must have the same one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from walbridge.producer.postgres.facts import Membership

EVERY_TABLE, NAMED_OTHERWISE = "*", "as another"
_VERSION, _COLUMNS, _OF = "@", "^", "="
OPERATIONS = ("insert", "update", "delete", "truncate")
_ROW_OPERATIONS = OPERATIONS[:3]


def sent_by_name(parents: Mapping[int, Collection[int]]) -> set[int]:
    """Of published relations those that the stream names: no parent of them is published, too.

    Args:
        parents: of each, all the way up.
    """
    return {relation_id for relation_id, above in parents.items() if parents.keys().isdisjoint(above)}


def filters_of(memberships: Iterable[Membership]) -> dict[str, frozenset[str] | None]:
    """By operation that is published: the filters of which one must hold; None where all rows are sent."""
    found: dict[str, frozenset[str] | None] = {}
    for membership in memberships:
        for operation in membership.operations:
            if operation in _ROW_OPERATIONS:
                before = found.get(operation, frozenset())
                both = None if before is None or membership.row_filter is None else before | {membership.row_filter}
                found[operation] = both
    return found


def row_filter_of(memberships: Sequence[Membership]) -> str | None:
    """SQL that holds for the rows that are sent; None for all. Only inserts count, where operations differ."""
    filters = filters_of(memberships).get("insert")
    if filters is None:
        return None
    ordered = sorted(filters)
    return ordered[0] if len(ordered) == 1 else " OR ".join(f"({each})" for each in ordered)


def missing_operations(memberships: Iterable[Membership]) -> tuple[str, ...]:
    """What none of them publishes."""
    published = {operation for membership in memberships for operation in membership.operations}
    return tuple(operation for operation in OPERATIONS if operation not in published)


def publishes(memberships: Iterable[Membership], operation: str) -> bool:
    """Whether one of them does; what is not told counts as published."""
    members = [*memberships]
    return not members or operation not in missing_operations(members)


def archived_operations(memberships: Iterable[Membership]) -> tuple[str, ...] | None:
    """What comes of a table that is an archive; None of one of which all operations come."""
    missing = missing_operations(memberships)
    return tuple(each for each in OPERATIONS if each not in missing) if missing and len(missing) < 4 else None


def is_archivable(memberships: Iterable[Membership]) -> bool:
    """Whether the lake comes to hold each row that comes, as it came last: a row must come before what changes it, and
    be deleted as it was updated."""
    missing = missing_operations(memberships)
    return "insert" not in missing and not ("update" in missing and "delete" not in missing)


def have_one_filter(memberships: Iterable[Membership]) -> bool:
    """Whether the same rows are sent for all operations."""
    return len({*filters_of(memberships).values()}) <= 1


def have_one_list(memberships: Iterable[Membership]) -> bool:
    """Whether the server sends the table at all: it fails where column lists differ, or generated columns."""
    return len({membership.listed_names for membership in memberships}) <= 1


@dataclass(frozen=True, slots=True)
class FoundMember:
    """A relation beside a publication, by ids. ``token``: what makes it a member, None where nothing does.

    ``version``: changes whenever it may have been no member for a while, or a member otherwise; else never.
    ``is_below_root``: the stream names a parent of it for this publication. ``is_unnamed``: it is partitioned, and
    the stream names its partitions.
    """

    oid: int
    operations: tuple[str, ...]
    token: str | None
    is_below_root: bool
    is_unnamed: bool
    version: str = ""

    @property
    def text(self) -> str:
        """What makes it a member, and since when."""
        return f"{self.token}{_VERSION}{self.version}" if self.version else str(self.token)


def membership_text(found: Sequence[FoundMember], *, is_single: bool) -> str | None:
    """What makes a relation a member of all of these publications together; None where it is in none.

    It changes whenever rows or changes of it may have been left out of the stream.
    """
    members = [each for each in found if each.token is not None]
    if not members:
        return None
    if any(each.is_below_root for each in members):
        return NAMED_OTHERWISE
    named = sorted((each for each in members if not each.is_unnamed), key=lambda each: each.oid)
    if not named:
        return NAMED_OTHERWISE
    if is_single and set(named[0].operations) == set(OPERATIONS):
        return named[0].text
    return " ".join(f"{each.oid}={','.join(each.operations)}={each.text}" for each in named)


def has_version(membership: str) -> bool:
    """Whether it tells of what was altered and altered back, which that of earlier code does not."""
    return _VERSION in membership or membership == NAMED_OTHERWISE


def without_version(membership: str) -> str:
    """What makes the table a member, whatever was altered and altered back."""
    return " ".join(each.partition(_VERSION)[0] for each in membership.split(" "))


def operations_in(membership: str | None) -> tuple[str, ...] | None:
    """What the publications publish of it together, as ``archived_operations``."""
    parts = [part.split("=") for part in (membership or "").split() if "=" in part]
    told = {operation for _, operations, *_ in parts for operation in operations.split(",")}
    return tuple(each for each in OPERATIONS if each in told) if parts and not told >= {*OPERATIONS} else None


def tells_more(before: str, now: str) -> bool:
    """Whether the same is told as before, but of columns, which earlier code left out, or of which one is as it was:
    who makes a partition of a table, or none, writes them all anew."""
    if before == now or before.count(" ") != now.count(" "):
        return False
    parts = ([each.partition(_COLUMNS) for each in text.split(" ")] for text in (before, now))
    return all(_keeps_a_column(one, other) for one, other in zip(*parts, strict=True))


def _keeps_a_column(before: tuple[str, str, str], now: tuple[str, str, str]) -> bool:
    known, found = ({*each[2].split(",")} if each[2] else set[str]() for each in (before, now))
    is_alike = before[0] == now[0] and (now[1] or not before[1])
    return bool(is_alike) and (not known or not found or not known.isdisjoint(found))


def told_beside(membership: str, publications: Collection[int], others: Collection[int]) -> str:
    """What was told of a table in ``publications``, as it is told where ``others`` are followed."""
    if membership == NAMED_OTHERWISE:
        return membership
    every = ",".join(OPERATIONS)
    if _OF not in membership and len(publications) == 1:
        membership = _OF.join([*map(str, publications), every, membership])
    oid, *rest = membership.split(_OF)
    is_plain = len(others) == 1 and " " not in membership and [oid] == [*map(str, others)] and rest[:1] == [every]
    return rest[1] if is_plain else membership


def changed_members(before: str, now: str) -> set[int]:
    """The publications in which a table is a member otherwise than before; none where they are told together."""
    if not (has_version(before) and has_version(now)):
        before, now = without_version(before), without_version(now)
    known, found = _by_oid(before), _by_oid(now)
    return {oid for oid in known.keys() | found.keys() if known.get(oid) != found.get(oid)}


def _by_oid(text: str) -> dict[int, str]:
    parts = (part.partition("=") for part in text.split() if "=" in part)
    return {int(oid): token for oid, _, token in parts}


def generated_by_publication(text: str, publications: Collection[int]) -> dict[int, str]:
    """What ``generated_text`` told of these."""
    if _OF not in text:
        return dict.fromkeys(publications, text)
    return {int(oid): kind for oid, _, kind in (part.partition(_OF) for part in text.split())}


def generated_text(by_oid: Mapping[int, str]) -> str:
    """Which publications publish stored generated columns that no list names."""
    if len(by_oid) == 1:
        (kind,) = by_oid.values()
        return kind
    return " ".join(f"{oid}={by_oid[oid]}" for oid in sorted(by_oid))
