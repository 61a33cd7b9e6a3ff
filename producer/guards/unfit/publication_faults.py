"""Tables that several publications publish in ways that do not go together: refused before the first row is copied.

In: published tables with their memberships. Out: an ``OperatorError`` for each, with the SQL that mends it. If columns
differ, Postgres ends the stream. If row filters differ by operation, no copy can equal what it sends.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from walbridge.producer.errors.publications import operations_missing, publish_all, the_publications
from walbridge.producer.postgres.facts import Membership, PublishedTable
from walbridge.producer.postgres.publications.combined_publications import (
    have_one_filter,
    have_one_list,
    is_archivable,
    missing_operations,
)
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_schema import quoted


def combination_faults(tables: Iterable[PublishedTable]) -> Iterator[OperatorError]:
    """A fault for each table that its publications together make impossible to follow."""
    for table in tables:
        members = table.memberships
        names = [member.publication for member in members]
        if not have_one_list(members):
            yield OperatorError(_different_columns(table), remedy=_same_columns(table))
        elif not have_one_filter(members):
            yield OperatorError(
                f"{the_publications(names)} publish other rows of table {table.qualified_name} for inserts than for "
                "updates or deletes: their row filters count per operation",
                remedy=publish_all([each.publication for each in members if missing_operations([each])]),
            )


def refuse_other_columns(tables: Iterable[PublishedTable], followed: Collection[str]) -> None:
    """Asked before publications are followed beside those that are, or in their place: the stream of all tables would
    end at the next change of the table.

    Raises:
        OperatorError: of the first table of which they publish different columns.
    """
    for table in tables:
        if not have_one_list(table.memberships):
            # The SQL is to alter those that nobody follows yet.
            ordered = sorted(table.memberships, key=lambda each: each.publication not in followed)
            raise OperatorError(
                _different_columns(table),
                remedy=f"{_same_columns(replace(table, memberships=tuple(ordered)))} then start walbridge produce; or "
                f"have [postgres] publications name {', '.join(followed)} again, as before",
            )


def brittle_lists(tables: Iterable[PublishedTable]) -> Iterator[OperatorError]:
    """A fault for each table of which one publication lists all columns and another has no list: they agree only until
    the table gets another column."""
    for table in tables:
        members = table.memberships
        listing = [each for each in members if each.has_list]
        if have_one_list(members) and 0 < len(listing) < len(members):
            others = [each.publication for each in members if not each.has_list]
            verb = "lists" if len(listing) == 1 else "list"
            yield OperatorError(
                f"{the_publications([each.publication for each in listing])} {verb} all columns of table "
                f"{table.qualified_name}, and {the_publications(others)} none: ADD COLUMN makes them differ, and "
                "Postgres then ends the stream at the table's next change",
                remedy=" ".join(_with_columns(table, each, replace(each, has_list=False)) for each in listing)
                + " The table is copied again then, if it is followed",
            )


def _different_columns(table: PublishedTable) -> str:
    names = the_publications([member.publication for member in table.memberships])
    return f"{names} publish different columns of table {table.qualified_name}: Postgres refuses that"


def unsent_operations(tables: Iterable[PublishedTable]) -> Iterator[OperatorError]:
    """A fault for each table with operations that none of its publications publishes."""
    for table in tables:
        names = [member.publication for member in table.memberships]
        if missing := missing_operations(table.memberships):
            verb = "does" if len(names) == 1 else "do"
            yield OperatorError(
                f"{the_publications(names)} {verb} not publish {', '.join(missing)} of table {table.qualified_name}: "
                "such changes do not come",
                remedy=publish_all(names[:1]),
            )


def refuse_unsent_operations(settings: Settings, tables: Iterable[PublishedTable]) -> None:
    """Before anything is made: a start refuses a publication that leaves operations out, unless it may be an archive.

    Raises:
        OperatorError: the only publication leaves some out; of several, ``unsent_operations`` says of which tables.
    """
    names = settings.postgres.publication_names
    members = [member for table in tables for member in table.memberships]
    if len(names) == 1 and not settings.postgres.archives and (missing := missing_operations(members)):
        raise operations_missing(names, missing)


def archive_faults(tables: Iterable[PublishedTable]) -> Iterator[OperatorError]:
    """A fault for each table of which not even an archive can be made."""
    for table in tables:
        if not is_archivable(table.memberships):
            names = [member.publication for member in table.memberships]
            missing = ", ".join(missing_operations(table.memberships))
            yield OperatorError(
                f"{the_publications(names)} publish{'es' if len(names) == 1 else ''} no {missing} of table "
                f"{table.qualified_name}: an archive takes inserts at least, and deletes beside updates alone",
                remedy=f"{publish_all(names[:1])} or ALTER PUBLICATION {quoted(names[0])} SET (publish = 'insert');",
            )


def sends_by_order(server_version: int) -> bool:
    """Whether the server names a partition's changes by the first publication that publishes all operations of it, and
    not by the topmost root of all (PostgreSQL ``pgoutput.c``, get_rel_sync_entry, before 13.7 and 14.3)."""
    return 130000 <= server_version < 130007 or 140000 <= server_version < 140003


def shared_tree_fault(table: PublishedTable, publications: Sequence[str]) -> OperatorError:
    """The fault of a tree that several publications share, on a server that ``sends_by_order``."""
    others = " ".join(f"ALTER PUBLICATION {quoted(each)} DROP TABLE ...;" for each in publications[1:])
    return OperatorError(
        f"{the_publications(publications)} publish table {table.qualified_name} or partitions of it: before 13.7 and "
        "14.3 the order of publications decides under which name Postgres sends their changes",
        remedy=f"run the newest minor version of this server; or leave it and its partitions in one of them: {others}",
    )


def _same_columns(table: PublishedTable) -> str:
    """SQL after which all publications have the columns of the one that has the table with others, or of the first."""
    like = next((each for each in table.memberships if each.is_whole), table.memberships[0])
    others = [each for each in table.memberships if each.listed_names != like.listed_names]
    return " ".join(_with_columns(table, each, like) for each in others)


def _with_columns(table: PublishedTable, member: Membership, like: Membership) -> str:
    publication, name = quoted(member.publication), table.quoted_name
    if member.is_whole or not (member.has_list or like.has_list):
        kind = "stored" if like.listed_names > member.listed_names else "none"
        return f"ALTER PUBLICATION {publication} SET (publish_generated_columns = {kind});"
    listed = f" ({', '.join(map(quoted, like.column_names))})" if like.has_list else ""
    where = f" WHERE ({member.row_filter})" if member.row_filter is not None else ""
    return (
        f"ALTER PUBLICATION {publication} DROP TABLE {name}; "
        f"ALTER PUBLICATION {publication} ADD TABLE {name}{listed}{where};"
    )
