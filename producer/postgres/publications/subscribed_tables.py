"""Tables that a subscription of the database writes to, as the catalogue says it.

In: a connection, relation ids. Out: those of them. Whoever may connect may ask: only pg_subscription holds secrets.
"""

from collections.abc import Iterable

from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection

# A table holds what comes to a partition of it, and, as a partition, what comes to a parent.
_SUBSCRIBED = """
    SELECT DISTINCT c.oid FROM pg_class c, pg_subscription_rel s
    WHERE c.oid = ANY (%s) AND (s.srrelid = c.oid OR c.oid IN (
      SELECT relid FROM pg_partition_ancestors(s.srrelid) UNION SELECT relid FROM pg_partition_tree(s.srrelid)))"""


def subscribed(connection: SqlConnection, relation_ids: Iterable[int]) -> set[int]:
    """Those of these relations.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    return {relation_id for (relation_id,) in rows_of(connection, _SUBSCRIBED, (list(relation_ids),))}
