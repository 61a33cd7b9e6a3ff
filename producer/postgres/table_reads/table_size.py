"""How large tables are, from the catalogue and the files' sizes, without reading a row."""

from collections.abc import Iterable
from dataclasses import dataclass

from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection

_TREE = """
    WITH RECURSIVE tree AS (
      SELECT c.oid AS root, c.oid AS leaf, c.relkind FROM pg_class c WHERE c.oid = ANY (%s)
      UNION ALL
      SELECT t.root, c.oid, c.relkind FROM tree t JOIN pg_inherits i ON i.inhparent = t.leaf
      JOIN pg_class c ON c.oid = i.inhrelid WHERE t.relkind = 'p')"""
# Rows as the planner estimates them: those of a page when it was last looked at, for all pages of now.
_SIZES = f"""{_TREE},
    file AS (
      SELECT t.root, c.reltuples::float8 AS rows, c.relpages::float8 AS pages,
             pg_relation_size(c.oid) / current_setting('block_size')::int AS pages_now, pg_table_size(c.oid) AS bytes
      FROM tree t JOIN pg_class c ON c.oid = t.leaf WHERE t.relkind = 'r')
    SELECT root, CASE WHEN bool_and(pages_now = 0 OR rows > 0 AND pages > 0)
                      THEN sum(coalesce(rows / nullif(pages, 0), 0) * pages_now)::bigint END,
           sum(bytes)::bigint
    FROM file GROUP BY root"""
_HEAP = 2
"""Oid of the access method in pg_am.dat."""
_PAGES = f"""{_TREE}
    SELECT t.root, max(pg_relation_size(c.oid) / current_setting('block_size')::int), sum(pg_table_size(c.oid))::bigint,
           bool_and(c.relam = {_HEAP})
    FROM tree t JOIN pg_class c ON c.oid = t.leaf WHERE t.relkind = 'r' GROUP BY t.root"""


@dataclass(frozen=True, slots=True)
class TablePages:
    """``pages``: of a table's file, or of the largest one of its partitions. ``size_bytes``: of all of them, with
    TOAST. ``is_heap``: each is kept as Postgres keeps tables by itself."""

    pages: int
    size_bytes: int
    is_heap: bool


def table_sizes(connection: SqlConnection, relation_ids: Iterable[int]) -> dict[int, TableSize]:
    """By relation id; a partitioned table is all of its partitions. It waits for whoever alters one of them.

    Raises:
        TableLocked: for longer than the connection's lock_timeout.
        RetryableError, OperatorError: the server is away or refuses.
    """
    found = rows_of(connection, _SIZES, (list(relation_ids),))
    return {relation_id: TableSize(rows, size_bytes or 0) for relation_id, rows, size_bytes in found}


def table_pages(connection: SqlConnection, relation_ids: Iterable[int]) -> dict[int, TablePages]:
    """The same for their files. A partitioned table without partitions has none."""
    found = rows_of(connection, _PAGES, (list(relation_ids),))
    return {relation_id: TablePages(pages, size_bytes, is_heap) for relation_id, pages, size_bytes, is_heap in found}
