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
DDL_COLUMN = "told"
FORMAT = 1
REWRITE, DROP, END, PARTITIONS = "table_rewrite", "sql_drop", "ddl_command_end", "partitions"
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
class DdlRow:
    """What one DDL row says.

    ``relation_id``: the table of the command. ``tables``: that table and its ancestors. ``file``: the table's file node
    before a rewrite, or at the end of a command. ``keeps_values``: the rewrite cannot change a row. ``is_plain``: the
    command only casts columns, as Postgres does without USING. ``types``: the columns' types after the command, where
    the row has them. ``made_casts``: casts that somebody created to types, or element types, of these columns, each as
    source and target; None where the row does not say. ``gone``: relations that were dropped or detached.
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
    if event not in (REWRITE, END, PARTITIONS):
        return None
    relation_id = int(row["relation"])
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


def _ids(found: Any) -> frozenset[int]:
    return frozenset(int(each) for each in found)


def _casts(found: Any) -> frozenset[tuple[int, int]]:
    return frozenset((int(source), int(target)) for source, target in found)


def _types(row: Mapping[str, Any]) -> Types:
    """Earlier code of the trigger did not tell them."""
    return frozenset((int(number), int(of), int(typmod)) for number, of, typmod in row.get("types", ()))
