"""Whether the catalogue's rows about some tables are those of before, in one quick query.

In: relation ids. Out: a digest. Whoever alters a table, its partitions, types, key or publication writes rows of the
catalogue anew, in a transaction of his own, or deletes some; VACUUM and ANALYZE change rows in place and keep their
``xmin``. Tables that are nobody's business here, as temporary ones, change nothing (PostgreSQL ``heapam.c``,
``heap_inplace_update_and_unlock``); but for those of which rows are values of a column, or are within them.
"""

from collections.abc import Iterable

from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection

SCHEMAS_SINCE = 150_000
"""Versions that publish schemas."""
_ROWS = """
    SELECT oid::bigint, xmin FROM pg_class WHERE oid = ANY (%s) OR relispartition OR relkind = 'c'
    UNION ALL SELECT (attrelid::bigint << 16) + attnum, xmin FROM pg_attribute WHERE attrelid = ANY (%s) AND attnum > 0
    UNION ALL SELECT (a.attrelid::bigint << 16) + a.attnum, a.xmin
      FROM pg_depend d JOIN pg_type t ON t.oid = d.refobjid
      LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
      JOIN pg_attribute a ON a.attrelid = coalesce(nullif(t.typrelid, 0), e.typrelid) AND a.attnum > 0
      WHERE d.refclassid = 'pg_type'::regclass AND d.classid IN ('pg_class'::regclass, 'pg_type'::regclass)
      AND d.deptype = 'n'
    UNION ALL SELECT oid::bigint, xmin FROM pg_constraint WHERE conrelid = ANY (%s)
    UNION ALL SELECT indexrelid::bigint, xmin FROM pg_index WHERE indrelid = ANY (%s)
    UNION ALL SELECT inhrelid::bigint, xmin FROM pg_inherits
    UNION ALL SELECT oid::bigint, xmin FROM pg_type WHERE typtype NOT IN ('b', 'c', 'p')
    UNION ALL SELECT oid::bigint, xmin FROM pg_enum
    UNION ALL SELECT oid::bigint, xmin FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
    UNION ALL SELECT oid::bigint, xmin FROM pg_publication
    UNION ALL SELECT oid::bigint, xmin FROM pg_publication_rel {schemas}"""
_SCHEMAS = "UNION ALL SELECT oid::bigint, xmin FROM pg_publication_namespace"
_DIGEST = "SELECT count(*), sum(hashint8extended(r.key, r.xmin::text::bigint)) FROM ({rows}) r (key, xmin)"


def catalog_digest(connection: SqlConnection, relation_ids: Iterable[int]) -> tuple[int, int]:
    """A digest of the catalogue's rows about these tables; it changes when anything about them is altered.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    wanted = list(relation_ids)
    schemas = _SCHEMAS if connection.info.server_version >= SCHEMAS_SINCE else ""
    query = _DIGEST.format(rows=_ROWS.format(schemas=schemas))
    ((count, digest),) = rows_of(connection, query, (wanted,) * query.count("%s"))
    return count, int(digest)
