"""What a server sends of publications that are followed together, and what a copy of their tables takes.

In: a connection, a slot, names of publications, tables as the producer finds them. Out: rows by key, as text. Every
table has the key ``(id, a)``. No code of the producer takes part but its decoder and its SQL of filters and columns.
"""

from __future__ import annotations

from typing import Any

from walbridge.producer.pgoutput.decoder import decode_message, decode_tuple
from walbridge.producer.pgoutput.messages import Delete, Insert, Relation, Truncate, Update
from walbridge.producer.postgres.connection import SqlConnection as Connection
from walbridge.producer.postgres.facts import PublishedTable

Rows = dict[tuple[str, ...], tuple[Any, ...]]
Sent = tuple[Relation, Insert | Update | Delete | Truncate]


def sends_rows(table: PublishedTable) -> bool:
    """Whether anything publishes more of it than truncates."""
    return any({*member.operations} - {"truncate"} for member in table.memberships)


def selected(connection: Connection, table: PublishedTable, where: str | None = None) -> Rows:
    """The rows that a copy takes."""
    columns = ", ".join(f"{name}::text" for name in table.column_names)
    where = where or table.row_filter or "true"
    query = f"SELECT id::text, a::text, {columns} FROM {table.quoted_name} WHERE {where}"
    return {row[:2]: row[2:] for row in connection.execute(query.encode()).fetchall()}


def sent(connection: Connection, slot: str, names: list[str]) -> dict[str, list[Sent]]:
    """Changes by table, as a client that asks for these publications gets them; they stay in the slot."""
    query = (
        "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', "
        "'publication_names', %s)"
    )
    relations: dict[int, Relation] = {}
    found: dict[str, list[Sent]] = {}
    for (data,) in connection.execute(query, (slot, ",".join(names))).fetchall():
        message = decode_message(data)
        if isinstance(message, Relation):
            relations[message.relation_id] = message
        elif isinstance(message, Truncate):
            for each in message.relation_ids:
                found.setdefault(_name(relations[each]), []).append((relations[each], message))
        elif isinstance(message, Insert | Update | Delete):
            relation = relations[message.relation_id]
            found.setdefault(_name(relation), []).append((relation, message))
    return found


def replayed(changes: list[Sent]) -> Rows:
    """The rows that they leave, by key."""
    rows: Rows = {}
    for relation, change in changes:
        if isinstance(change, Truncate):
            rows.clear()
        else:
            _apply(rows, relation, change)
    return rows


def _apply(rows: Rows, relation: Relation, change: Insert | Update | Delete) -> None:
    def key(data: bytes) -> tuple[str, ...]:
        fields = dict(zip([column.name for column in relation.columns], _texts(data), strict=True))
        return str(fields["id"]), str(fields["a"])

    if isinstance(change, Insert):
        assert key(change.new) not in rows, "a change came twice"
        rows[key(change.new)] = _texts(change.new)
        return
    old = change.key or change.old or (change.new if isinstance(change, Update) else b"")
    assert rows.pop(key(old), None) is not None, "a change of a row that was not sent"
    if isinstance(change, Update):
        rows[key(change.new)] = _texts(change.new)


def _texts(data: bytes) -> tuple[str | None, ...]:
    return tuple(field.decode() if isinstance(field, bytes) else None for field in decode_tuple(data))


def _name(relation: Relation) -> str:
    return f"{relation.namespace}.{relation.name}"
