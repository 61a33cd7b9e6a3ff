"""The files in which tables lie, and what tells a rewrite of them: asked of the catalogue, no table is touched.

In: relation ids. Out: ``TableFile``s, one for each table, and for each partition below it.
"""

from collections.abc import Iterable, Mapping

import psycopg

from walbridge.producer.postgres.connection import SqlConnection, classified
from walbridge.producer.postgres.facts import TableFile

# What is out of line lies in a table of its own, which only a rewrite of values replaces: see guards/rewrites.py.
# The versions of the columns' rows are asked for only where there is none.
_FILES = """
    WITH RECURSIVE tree AS (
      SELECT oid AS root, oid FROM pg_class WHERE oid = ANY (%s)
      UNION SELECT t.root, i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid
            JOIN pg_class p ON p.oid = t.oid AND p.relkind = 'p')
    SELECT t.root, c.oid, c.relfilenode, c.reltoastrelid, c.relnatts,
           CASE WHEN c.reltoastrelid = 0 AND c.relkind <> 'p' THEN
             (SELECT left(md5(coalesce(string_agg(a.xmin::text, ',' ORDER BY a.attnum), '')), 8)
              FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) ELSE '' END,
           EXISTS (SELECT FROM pg_publication_rel r WHERE r.prrelid = c.oid)
    FROM tree t JOIN pg_class c ON c.oid = t.oid ORDER BY t.root, c.oid"""
_MISSING = """
    SELECT DISTINCT a.attrelid FROM pg_attribute a
    JOIN unnest(%s::oid[], %s::int[]) AS known (relid, natts) ON a.attrelid = known.relid AND a.attnum > known.natts
    WHERE a.atthasmissing AND NOT a.attisdropped AND (a.attmissingval::text::text[])[1] IS NOT NULL"""


def table_files(connection: SqlConnection, relation_ids: Iterable[int]) -> dict[int, tuple[TableFile, ...]]:
    """By relation: its file, and those of the partitions below it.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    found: dict[int, list[TableFile]] = {}
    try:
        for root, *file in connection.execute(_FILES.encode(), (list(relation_ids),)).fetchall():
            found.setdefault(root, []).append(TableFile(*file))
    except psycopg.Error as error:
        raise classified(error) from None
    return {root: tuple(files) for root, files in found.items()}


def with_added_values(connection: SqlConnection, column_counts: Mapping[int, int]) -> set[int]:
    """Those of these relations that got a column behind so many, and with it a value in rows that were there.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    try:
        known = list(column_counts), list(column_counts.values())
        return {relation_id for (relation_id,) in connection.execute(_MISSING.encode(), known).fetchall()}
    except psycopg.Error as error:
        raise classified(error) from None
