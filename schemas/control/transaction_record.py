"""The records of ``<p>.transaction``: where a transaction of the source begins and ends, in Debezium's words. Pure.

In: a transaction, and how many events of each table Kafka holds of it. Out: key and value, JSON as Debezium's JSON
converter writes it without schemas, whatever the format of the topics of tables: of no table, so no registry is asked
for it and no record of the metadata topic tells how to read it.
Source: Debezium documentation, "Transaction metadata" of the connector for PostgreSQL.
"""

import json
from collections.abc import Iterable
from typing import Any

BEGIN, END = "BEGIN", "END"


def transaction_id(xid: int, commit_lsn: int) -> str:
    """As events call it in ``transaction.id``."""
    return f"{xid}:{commit_lsn}"


def encode_begin(an_id: str, commit_time_us: int) -> tuple[bytes, bytes]:
    """Key and value of the record at the begin. ``commit_time_us``: since 1970; a replay tells the same."""
    return _record(BEGIN, an_id, commit_time_us, None, None)


def encode_end(an_id: str, commit_time_us: int, counts: Iterable[tuple[str, int]]) -> tuple[bytes, bytes]:
    """Key and value of the record at the end. ``counts``: each table (``schema.table``), in the order of their first
    events, with the number of its events."""
    counted = list(counts)
    collections = [{"data_collection": name, "event_count": count} for name, count in counted]
    return _record(END, an_id, commit_time_us, sum(count for _, count in counted), collections)


def _record(
    status: str, an_id: str, commit_time_us: int, event_count: int | None, collections: list[dict[str, Any]] | None
) -> tuple[bytes, bytes]:
    value = {
        "status": status,
        "id": an_id,
        "ts_ms": commit_time_us // 1000,
        "event_count": event_count,
        "data_collections": collections,
    }
    return _json({"id": an_id}), _json(value)


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
