"""How large tables are, from the catalogue and the files' sizes, without reading a row."""

from collections.abc import Iterable

from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection

# Rows as the planner estimates them: those of a page when it was last looked at, for all pages of now.
_SIZES = """
    WITH RECURSIVE tree AS (
      SELECT c.oid AS root, c.oid AS leaf, c.relkind FROM pg_class c WHERE c.oid = ANY (%s)
      UNION ALL
      SELECT t.root, c.oid, c.relkind FROM tree t JOIN pg_inherits i ON i.inhparent = t.leaf
      JOIN pg_class c ON c.oid = i.inhrelid WHERE t.relkind = 'p'),
    file AS (
      SELECT t.root, c.reltuples::float8 AS rows, c.relpages::float8 AS pages,
             pg_relation_size(c.oid) / current_setting('block_size')::int AS pages_now, pg_table_size(c.oid) AS bytes
      FROM tree t JOIN pg_class c ON c.oid = t.leaf WHERE t.relkind = 'r')
    SELECT root, CASE WHEN bool_and(pages_now = 0 OR rows > 0 AND pages > 0)
                      THEN sum(coalesce(rows / nullif(pages, 0), 0) * pages_now)::bigint END,
           sum(bytes)::bigint
    FROM file GROUP BY root"""


def table_sizes(connection: SqlConnection, relation_ids: Iterable[int]) -> dict[int, TableSize]:
    """By relation id; a partitioned table is all of its partitions. It waits for whoever alters one of them.

    Raises:
        TableLocked: for longer than the connection's lock_timeout.
        RetryableError, OperatorError: the server is away or refuses.
    """
    found = rows_of(connection, _SIZES, (list(relation_ids),))
    return {relation_id: TableSize(rows, size_bytes or 0) for relation_id, rows, size_bytes in found}
