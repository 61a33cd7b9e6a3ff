"""Generated columns that lost their expression, and are published since then.

In: the numbers of unpublished generated columns as progress remembers them and as they are. Out: tables in which one of
them is a plain column now.

DROP EXPRESSION rewrites nothing: rows keep the values that were computed last, which were never sent. The table keeps
its file, column numbers and key. A plain column never becomes generated again, so each look finds it until the table's
copy begins; a dropped column takes its values along.
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
    """The tables that have such a column. The server is asked again only where a generated column is none any more.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    left = {each: numbers for each, now in found.items() if (numbers := known[each].withheld - now.withheld)}
    return plain_columns(connection, left, publications) if left else set()
