"""The user types of tables' columns, with all that are within them, and when their rows of the catalogue were written.

In: relation ids. Out: a ``UsedType`` for each column and type, with the versions of the rows that tell their order.

A column's row of ``pg_attribute`` is written anew by whatever alters it, so that it may be younger than rows that came
with the column. Its dependency on its type (``pg_depend``) is written when the column gets that type: after the
column's row if it is added, with it by each ALTER of its type, also one that names the type that it has (PostgreSQL
``tablecmds.c``, ``ATExecAddColumn``, ``ATExecAlterColumnType``).
A label that is renamed, an attribute that is dropped or renamed, has its own row written; who adds an attribute writes
the composite's row of ``pg_class``, too, and who renames one does not (PostgreSQL ``pg_enum.c``, ``RenameEnumLabel``;
``tablecmds.c``, ``ATExecAddColumn``, ``renameatt_internal``). A type is made with its array type, whose dependency on
it is never written again: so that tells when the type was made.
"""

from collections.abc import Iterable
from dataclasses import replace

from walbridge.producer.copying.visibility import FIRST_NORMAL_XID, widen
from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import RowVersion, UsedType
from walbridge.schemas.pg_types import FIRST_USER_OID

_USED = """
    WITH RECURSIVE used AS (
      SELECT a.attrelid AS relid, a.attnum, a.atttypid AS of_column, a.atttypid AS oid FROM pg_attribute a
      WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= {first_oid}
      UNION SELECT u.relid, u.attnum, u.of_column, x.oid
      FROM used u JOIN pg_type t ON t.oid = u.oid CROSS JOIN LATERAL (
        SELECT t.typelem UNION ALL SELECT t.typbasetype
        UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN ({ranges})
        UNION ALL SELECT a.atttypid FROM pg_attribute a
                  WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        ) x (oid) WHERE x.oid >= {first_oid})"""
WITH_MADE = """
    LEFT JOIN pg_depend m ON m.classid = 'pg_type'::regclass AND m.objid = y.typarray AND m.objsubid = 0
    AND m.refclassid = 'pg_type'::regclass AND m.refobjid = y.oid"""
"""SQL: joins to each type ``y`` the row ``m`` that the command which made the type wrote, and nobody since."""
_VERSION = "{0}.xmin::text::bigint, {0}.cmin::text::bigint, {0}.xmax::text <> '0'"
_ROWS = f""",
    fact AS (
      SELECT e.enumtypid AS oid, {_VERSION.format("e")}, NULL::bigint, NULL::bigint, NULL::boolean FROM pg_enum e
      WHERE e.enumtypid IN (SELECT oid FROM used)
      UNION ALL SELECT t.oid, {_VERSION.format("a")},
        CASE WHEN NOT a.attisdropped THEN c.xmin::text::bigint END, c.cmin::text::bigint, c.xmax::text <> '0'
      FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid
      JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0
      WHERE t.typtype = 'c' AND t.oid IN (SELECT oid FROM used))
    SELECT u.relid, u.attnum, u.oid, txid_snapshot_xmax(txid_current_snapshot()),
           (SELECT catalog_xmin::text::bigint FROM pg_replication_slots WHERE slot_name = %s),
           {_VERSION.format("d")},
           p.xmin = d.xmin AND p.xmax::text = '0' AND p.cmin::text::bigint < d.cmin::text::bigint,
           {_VERSION.format("m")}, f.*
    FROM used u JOIN fact f ON f.oid = u.oid JOIN pg_type y ON y.oid = u.oid {WITH_MADE}
    JOIN pg_attribute p ON p.attrelid = u.relid AND p.attnum = u.attnum
    JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = u.relid AND d.objsubid = u.attnum
    AND d.refclassid = 'pg_type'::regclass AND d.refobjid = u.of_column"""


def with_used_types(connection: SqlConnection, query: str, first_oid: int = FIRST_USER_OID) -> str:
    """SQL: a query over ``used (relid, attnum, of_column, oid)``: each column of the relations that are the first
    parameter, with its type and, a row each, all types within it.

    Args:
        query: what comes after the table expression of ``used``: the SELECT, or a comma and further expressions.
        first_oid: types below it are left out.
    """
    ranges = "r.rngtypid, r.rngmultitypid" if connection.info.server_version >= 140000 else "r.rngtypid"
    return _USED.format(first_oid=first_oid, ranges=ranges) + query


def used_types(connection: SqlConnection, relation_ids: Iterable[int], slot: str) -> list[UsedType]:
    """By column and type.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    columns: dict[tuple[int, int, int], tuple[RowVersion, int]] = {}
    facts: dict[tuple[int, int, int], set[RowVersion]] = {}
    query = with_used_types(connection, _ROWS)
    for relation_id, attnum, type_oid, xmax, horizon, *versions in rows_of(
        connection, query, (list(relation_ids), slot)
    ):
        column, is_added, made = versions[:3], versions[3], versions[4:7]
        fact, kept_with = versions[8:11], versions[11:]
        key = relation_id, attnum, type_oid
        came = replace(_version(xmax, *column), is_first=is_added)
        columns[key] = came, _version(xmax, horizon or 0, 0, False).xid
        found = [_version(xmax, *each) for each in (fact, kept_with) if each[0] is not None]
        first = None if made[0] is None else _version(xmax, *made)
        oldest = min(found, key=lambda each: (each.xid, each.command))
        facts.setdefault(key, set()).add(replace(oldest, is_first=first is not None and _is_with(oldest, first)))
    return [UsedType(key[0], key[2], column, tuple(facts[key]), below) for key, (column, below) in columns.items()]


def _is_with(fact: RowVersion, made: RowVersion) -> bool:
    """Whether a row is of the command that made its type."""
    # A stamp takes the place of the command: DROP TYPE that was broken off may have left one on either.
    return not fact.is_stamped and not made.is_stamped and fact.xid == made.xid and fact.command <= made.command


def _version(xmax: int, xid: int, command: int, is_stamped: bool) -> RowVersion:
    """Those that were written long ago keep their xid, or have one that is none."""
    wide = widen(xid, xmax) if xid >= FIRST_NORMAL_XID else 0
    return RowVersion(wide if wide < xmax else 0, command, is_stamped)
