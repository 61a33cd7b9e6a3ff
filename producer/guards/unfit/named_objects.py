"""Columns whose text names another object of the server: ``reg…`` types and aclitem, also within other types.

In: published tables and the catalogue. Out: what to say of each such table. A row stores the object's oid, and Postgres
prints the name that it has now: where the object is renamed, moved to another schema or dropped, the text of rows
changes that nobody writes, and nothing tells so. Copy and stream have the text as it was when they read the row.
"""

from collections.abc import Iterator, Sequence

from walbridge.producer.errors.tables import names_not_followed
from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.storage.used_types import with_used_types
from walbridge.schemas.errors import OperatorError

# Fixed-length types have an element, too, that no value shows: point has float8. None of these names anything.
_COLUMNS = """
    SELECT u.relid, a.attname::text, min(t.typname::text)
    FROM used u JOIN pg_type t ON t.oid = u.oid JOIN pg_attribute a ON a.attrelid = u.relid AND a.attnum = u.attnum
    WHERE t.typnamespace = 'pg_catalog'::regnamespace AND (t.typname ~ '^reg' OR t.typname = 'aclitem')
    GROUP BY u.relid, u.attnum, a.attname ORDER BY u.relid, u.attnum"""


def named_object_faults(connection: SqlConnection, tables: Sequence[PublishedTable]) -> Iterator[OperatorError]:
    """A warning for each table that publishes such columns. It is followed all the same.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    query = with_used_types(connection, _COLUMNS, first_oid=1)
    found: dict[int, dict[str, str]] = {}
    for relation_id, column, type_name in rows_of(connection, query, ([table.relation_id for table in tables],)):
        found.setdefault(relation_id, {})[column] = type_name
    for table in tables:
        columns = found.get(table.relation_id, {})
        if published := {each: columns[each] for each in table.column_names if each in columns}:
            yield names_not_followed(table.qualified_name, published)
