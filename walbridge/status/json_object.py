"""What ``walbridge status --json`` prints: one object, whose fields ``docs/json.md`` has.

In: a status. Out: an object. LSNs are as Postgres prints them, moments in ISO 8601; null stands for what is not known.
"""

from dataclasses import asdict
from typing import Any

from walbridge.producer.postgres.slots.slot_row import Source
from walbridge.schemas.position import format_lsn
from walbridge.status.pipeline_status import Lag, Lake, PipelineStatus, Published, Silent, TableState, held_bytes
from walbridge.status.words import words_json


def as_json(status: PipelineStatus) -> dict[str, Any]:
    """The object."""
    return {
        "pipeline": status.pipeline,
        "at": status.at.isoformat(),
        "server": _answered(status.source, _server_json),
        "slot": _slot_json(status.slot_name, status.source) | _prepared_json(status.source),
        "producer": _answered(status.published, _producer_json),
        "kafka": _answered(status.published, _kafka_json),
        "lake": _answered(status.lake, _lake_json),
        "programs": {
            "producer": _answered(status.producer, words_json),
            "job": _answered(status.job, words_json),
            "verify": _answered(status.verifier, words_json),
        },
        "lag": {
            "kafka": _lag_json(status.kafka_lag),
            "lake": _lag_json(status.lake_lag),
            "lake_behind_kafka_bytes": status.lake_behind_kafka_bytes,
            "lake_holds_all_changes": status.lake_holds_all_changes,
        },
    }


def _answered(peer: Any, shown: Any) -> dict[str, Any]:
    if isinstance(peer, Silent):
        return {"reachable": False, "reason": peer.reason}
    return {"reachable": True, **shown(peer)}


def _server_json(source: Source) -> dict[str, Any]:
    return {"version": source.version, "wal_lsn": format_lsn(source.wal_lsn)}


def _slot_json(name: str, source: Source | Silent) -> dict[str, Any]:
    slot = None if isinstance(source, Silent) else source.slot
    exists = None if isinstance(source, Silent) else slot is not None
    if slot is None:
        return {"name": name, "exists": exists}
    return {
        "name": name,
        "exists": exists,
        "active": slot.active_pid is not None,
        "active_pid": slot.active_pid,
        "wal_status": slot.wal_status,
        "retained_bytes": slot.retained_bytes,
        "safe_wal_size_bytes": slot.safe_wal_size_bytes,
        "confirmed_flush_lsn": None if slot.confirmed_flush_lsn is None else format_lsn(slot.confirmed_flush_lsn),
    }


def _prepared_json(source: Source | Silent) -> dict[str, Any]:
    slot = None if isinstance(source, Silent) else source.slot
    if slot is None or isinstance(source, Silent):
        return {}
    prepared = slot.prepared
    if prepared is None:
        return {"prepared": None}
    shown = {"count": prepared.count, "oldest_gid": prepared.oldest_gid, "oldest_s": round(prepared.oldest_s, 3)}
    return {"prepared": shown | {"held_bytes": held_bytes(slot, source.wal_lsn)}}


def _kafka_json(published: Published) -> dict[str, Any]:
    cut = published.cut
    if cut is None:
        return {"cut": None}
    shown = {"id": cut.cut_id, "lsn": format_lsn(cut.end_lsn), "complete": cut.complete}
    return {"cut": shown | {"reached_at": cut.reached_at.isoformat()}}


def _producer_json(published: Published) -> dict[str, Any]:
    left_out = [
        {
            "table": left.table,
            "state": left.state,
            "since_lsn": left.since_lsn and format_lsn(left.since_lsn),
            "why": left.why,
        }
        for left in published.left_out
    ]
    return {"state": published.state, "left_out": left_out, "copying": [asdict(copy) for copy in published.copying]}


def _lake_json(lake: Lake) -> dict[str, Any]:
    cut = lake.cut
    shown = cut and {
        "id": cut.cut_id,
        "sequence": cut.sequence,
        "lsn": format_lsn(cut.end_lsn),
        "commit_time": cut.commit_time.isoformat() if cut.commit_time else None,
        "written_at": cut.written_at.isoformat(),
    }
    tables = [_table_json(table) for table in lake.tables]
    return {"exists": lake.exists, "pipeline": lake.pipeline, "cut": shown, "tables": tables}


def _table_json(table: TableState) -> dict[str, Any]:
    since = None if table.since_lsn is None else format_lsn(table.since_lsn)
    return {"table": table.table, "state": table.state, "since_lsn": since, "why": table.why}


def _lag_json(lag: Lag) -> dict[str, Any]:
    return {"bytes": lag.wal_bytes, "s": None if lag.seconds is None else round(lag.seconds, 3)}
