"""Which replica identities do not log what the lake needs: refused before the first row is copied.

In: a connection, the published tables. Out: ``OperatorError``s with the SQL that mends each. What
they speak of can be mended only while it has not happened: later the WAL lacks the values.
"""

from collections.abc import Iterator, Sequence

from walbridge.producer.errors.publications import row_filter_loses_values
from walbridge.producer.guards.unfit.partitions import identity_faults, unsent_faults
from walbridge.producer.guards.unfit.publication_faults import (
    archive_faults,
    combination_faults,
    sends_by_order,
    shared_tree_fault,
    unsent_operations,
)
from walbridge.producer.postgres.catalog import INDEX_KEY, rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.partitions import partition_trees, shared_trees
from walbridge.producer.postgres.publications.combined_publications import publishes
from walbridge.producer.postgres.publications.row_filters import LossyFilter, lossy_filters
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_schema import quoted

NOT_VALID_SINCE = 180_000
_NOT_VALIDATED = f"""
    SELECT i.indrelid::bigint, a.attname::text, n.conname::text
    FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisreplident
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY ({INDEX_KEY})
    JOIN pg_constraint n ON n.conrelid = c.oid AND n.contype = 'n' AND NOT n.convalidated AND a.attnum = ANY (n.conkey)
    WHERE c.oid = ANY (%s) AND c.relreplident = 'i' ORDER BY 1, a.attnum"""


def refuse_unfit_identities(connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]) -> None:
    """Refuse tables whose changes would come in parts.

    Raises:
        OperatorError: the first of them.
        RetryableError: the server is away.
    """
    for fault in definite_faults(connection, settings, tables):
        raise fault
    if settings.producer.on_unknown_value == "refuse":
        for fault in filter_faults(connection, settings, tables):
            raise fault


def definite_faults(
    connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]
) -> Iterator[OperatorError]:
    """All that a start refuses, whatever ``producer.on_unknown_value`` says."""
    yield from publication_faults(settings, tables)
    yield from null_faults(connection, tables)
    yield from partition_faults(connection, settings, tables)


def publication_faults(settings: Settings, tables: Sequence[PublishedTable]) -> Iterator[OperatorError]:
    """Tables whose publications do not agree, or publish too little."""
    are_several = len(settings.postgres.publication_names) > 1
    if settings.postgres.archives:
        yield from archive_faults(tables)
    elif are_several:  # else what is missing is missing of all tables
        yield from unsent_operations(tables)
    if are_several:
        yield from combination_faults(tables)


def null_faults(connection: SqlConnection, tables: Sequence[PublishedTable]) -> Iterator[OperatorError]:
    """Tables whose rows may have nulls where their replica identity tells them apart: Postgres 18 takes a NOT NULL that
    is not valid yet for enough, and a unique index takes any number of nulls."""
    if connection.info.server_version < NOT_VALID_SINCE:
        return
    named = {table.relation_id: table for table in tables}
    for relation_id, column, constraint in rows_of(connection, _NOT_VALIDATED, ([*named],)):
        table = named[relation_id]
        yield OperatorError(
            f"column {column} of the replica identity of table {table.qualified_name} may be null: its constraint "
            f"{constraint} is not validated, and rows that are null there would be one",
            remedy=f"once no row is: ALTER TABLE {table.quoted_name} VALIDATE CONSTRAINT {quoted(constraint)}; or "
            f"ALTER TABLE {table.quoted_name} REPLICA IDENTITY FULL;",
        )


def partition_faults(
    connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]
) -> Iterator[OperatorError]:
    """Faults of partitions whose changes are never sent, or come under a name that cannot be foreseen, or whose old
    rows do not fit their root's identity."""
    names = settings.postgres.publication_names
    if len(names) > 1 and sends_by_order(connection.info.server_version):
        roots = {table.relation_id: table for table in tables if table.is_partitioned}
        for root, publications in shared_trees(connection, names, roots).items():
            yield shared_tree_fault(roots[root], publications)
    trees = partition_trees(connection, [table.relation_id for table in tables if table.is_partitioned])
    yield from unsent_faults(trees)
    for _, fault in identity_faults(trees):
        yield fault


def filter_faults(
    connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]
) -> Iterator[OperatorError]:
    """Tables whose row filter can turn an UPDATE into an INSERT that lacks unchanged values (I6)."""
    updated = [table for table in tables if publishes(table.memberships, "update")]
    for lossy in lossy_filters(connection, settings.postgres.publication_names, updated):
        yield row_filter_loses_values(lossy.table.qualified_name, lossy.columns, _mend(lossy))


def _mend(lossy: LossyFilter) -> str:
    full = " ".join(f"ALTER TABLE {name} REPLICA IDENTITY FULL;" for name in lossy.carriers)
    if not lossy.has_column_list:
        return full
    return f"{full} after its column list was taken away (Postgres refuses UPDATE of a table with both);"
