"""DDL that the source tells as rows: what they are in Postgres, and what each says.

In: the text of a row, which an event trigger of ours wrote (``walbridge/ddl_trigger.py``). Out: what a DDL command did,
as of its place in the stream: the row is of the command's own transaction, and of its savepoint. Pure.

A row is an addition: what none tells is found by looks at the catalogue, as without the trigger. So a row that cannot
be read is left out, and one of newer code, too.
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
"""Of columns: number, type, its modifier."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A partition that came to a parent. ``is_empty``: none of its files has a page."""

    relation_id: int
    is_empty: bool


@dataclass(frozen=True, slots=True)
class ToldDdl:
    """One row.

    ``relation_id``: what the command was of. ``tables``: with its parents, all the way up. ``file``: where the table
    lies, before a rewrite or at the end of a command. ``keeps_values``: a rewrite that cannot change a row.
    ``is_plain``: it does nothing but cast columns to other types as Postgres does by itself. ``types``: of its columns
    behind the command, where that is told. ``made_casts``: from one type to another, which Postgres does not bring
    along, to types that columns have then, or their elements; None where that is not told. ``gone``: relations that
    were dropped or detached.
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


def parse_told(text: str) -> ToldDdl | None:
    """What a row says; None where this code does not read it."""
    try:
        row = json.loads(text)
        return _parsed(row) if isinstance(row, dict) and row.get("v") == FORMAT else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _parsed(row: Mapping[str, Any]) -> ToldDdl | None:
    event = row["event"]
    if event == DROP:
        return ToldDdl(DROP, gone=_ids(row["relations"]))
    if event not in (REWRITE, END, PARTITIONS):
        return None
    relation_id = int(row["relation"])
    if event == END:
        return ToldDdl(END, relation_id, file=int(row["file"]), types=_types(row))
    tables = _ids(row["ancestors"]) | {relation_id}
    if event == REWRITE:
        reason = int(row["reason"])
        is_plain = reason == _TYPES_ONLY and row.get("is_plain") is True
        keeps = reason == _ACCESS_METHOD_ONLY
        made = _casts(row["made_casts"]) if "made_casts" in row else None
        file, types = int(row["file"]), _types(row)
        return ToldDdl(REWRITE, relation_id, tables, file, keeps, is_plain=is_plain, types=types, made_casts=made)
    attached = tuple(Attached(int(each["relation"]), each["is_empty"] is True) for each in row["attached"])
    return ToldDdl(PARTITIONS, relation_id, tables, attached=attached, gone=_ids(row["detached"]))


def _ids(found: Any) -> frozenset[int]:
    return frozenset(int(each) for each in found)


def _casts(found: Any) -> frozenset[tuple[int, int]]:
    return frozenset((int(source), int(target)) for source, target in found)


def _types(row: Mapping[str, Any]) -> Types:
    """Earlier code of the trigger did not tell them."""
    return frozenset((int(number), int(of), int(typmod)) for number, of, typmod in row.get("types", ()))
