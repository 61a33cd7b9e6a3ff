"""What happened to a table that its stream does not say, with the remedy of each."""

from collections.abc import Mapping

from walbridge.producer.errors.remedies import copied_again
from walbridge.schemas.errors import OperatorError, ServerFault, copy_command


class Unreadable(OperatorError):
    """No copy of the table can be made before somebody mends the server."""


class TableRewritten(OperatorError):
    """Rows that were there may have other values. Owners do that on purpose, so it may come as often as they like."""


class DatedByDdlRow(TableRewritten):
    """A row about DDL tells of it, where the source has such rows."""


def table_rewritten(table: str) -> DatedByDdlRow:
    """Postgres sends no change of the rows that it rewrites."""
    return DatedByDdlRow(
        f"table {table} was rewritten, or a partition of it was rewritten or emptied: its rows may have other values, "
        "which were not sent",
        remedy=copied_again(table),
    )


def found_unequal(table: str) -> OperatorError:
    """Whatever brought that about: nobody knows which of its other rows are right."""
    return OperatorError(
        f"table {table} in the lake was compared with its source, and rows of it differ",
        remedy=copied_again(table),
    )


def copied_in_vain(table: str) -> OperatorError:
    """What prevents the lake is not known here."""
    return OperatorError(
        f"table {table} was copied for the lake again and again, and the lake still cannot write it on",
        remedy=f"mend what the log of walbridge materialize says of it, then {copied_again(table)}",
    )


def cannot_be_read(table: str, fault: ServerFault) -> Unreadable:
    """Only the server's own log, and who looks after it, can say why."""
    return Unreadable(
        f"each time that table {table} is read to be copied, the server meets a fault of its own: {fault}",
        remedy="look for it in the server's log; pg_amcheck says whether files are damaged: REINDEX mends an index, a "
        f"backup the rows; then {copied_again(table)}",
    )


def partitions_changed(table: str) -> DatedByDdlRow:
    """Postgres sends nothing of the rows that come and go with a partition."""
    return DatedByDdlRow(
        f"partitions of table {table} were attached, detached or dropped: their rows came and went unsaid",
        remedy=copied_again(table),
    )


def partition_not_sent(table: str) -> TableRewritten:
    """What is read of it now changes unsaid."""
    return TableRewritten(
        f"a partition of table {table} is unlogged or a foreign table: Postgres never sends its changes",
        remedy="ALTER TABLE ... SET LOGGED, or detach it",
    )


def labels_changed(table: str) -> TableRewritten:
    """Postgres sends no change of the rows that hold them."""
    return TableRewritten(
        f"a type of table {table} was altered: labels or attributes that its rows hold are others now",
        remedy=copied_again(table),
    )


def key_made_again(table: str) -> TableRewritten:
    """Old rows come whole, but are told apart by a key that is younger than they may be."""
    return TableRewritten(
        f"the primary key of table {table} was dropped and made again, which the stream does not tell: rows that came "
        "in between may be equal in it",
        remedy=copied_again(table),
    )


def column_added_with_values(table: str) -> TableRewritten:
    """Postgres sends no change of the rows that were there."""
    return TableRewritten(
        f"table {table} got a column with a default, or a column was dropped and added again: the value of rows that "
        "were there was not sent",
        remedy=copied_again(table),
    )


def expression_dropped(table: str) -> TableRewritten:
    """Postgres sends no change of the rows that were there."""
    return TableRewritten(
        f"a generated column of table {table} is none any more, and published since: what rows that were there have in "
        "it was not sent",
        remedy=copied_again(table),
    )


def dropped_meanwhile(table: str) -> OperatorError:
    """Between the look at the publication and the look at the table."""
    return OperatorError(f"table {table} was dropped meanwhile", remedy="run the same command again")


class UnfitTable(OperatorError):
    """A version of a table with which nothing can be published. A copy begins once a person has mended that."""


class UncertainColumn(UnfitTable, TableRewritten):
    """A copy mends it, however often it comes."""


class KeyAltered(UnfitTable, TableRewritten):
    """A copy mends it, however often it comes."""


def key_altered(table: str) -> KeyAltered:
    """I3: rows would stand in the topic under two keys, and in two partitions."""
    return KeyAltered(
        f"table {table} has another key than its topic holds, which has to begin anew", remedy=copied_again(table)
    )


def key_lost(table: str, topic: str, partition_count: int) -> KeyAltered:
    """I3: over several partitions rows have no order but that of their key."""
    return KeyAltered(
        f"table {table} has no key any more, but its topic {topic} has {partition_count} partitions, over which rows "
        "without a key have no order: it has to begin anew in a topic of one",
        remedy=copied_again(table),
    )


def key_replaced(table: str) -> KeyAltered:
    """What came before it may be equal in the new key, and old rows of it are told apart by the old one."""
    return KeyAltered(
        f"table {table} has another key now, which the stream does not tell: rows that came before may be equal in it, "
        "and its topic has several partitions, over which rows without a key have no order",
        remedy=copied_again(table),
    )


def column_uncertain(table: str, column: str) -> UncertainColumn:
    """What came under its name may be the values of another column, or read otherwise by now."""
    return UncertainColumn(
        f"column {column} of table {table} came in the stream when the catalogue no longer had it, had another "
        "one, which may have its name, or had another type of it",
        remedy=copied_again(table),
    )


def names_alike(one: str, other: str, name: str) -> OperatorError:
    """Whoever asks for one of them, in the lake for instance, would get the other one."""
    return OperatorError(
        f"tables {one} and {other} would both be called {name}, in the lake and by every command",
        remedy="rename one of them, or take it out of the publication",
    )


def names_not_followed(table: str, types: Mapping[str, str]) -> OperatorError:
    """``types``: by column, the type that prints names."""
    columns = ", ".join(f"{column} ({type_name})" for column, type_name in types.items())
    return OperatorError(
        f"table {table} has values that Postgres prints as names of other objects: {columns}. When such an object is "
        "renamed, moved or dropped, rows in the lake keep the name of when they were written or copied, and only "
        "walbridge verify notices",
        remedy=f"{copy_command(table)} after that; or have the column store an oid or a text of its own",
    )
