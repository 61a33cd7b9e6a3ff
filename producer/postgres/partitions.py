"""The partitions below published roots: which they are, and which columns identify their rows.

In: a connection, relation ids. Out: one ``Partition`` each, the roots themselves among them. Only
the catalogue is read, so that DDL that waits for a lock blocks nothing here.
"""

from collections.abc import Iterable

from walbridge.producer.postgres.catalog import INDEX_KEY, Publications, rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import Partition

TELLS_INVALID_KEYS = 170_000
"""Servers from this version on (PostgreSQL ``relcache.c``, ``RelationGetIndexList``)."""
_TREES = f"""
    WITH RECURSIVE tree AS (
      SELECT oid AS root, oid FROM pg_class WHERE oid = ANY (%s) AND relkind = 'p'
      UNION ALL SELECT t.root, i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid)
    SELECT t.root, c.oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname),
           c.relreplident,
           ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid
                 WHERE i.indrelid = c.oid AND a.attnum = ANY ({INDEX_KEY})
                 AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END),
           CASE WHEN c.relkind = 'f' THEN 'a foreign table'
                WHEN c.relpersistence <> 'p' AND c.oid <> t.root THEN 'unlogged' ELSE '' END,
           c.relreplident = 'd' AND current_setting('server_version_num')::int >= {TELLS_INVALID_KEYS}
           AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND NOT i.indisvalid)
    FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'f') OR c.oid = t.root"""


def partition_trees(connection: SqlConnection, relation_ids: Iterable[int]) -> list[Partition]:
    """Every leaf below the partitioned tables among these, and these tables themselves.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    rows = rows_of(connection, _TREES, (list(relation_ids),))
    return [
        Partition(root, relation_id, name, identity, frozenset(columns), *more)
        for root, relation_id, name, identity, columns, *more in rows
    ]


_SHARED = """
    SELECT c.oid, array_agg(DISTINCT p.pubname::text ORDER BY p.pubname::text)
    FROM pg_class c CROSS JOIN pg_publication p
    WHERE c.oid = ANY (%s) AND c.relkind = 'p' AND p.pubname = ANY (%s) AND (p.puballtables OR EXISTS (
      SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid IN (
        SELECT f.relid FROM pg_partition_tree(pg_partition_root(c.oid)) f)))
    GROUP BY c.oid HAVING count(DISTINCT p.oid) > 1"""


def shared_trees(
    connection: SqlConnection, publications: Publications, relation_ids: Iterable[int]
) -> dict[int, list[str]]:
    """Those of these partitioned tables in whose tree several publications name a table, with these publications.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    return dict(rows_of(connection, _SHARED, (list(relation_ids), list(publications))))
