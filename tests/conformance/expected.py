"""The conformance set's own form of events, transactions and tables: JSON in which every value is Postgres' text.

In: decoded events, groups of cuts, rows of the source. Out: what ``schemas/conformance`` holds beside the records.
``docs/kafka.md`` describes it for readers in other languages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tests.fix_postgres import Database
from walbridge.consumer.cut_groups import Group
from walbridge.consumer.event import Event, Row
from walbridge.schemas.position import format_lsn
from walbridge.schemas.table_schema import quoted

Texts = dict[str, str | None]
_SESSION = "-c datestyle=ISO -c timezone=UTC -c extra_float_digits=1 -c bytea_output=hex"


def event_line(event: Event) -> dict[str, Any]:
    """One line of ``events.jsonl``."""
    return {
        "topic": event.topic,
        "partition": event.partition,
        "offset": event.offset,
        "operation": str(event.operation),
        "table": event.table,
        "relation_id": event.relation.table.relation_id,
        "commit_lsn": format_lsn(event.position.commit_lsn),
        "ordinal": event.position.ordinal,
        "xid": event.xid,
        "key": texts(event.key),
        "before": texts(event.before),
        "is_before_whole": event.is_before_whole,
        "after": texts(event.after),
        "unchanged": list(event.unchanged),
        "exceptional": sorted(event.exceptional),
        "new_key": texts(event.new_key),
        "old_key": texts(event.old_key),
    }


def transaction_line(group: Group, there: Mapping[tuple[str, int, int], bool]) -> dict[str, Any]:
    """One line of ``transactions.jsonl``. ``there``: every record, and whether it is an event. Joined ranges have
    markers between them."""
    places = [
        (part.topic, part.partition, offset)
        for part in sorted(group.ranges.values(), key=lambda part: (part.topic, part.partition))
        for offset in range(part.start_offset, part.end_offset)
    ]
    found = [place for place in places if place in there]
    assert len(found) == group.records
    records = [list(place) for place in found if there[place]]
    return {"end_lsn": format_lsn(group.end_lsn), "records": records}


def texts(row: Row | None) -> Texts | None:
    """Values as Postgres prints them."""
    return None if row is None else {name: text_of(value) for name, value in row.items()}


def text_of(value: Any) -> str | None:
    """As Postgres prints it."""
    match value:
        case None:
            return None
        case bool():
            return "t" if value else "f"
        case Decimal():
            return f"{value:f}"
        case float():
            return repr(value).removesuffix(".0")
        case bytes():
            return "\\x" + value.hex()
        case datetime():
            text = f"{value.date().isoformat()} {value:%H:%M:%S}"
            text += f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
            return text + ("+00" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case list():
            return "{" + ",".join("NULL" if each is None else str(text_of(each)) for each in value) + "}"
    return str(value)


def tables(database: Database, names: Iterable[str]) -> dict[str, list[Texts]]:
    """What the source itself says: rows as it prints them, in the order of their JSON."""
    return {name: in_order(_rows(database, name)) for name in names}


def _rows(database: Database, name: str) -> list[Texts]:
    with database.connect(options=_SESSION, client_encoding="UTF8") as connection:
        # The text format of the wire: psycopg's own readers would be another thing to trust.
        result = connection.pgconn.exec_(f"SELECT * FROM {'.'.join(map(quoted, name.split('.')))}".encode())
        assert result.error_message == b"", result.error_message
        columns = [(result.fname(at) or b"").decode() for at in range(result.nfields)]
        return [
            {
                column: None if (value := result.get_value(row, at)) is None else value.decode()
                for at, column in enumerate(columns)
            }
            for row in range(result.ntuples)
        ]


def in_order(rows: Iterable[Mapping[str, str | None]]) -> list[Texts]:
    """Rows of a table have no order of their own."""
    return sorted(map(dict, rows), key=lambda row: json.dumps(row, sort_keys=True, ensure_ascii=False))
