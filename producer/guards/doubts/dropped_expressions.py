"""Generated columns that became plain ones, and are published since.

In: the numbers of unpublished generated columns as progress remembers them, and which are there. Out: tables of which
one is plain now.

DROP EXPRESSION rewrites nothing: rows keep what was computed last, and nobody ever sent it. No file, number or key of
the table is another one then. A plain column never gets an expression again, so each look shows it until the table's
copy begins; a column that is gone takes its values along.
"""

from collections.abc import Mapping

from walbridge.producer.postgres.catalog import Publications
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableStorage
from walbridge.producer.postgres.storage.table_files import plain_columns


def tables_with_dropped(
    connection: SqlConnection,
    known: Mapping[int, TableStorage],
    found: Mapping[int, TableStorage],
    publications: Publications,
) -> set[int]:
    """Those that have such a column. The server is asked again only where one is generated no more, or gone.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    left = {each: numbers for each, now in found.items() if (numbers := known[each].withheld - now.withheld)}
    return plain_columns(connection, left, publications) if left else set()
