"""Rows about columns that event triggers wrote, read back: also those that the stream has not brought yet.

In: tables. Out: their rows, with the catalogue of that very moment to compare them with; nothing where the source has
no such rows, or keeps them from this role.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.server_errors import classified
from walbridge.schemas.ddl_row import TOLD_BY, TOLD_COLUMNS

ROWS_MAX = 1_000
"""Of one table that are read at a time; what has more is compared without them."""
_NOT_THERE = (
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.InsufficientPrivilege,
)
_LATER = f"""
    SELECT c.relnatts::int, {TOLD_BY}, r.id, r.told
    FROM pg_class c LEFT JOIN {TOLD_COLUMNS}(%s, %s, {ROWS_MAX + 1}) r ON true WHERE c.oid = %s ORDER BY r.id"""
_NEWEST = f"""
    WITH newest AS (
      SELECT (r.told::jsonb ->> 'relation')::bigint AS relation, max(r.id) AS id
      FROM {TOLD_COLUMNS}(%s, %s, 2147483647) r GROUP BY 1)
    SELECT c.oid::bigint, coalesce(n.id, 0), c.relnatts::int, {TOLD_BY}
    FROM pg_class c LEFT JOIN newest n ON n.relation = c.oid WHERE c.oid = ANY (%s)"""


@dataclass(frozen=True, slots=True)
class LaterRows:
    """``rows``: ids and texts, oldest first; ``count`` and ``by`` as of ``ToldColumns``, at that moment."""

    rows: Sequence[tuple[int, str]]
    count: int
    by: str


@dataclass(frozen=True, slots=True)
class NewestRow:
    """The newest row of a table, 0 where it has none; ``count`` and ``by`` as of ``ToldColumns``, at that moment."""

    row_id: int
    count: int
    by: str


def later_rows(connection: SqlConnection, relation_id: int, row_id: int) -> LaterRows | None:
    """The table's rows from this id on; None where they are not there, too many, or the table is gone.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    found = _answer(connection, _LATER, ([relation_id], row_id, relation_id))
    if not found or len(found) > ROWS_MAX:
        return None
    (count, by, _, _), *_ = found
    return LaterRows([(of, text) for _, _, of, text in found if of is not None], count, by)


def newest_rows(connection: SqlConnection, relation_ids: Collection[int], since: int) -> dict[int, NewestRow] | None:
    """Of those of these tables that are there, among the rows from this id on; None where the source has no such rows.
    Raises as ``later_rows``."""
    wanted = list(relation_ids)
    found = _answer(connection, _NEWEST, (wanted, since, wanted))
    if found is None:
        return None
    return {relation_id: NewestRow(row_id, count, by) for relation_id, row_id, count, by in found}


def _answer(connection: SqlConnection, query: str, parameters: Sequence[Any]) -> list[Any] | None:
    try:
        return connection.execute(query.encode(), parameters).fetchall()
    except _NOT_THERE:
        return None
    except psycopg.Error as error:
        raise classified(error) from None
