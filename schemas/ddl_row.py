"""DDL rows: what our event triggers write about each DDL command (``walbridge/ddl_trigger.py``), read back.

In: the text of such a row. Out: what the command did, at this position of the stream: the row was written in the
command's own transaction and savepoint. Pure.

DDL rows only add to the looks at the catalogue, which find the same later. So a row that this code cannot read, as one
of newer code, is left out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DDL_SCHEMA, DDL_TABLE = "walbridge", "ddl_commands"
"""The table of the rows. It is one for all pipelines of a database, and has neither topic nor lake table."""
DDL_PUBLICATION = "walbridge_ddl"
"""Publishes that table's inserts. A producer that finds it asks for it beside its own."""
NOT_DDL_TABLE = f"(n.nspname, c.relname) <> ('{DDL_SCHEMA}', '{DDL_TABLE}')"
"""SQL: relation ``c`` of schema ``n`` is another one."""
ID_COLUMN, DDL_COLUMN = "id", "told"
FORMAT = 1
REWRITE, DROP, END, PARTITIONS, COLUMNS = "table_rewrite", "sql_drop", "ddl_command_end", "partitions", "columns"
TOLD_COLUMNS = f"{DDL_SCHEMA}.told_columns"
"""The function that reads rows about columns back, also before the stream brings them."""
END_TRIGGER = "walbridge_ddl_end"
TOLD_BY = f"""(
               SELECT left(md5(concat_ws(' ', e.oid, e.xmin, p.oid, p.xmin, r.oid)), 16) FROM (SELECT) one
               LEFT JOIN pg_catalog.pg_event_trigger e ON e.evtname = '{END_TRIGGER}' AND e.evtenabled = 'A'
               LEFT JOIN pg_catalog.pg_publication p ON p.pubname = '{DDL_PUBLICATION}' AND p.pubinsert
               LEFT JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = (
                 SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 WHERE n.nspname = '{DDL_SCHEMA}' AND c.relname = '{DDL_TABLE}'))"""
"""SQL: what tells one time in which the trigger and the publication tell columns from another one. Whoever disables,
alters or makes one of them again writes its row anew."""
_TYPES_ONLY, _ACCESS_METHOD_ONLY = 4, 8
"""``AT_REWRITE_COLUMN_REWRITE``, ``AT_REWRITE_ACCESS_METHOD`` and no other bit of ``event_trigger.h``. For the latter
rows are written anew as they are."""
Types = frozenset[tuple[int, int, int]]
"""For each column: attribute number, type oid, type modifier."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A partition that came to a parent. ``is_empty``: none of its files has a page."""

    relation_id: int
    is_empty: bool


@dataclass(frozen=True, slots=True)
class ToldColumn:
    """A column as a DDL row tells it. ``missing_value``: what rows from before the column have in it, as text;
    ``is_value_told``: not so where they have a value that is too large for the row."""

    attnum: int
    name: str
    type_oid: int
    typmod: int
    missing_value: str | None = None
    is_value_told: bool = True


@dataclass(frozen=True, slots=True)
class ToldColumns:
    """The columns of a table at the end of a command.

    ``count``: of all that the table ever had. ``by``: the time of trigger and publication. ``fresh``: numbers of
    columns that this transaction wrote, of dropped ones as well. ``may_have_grown``: it wrote the table's own row, as
    who adds a column does. ``columns``: None where they are too many for a row. ``is_untold``: a command of this
    transaction before was not told.
    """

    count: int
    by: str
    columns: tuple[ToldColumn, ...] | None = None
    fresh: frozenset[int] = frozenset()
    may_have_grown: bool = False
    is_untold: bool = False


@dataclass(frozen=True, slots=True)
class DdlRow:
    """What one DDL row says.

    ``relation_id``: the table of the command. ``tables``: that table and its ancestors. ``file``: the table's file node
    before a rewrite, or at the end of a command. ``keeps_values``: the rewrite cannot change a row. ``is_plain``: the
    command only casts columns, as Postgres does without USING. ``types``: the columns' types after the command, where
    the row has them. ``made_casts``: casts that somebody created to types, or element types, of these columns, each as
    source and target; None where the row does not say. ``gone``: relations that were dropped or detached. ``told``: of
    a row about columns.
    """

    event: str
    relation_id: int = 0
    tables: frozenset[int] = frozenset()
    file: int = 0
    keeps_values: bool = False
    attached: tuple[Attached, ...] = ()
    gone: frozenset[int] = frozenset()
    is_plain: bool = False
    types: Types = frozenset()
    made_casts: frozenset[tuple[int, int]] | None = None
    told: ToldColumns | None = None


def is_ddl_table(namespace: str, name: str) -> bool:
    """Whether a relation of this name holds the rows."""
    return (namespace, name) == (DDL_SCHEMA, DDL_TABLE)


def parse_ddl_row(text: str) -> DdlRow | None:
    """Parse the text of a DDL row; None where this code cannot read it."""
    try:
        row = json.loads(text)
        return _parsed(row) if isinstance(row, dict) and row.get("v") == FORMAT else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _parsed(row: Mapping[str, Any]) -> DdlRow | None:
    event = row["event"]
    if event == DROP:
        return DdlRow(DROP, gone=_ids(row["relations"]))
    if event not in (REWRITE, END, PARTITIONS, COLUMNS):
        return None
    relation_id = int(row["relation"])
    if event == COLUMNS:
        return DdlRow(COLUMNS, relation_id, told=_told_columns(row))
    if event == END:
        return DdlRow(END, relation_id, file=int(row["file"]), types=_types(row))
    tables = _ids(row["ancestors"]) | {relation_id}
    if event == REWRITE:
        reason = int(row["reason"])
        is_plain = reason == _TYPES_ONLY and row.get("is_plain") is True
        keeps = reason == _ACCESS_METHOD_ONLY
        made = _casts(row["made_casts"]) if "made_casts" in row else None
        file, types = int(row["file"]), _types(row)
        return DdlRow(REWRITE, relation_id, tables, file, keeps, is_plain=is_plain, types=types, made_casts=made)
    attached = tuple(Attached(int(each["relation"]), each["is_empty"] is True) for each in row["attached"])
    return DdlRow(PARTITIONS, relation_id, tables, attached=attached, gone=_ids(row["detached"]))


def _told_columns(row: Mapping[str, Any]) -> ToldColumns:
    columns = tuple(_column(*each) for each in row["columns"]) if row.get("columns") is not None else None
    fresh, may_have_grown = _ids(row.get("fresh") or ()), row["may_have_grown"] is True
    return ToldColumns(int(row["count"]), str(row["by"]), columns, fresh, may_have_grown, row["is_untold"] is not False)


def _column(attnum: Any, name: Any, type_oid: Any, typmod: Any, *value: Any) -> ToldColumn:
    missing = value[0] if value else None
    if not isinstance(name, str) or not isinstance(missing, str | None):
        raise TypeError("not a column")
    return ToldColumn(int(attnum), name, int(type_oid), int(typmod), missing, not value or missing is not None)


def _ids(found: Any) -> frozenset[int]:
    return frozenset(int(each) for each in found)


def _casts(found: Any) -> frozenset[tuple[int, int]]:
    return frozenset((int(source), int(target)) for source, target in found)


def _types(row: Mapping[str, Any]) -> Types:
    """Earlier code of the trigger did not tell them."""
    return frozenset((int(number), int(of), int(typmod)) for number, of, typmod in row.get("types", ()))
