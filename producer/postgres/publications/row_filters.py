"""Published tables of which the stream may hand over half a row, because of their row filter.

In: a connection and the published tables. Out: those of them with what mends it. An UPDATE that
moves a row into its filter is sent as an Insert of the new row. A value of it that the UPDATE left
alone and that is stored out of line is not in the WAL, unless the old row is, whole: then it is
nowhere (I6). Exactly where all of this holds, and so nowhere without need:

- the filter reads columns, all of them of the replica identity: else Postgres refuses the UPDATE. Filters of
  publications that publish no updates may read any column, and have no part in this;
- that identity is an index, not FULL, which logs the old row, nor none, under which nothing is updated;
- a published column outside of it may be stored out of line, and the table has a place for that.

Below a partitioned root the partitions' identities count. Source: pgoutput.c, pgoutput_row_filter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from walbridge.producer.postgres.catalog import INDEX_KEY, Publications, rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable

_CARRIERS = rf"""
    WITH RECURSIVE tree AS (
      SELECT oid AS root, oid FROM pg_class WHERE oid = ANY (%s)
      UNION ALL SELECT t.root, i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid
                JOIN pg_class p ON p.oid = t.oid AND p.relkind = 'p'),
    named AS (SELECT attrelid, attnum, attname::text AS name, attlen = -1 AND attstorage <> 'p' AS is_large
              FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped)
    SELECT t.root, quote_ident(n.nspname) || '.' || quote_ident(c.relname), r.prattrs IS NOT NULL,
           ARRAY(SELECT a.name FROM named a WHERE a.attrelid = t.root AND a.attnum IN (
             SELECT m[1]::int FROM regexp_matches(r.prqual::text, ':varattno (\d+)', 'g') m)),
           ARRAY(SELECT a.name FROM named a WHERE a.attrelid = c.oid AND a.attnum = ANY (x.key)),
           ARRAY(SELECT a.name FROM named a WHERE a.attrelid = c.oid AND a.is_large AND a.attnum <> ALL (x.key))
    FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_publication_rel r ON r.prrelid = t.root JOIN pg_publication p ON p.oid = r.prpubid
    CROSS JOIN LATERAL (
      SELECT {INDEX_KEY} AS key FROM pg_index i WHERE i.indrelid = c.oid AND i.indimmediate
      AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END) x
    WHERE p.pubname = ANY (%s) AND p.pubupdate AND c.relkind = 'r' AND c.reltoastrelid <> 0
    ORDER BY t.root, 2"""


@dataclass(frozen=True, slots=True)
class LossyFilter:
    """A table of this kind. ``columns``: whose values may be missing. ``carriers``: the table, or
    partitions of it, whose identity is to be FULL, quoted for SQL."""

    table: PublishedTable
    columns: tuple[str, ...]
    carriers: tuple[str, ...]
    has_column_list: bool


def lossy_filters(
    connection: SqlConnection, publications: Publications, tables: Sequence[PublishedTable]
) -> list[LossyFilter]:
    """The tables whose row filter may leave values out, in the order given.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    filtered = [table for table in tables if table.row_filter is not None]
    if not filtered:
        return []  # before Postgres 15 there are none, nor the columns that tell of them
    rows = rows_of(connection, _CARRIERS, ([table.relation_id for table in filtered], list(publications)))
    found = (_judged(table, [row[1:] for row in rows if row[0] == table.relation_id]) for table in filtered)
    return [lossy for lossy in found if lossy is not None]


_Carrier = tuple[str, bool, list[str], list[str], list[str]]
"""Name, whether there is a column list, columns that the filter reads, of the identity, large ones."""


def _judged(table: PublishedTable, carriers: Sequence[_Carrier]) -> LossyFilter | None:
    # One of several filters lets a row in that another one left out: what any of them reads counts.
    read = {
        name: {column for of, _, columns, *_ in carriers if of == name for column in columns} for name, *_ in carriers
    }
    missing = {
        name: set(large) & set(table.column_names)
        for name, _, _, identity, large in carriers
        if read[name] and read[name] <= set(identity)
    }
    lossy = tuple(name for name, columns in missing.items() if columns)
    any_missing = set().union(*missing.values())
    columns = tuple(column for column in table.column_names if column in any_missing)
    return LossyFilter(table, columns, lossy, any(each[1] for each in carriers)) if lossy else None
