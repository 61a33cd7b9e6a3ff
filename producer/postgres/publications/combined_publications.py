"""What several publications publish together of one table, as the server combines them in the stream.

In: memberships, each of one table in one publication. Out: which rows and columns come, for which operations, and
whether the publications agree on that. Pure. Tests compare it with real subscribers. Source: pgoutput.c,
get_rel_sync_entry, pgoutput_row_filter_init, pgoutput_column_list_init, check_and_init_gencol.

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

EVERY_TABLE, UNDER_OTHER_NAME = "*", "as another"
_VERSION, _COLUMNS, _SEPARATOR = "@", "^", "="
OPERATIONS = ("insert", "update", "delete", "truncate")
_ROW_OPERATIONS = OPERATIONS[:3]


def named_in_stream(parents: Mapping[int, Collection[int]]) -> set[int]:
    """The published relations whose own names the stream uses: those without a published ancestor.

    Args:
        parents: the ancestors of each published relation, all the way up.
    """
    return {relation_id for relation_id, above in parents.items() if parents.keys().isdisjoint(above)}


def filters_of(memberships: Iterable[Membership]) -> dict[str, frozenset[str] | None]:
    """By published operation, the row filters of which at least one must hold; None where all rows are sent."""
    found: dict[str, frozenset[str] | None] = {}
    for membership in memberships:
        for operation in membership.operations:
            if operation in _ROW_OPERATIONS:
                before = found.get(operation, frozenset())
                both = None if before is None or membership.row_filter is None else before | {membership.row_filter}
                found[operation] = both
    return found


def row_filter_of(memberships: Sequence[Membership]) -> str | None:
    """An SQL condition for the rows that are sent; None for all rows. Where operations differ, that of inserts."""
    filters = filters_of(memberships).get("insert")
    if filters is None:
        return None
    ordered = sorted(filters)
    return ordered[0] if len(ordered) == 1 else " OR ".join(f"({each})" for each in ordered)


def missing_operations(memberships: Iterable[Membership]) -> tuple[str, ...]:
    """The operations that none of them publishes."""
    published = {operation for membership in memberships for operation in membership.operations}
    return tuple(operation for operation in OPERATIONS if operation not in published)


def publishes(memberships: Iterable[Membership], operation: str) -> bool:
    """Whether one of them publishes the operation. Without memberships everything counts as published."""
    members = [*memberships]
    return not members or operation not in missing_operations(members)


def archived_operations(memberships: Iterable[Membership]) -> tuple[str, ...] | None:
    """The operations that come of a table that is an archive; None of a table that is none, as all operations come."""
    missing = missing_operations(memberships)
    return tuple(each for each in OPERATIONS if each not in missing) if missing and len(missing) < 4 else None


def is_archivable(memberships: Iterable[Membership]) -> bool:
    """Whether the lake can hold the last state of each row that comes: each row must come before its changes, and where
    updates are left out deletes must be as well."""
    missing = missing_operations(memberships)
    return "insert" not in missing and not ("update" in missing and "delete" not in missing)


def have_one_filter(memberships: Iterable[Membership]) -> bool:
    """Whether the same rows are sent for all operations."""
    return len({*filters_of(memberships).values()}) <= 1


def have_one_list(memberships: Iterable[Membership]) -> bool:
    """Whether all publish the same columns: else the server ends the stream at the table's next change."""
    return len({membership.listed_names for membership in memberships}) <= 1


@dataclass(frozen=True, slots=True)
class FoundMember:
    """One relation in one publication, by ids. ``token``: what makes it a member; None where it is none.

    ``version``: another one whenever the relation may have left the publication for a while, or was a member in another
    way; else the same for life. ``is_below_root``: this publication publishes the relation's changes under a parent's
    name. ``is_unnamed``: it is partitioned, and the changes come under the names of its partitions.
    """

    oid: int
    operations: tuple[str, ...]
    token: str | None
    is_below_root: bool
    is_unnamed: bool
    version: str = ""

    @property
    def text(self) -> str:
        """The token with its version."""
        return f"{self.token}{_VERSION}{self.version}" if self.version else str(self.token)


def membership_text(found: Sequence[FoundMember], *, is_single: bool) -> str | None:
    """What makes a relation a member of all of these publications together; None where it is in none.

    It changes whenever rows or changes of it may have been left out of the stream.
    """
    members = [each for each in found if each.token is not None]
    if not members:
        return None
    if any(each.is_below_root for each in members):
        return UNDER_OTHER_NAME
    named = sorted((each for each in members if not each.is_unnamed), key=lambda each: each.oid)
    if not named:
        return UNDER_OTHER_NAME
    if is_single and set(named[0].operations) == set(OPERATIONS):
        return named[0].text
    return " ".join(f"{each.oid}={','.join(each.operations)}={each.text}" for each in named)


def has_version(membership: str) -> bool:
    """Whether the membership shows what was altered and altered back; earlier code wrote none that does."""
    return _VERSION in membership or membership == UNDER_OTHER_NAME


def without_version(membership: str) -> str:
    """What makes the table a member, without the versions."""
    return " ".join(each.partition(_VERSION)[0] for each in membership.split(" "))


def operations_in(membership: str | None) -> tuple[str, ...] | None:
    """``archived_operations`` of a table with this membership."""
    parts = [part.split("=") for part in (membership or "").split() if "=" in part]
    told = {operation for _, operations, *_ in parts for operation in operations.split(",")}
    return tuple(each for each in OPERATIONS if each in told) if parts and not told >= {*OPERATIONS} else None


def differs_only_in_columns(before: str, now: str) -> bool:
    """Whether two memberships differ only in who wrote the table's columns, and that shows no interruption: earlier
    code did not write it down, or at least one column is as before. ATTACH and DETACH write all columns anew."""
    if before == now or before.count(" ") != now.count(" "):
        return False
    parts = ([each.partition(_COLUMNS) for each in text.split(" ")] for text in (before, now))
    return all(_shares_a_column(one, other) for one, other in zip(*parts, strict=True))


def _shares_a_column(before: tuple[str, str, str], now: tuple[str, str, str]) -> bool:
    known, found = ({*each[2].split(",")} if each[2] else set[str]() for each in (before, now))
    is_alike = before[0] == now[0] and (now[1] or not before[1])
    return bool(is_alike) and (not known or not found or not known.isdisjoint(found))


def restated_membership(membership: str, publications: Collection[int], others: Collection[int]) -> str:
    """A membership that was written down while ``publications`` were followed, as it reads where ``others`` are."""
    if membership == UNDER_OTHER_NAME:
        return membership
    every = ",".join(OPERATIONS)
    if _SEPARATOR not in membership and len(publications) == 1:
        membership = _SEPARATOR.join([*map(str, publications), every, membership])
    oid, *rest = membership.split(_SEPARATOR)
    is_plain = len(others) == 1 and " " not in membership and [oid] == [*map(str, others)] and rest[:1] == [every]
    return rest[1] if is_plain else membership


def changed_members(before: str, now: str) -> set[int]:
    """The publications in which a membership changed; none where the text does not list them one by one."""
    if not (has_version(before) and has_version(now)):
        before, now = without_version(before), without_version(now)
    known, found = _by_oid(before), _by_oid(now)
    return {oid for oid in known.keys() | found.keys() if known.get(oid) != found.get(oid)}


def may_be_member(membership: str, publications: Collection[int]) -> bool:
    """Whether the relation is in one of these publications, or the text does not list those that it is in."""
    listed = _by_oid(membership)
    return not listed or not listed.keys().isdisjoint(publications)


def _by_oid(text: str) -> dict[int, str]:
    parts = (part.partition("=") for part in text.split() if "=" in part)
    return {int(oid): token for oid, _, token in parts}


def generated_by_publication(text: str, publications: Collection[int]) -> dict[int, str]:
    """``generated_columns_text`` read back: by publication."""
    if _SEPARATOR not in text:
        return dict.fromkeys(publications, text)
    return {int(oid): kind for oid, _, kind in (part.partition(_SEPARATOR) for part in text.split())}


def generated_columns_text(by_oid: Mapping[int, str]) -> str:
    """Which publications publish stored generated columns that no list names."""
    if len(by_oid) == 1:
        (kind,) = by_oid.values()
        return kind
    return " ".join(f"{oid}={by_oid[oid]}" for oid in sorted(by_oid))
