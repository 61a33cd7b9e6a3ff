"""What publications do to a stream, or lack, with the remedy of each."""

from collections.abc import Sequence

from walbridge.producer.errors.remedies import ON_UNKNOWN_VALUE, copied_again
from walbridge.schemas.errors import COPY_ALL, OperatorError, StreamLost
from walbridge.schemas.table_schema import quoted


def the_publications(publications: Sequence[str]) -> str:
    """Them, named within a sentence."""
    return f"publication{'' if len(publications) == 1 else 's'} {', '.join(publications)}"


def _were(publications: Sequence[str]) -> str:
    return "was" if len(publications) == 1 else "were"


def publication_missing(publication: str) -> OperatorError:
    """Never made unasked: FOR ALL TABLES needs a superuser and takes tables nobody meant."""
    return OperatorError(
        f"publication {publication} does not exist",
        remedy=f"{_made(publication)}; or name its tables in [postgres] publication_tables and run walbridge init",
    )


def _made(publication: str) -> str:
    return f"CREATE PUBLICATION {quoted(publication)} FOR TABLE ..."


def publication_gone(publications: Sequence[str], wanted: Sequence[str] | None = None) -> OperatorError:
    """Changes under no publication are not sent, and no server says so from Postgres 18 on.

    Args:
        wanted: those that a copy needs, which is made of what settings name; by default all.
    """
    return StreamLost(
        f"{the_publications(publications)}, which this pipeline follows, {_were(publications)} dropped: "
        "changes since then did not come",
        first="; ".join(_made(each) for each in publications if wanted is None or each in wanted),
    )


def publication_renamed(publication: str, now: str) -> OperatorError:
    """Changes are published under the name that it has when they are made."""
    return StreamLost(
        f"publication {publication}, which this pipeline follows, was renamed to {now}: changes since then did not "
        "come",
        first=f"ALTER PUBLICATION {quoted(now)} RENAME TO {quoted(publication)}",
    )


def publication_remade(publications: Sequence[str]) -> OperatorError:
    """It may read exactly as before, but no change was sent while it did not exist. Only ids are compared: another one
    that was there and got the name looks the same."""
    whose = "its name was given to another" if len(publications) == 1 else "their names were given to others"
    return StreamLost(
        f"{the_publications(publications)} {_were(publications)} dropped and made again, or {whose}: changes between "
        "did not come"
    )


def operations_missing(
    publications: Sequence[str], operations: Sequence[str], *, is_detectable_later: bool | None = None
) -> OperatorError:
    """Postgres leaves them out silently.

    Args:
        is_detectable_later: whether a start can tell afterwards that they were left out; None before a pipeline begins.
    """
    verb, then = "does" if len(publications) == 1 else "do", ""
    if is_detectable_later is not None:
        then = " then start walbridge produce, which copies the tables again of which changes may be missing"
    if is_detectable_later is False:
        then = f" if there were any since the copy, {COPY_ALL}"
    return OperatorError(
        f"{the_publications(publications)} {verb} not publish {', '.join(operations)}: such changes do not come",
        remedy=f"{publish_all(publications[:1])}{then}",
    )


def publish_all(publications: Sequence[str]) -> str:
    """SQL: these publish all operations."""
    every = "SET (publish = 'insert, update, delete, truncate')"
    return " ".join(f"ALTER PUBLICATION {quoted(each)} {every};" for each in publications)


def membership_changed(publications: Sequence[str], table: str) -> OperatorError:
    """Rows outside the old filter, or changes made in between, were never sent."""
    of_several = "" if len(publications) == 1 else ", or what one of them publishes,"
    return OperatorError(
        f"table {table} was taken out of {the_publications(publications)} and put back, or its row filter or column "
        f"list{of_several} was changed: rows or changes of it are missing",
        remedy=copied_again(table),
    )


def published_under_other_name(publications: Sequence[str], table: str) -> OperatorError:
    """What is said of it by name says nothing of its rows."""
    verb = "publishes" if len(publications) == 1 else "publish"
    return OperatorError(
        f"{the_publications(publications)} {verb} table {table} as its root, or as its partitions: no change comes "
        "under its own name",
        remedy=f"walbridge forget {table}, once walbridge tables calls it dropped; or set publish_via_partition_root "
        "as it was, and it is copied again",
    )


def publication_altered(publications: Sequence[str], table: str) -> OperatorError:
    """What its options were between two looks is written nowhere: only who wrote them last."""
    return OperatorError(
        f"{the_publications(publications)} {_were(publications)} altered since table {table} was last looked at, or it "
        "was out of there meanwhile: changes of it may be missing",
        remedy=copied_again(table),
    )


def generated_columns_changed(publications: Sequence[str], table: str) -> OperatorError:
    """Like a column list: rows that were there before have no value of such a column, or keep an old one."""
    return OperatorError(
        f"publish_generated_columns of {the_publications(publications)} was changed: rows of table {table} that do "
        "not change lack the new columns",
        remedy=copied_again(table),
    )


def row_filter_loses_values(table: str, columns: Sequence[str], mend: str) -> OperatorError:
    """Refused before it happens: afterwards nothing can be mended but by a new copy (I6)."""
    return OperatorError(
        f"table {table} has a row filter and a replica identity that is not FULL: an UPDATE that moves a row into the "
        f"filter is sent as an INSERT without unchanged values of {', '.join(columns)} that are stored out of line",
        remedy=f"{mend} or {ON_UNKNOWN_VALUE}",
    )


def split_differs(what: str) -> OperatorError:
    """A transaction is half published, and what is read again is not what was published (I7)."""
    return StreamLost(what, instead="if the publication was changed meanwhile, change it back")


def not_published(publications: Sequence[str]) -> OperatorError:
    """An empty publication would copy nothing and say that all is well."""
    return OperatorError(
        f"{the_publications(publications)} {'holds' if len(publications) == 1 else 'hold'} no tables",
        remedy=f"ALTER PUBLICATION {quoted(publications[0])} ADD TABLE ...;",
    )
