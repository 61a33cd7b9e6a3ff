"""What ``walbridge status`` prints: rows of heading and text for people, one object for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from walbridge.producer.postgres.slots.slot_row import Slot, Source
from walbridge.quantities import bytes_text, moment_text, seconds_text
from walbridge.schemas.control.run_record import LastWords
from walbridge.schemas.errors import copy_command
from walbridge.schemas.position import format_lsn
from walbridge.status.standing import Lag, Lake, Published, Silent, Standing, TableState
from walbridge.status.words import BUG, FAILED, UNSAID, word_lines, words_json
from walbridge.tables.standing import copied_text, share_text

TABLES_SHOWN_MAX = 30

ALARMING = (
    *("wal_status lost", "wal_status unreserved", "unreachable:", "does not exist", "belongs to pipeline"),
    *(UNSAID, FAILED, BUG),
)
"""What makes a row red on a terminal, but of a table, whose name is anybody's."""
_OF_TABLES = ("tables", "")


def rows(standing: Standing) -> list[tuple[str, str]]:
    """Heading and text of each row."""
    return [
        ("pipeline", f"{standing.pipeline}, {moment_text(standing.at)}"),
        ("server", _server(standing.source)),
        ("slot", _slot(standing)),
        *(("", line) for line in prepared_lines(standing.source)),
        ("producer", _producer(standing)),
        *(("", line) for line in _words(standing.producer, standing)),
        ("in Kafka", _in_kafka(standing)),
        ("in the lake", _in_lake(standing)),
        *(("job" if index == 0 else "", line) for index, line in enumerate(_words(standing.job, standing))),
        *(("verify" if index == 0 else "", line) for index, line in enumerate(_words(standing.verifier, standing))),
        *(("not in Kafka" if index == 0 else "", line) for index, line in enumerate(_left_out(standing.published))),
        *(("copied now" if index == 0 else "", line) for index, line in enumerate(_copying(standing.published))),
        *(("tables" if index == 0 else "", line) for index, line in enumerate(_tables(standing))),
    ]


def as_text(standing: Standing) -> str:
    """Lines for a file, a pipe or a terminal without colour."""
    return "\n".join(f"{heading:<13}{text}" for heading, text in rows(standing))


def as_table(standing: Standing) -> Table:
    """The same for a terminal."""
    table = Table.grid(padding=(0, 2))
    for heading, text in rows(standing):
        alarming = heading not in _OF_TABLES and any(words in text for words in ALARMING)
        table.add_row(Text(heading, style="bold"), Text(text, style="red" if alarming else ""))
    return table


def as_json(standing: Standing) -> dict[str, Any]:
    """One object. LSNs as Postgres prints them, moments in ISO 8601; null where it is not known."""
    return {
        "pipeline": standing.pipeline,
        "at": standing.at.isoformat(),
        "server": _answered(standing.source, _server_json),
        "slot": _slot_json(standing.slot_name, standing.source) | _prepared_json(standing.source),
        "producer": _answered(standing.published, _producer_json),
        "kafka": _answered(standing.published, _kafka_json),
        "lake": _answered(standing.lake, _lake_json),
        "programs": {
            "producer": _answered(standing.producer, words_json),
            "job": _answered(standing.job, words_json),
            "verify": _answered(standing.verifier, words_json),
        },
        "lag": {
            "kafka": _lag_json(standing.kafka_lag),
            "lake": _lag_json(standing.lake_lag),
            "lake_behind_kafka_bytes": standing.lake_behind_kafka_bytes,
            "lake_holds_all_changes": standing.lake_holds_all_changes,
        },
    }


def _server(source: Source | Silent) -> str:
    if isinstance(source, Silent):
        return f"unreachable: {source.reason}"
    return f"Postgres {source.version}, WAL up to {format_lsn(source.wal_lsn)}"


def _slot(standing: Standing) -> str:
    if isinstance(standing.source, Silent):
        return f"{standing.slot_name}: not known"
    slot = standing.source.slot
    if slot is None:
        return f"{standing.slot_name} does not exist"
    use = f"in use (pid {slot.active_pid})" if slot.active_pid else "nobody reads it"
    held = f"holds {bytes_text(slot.retained_bytes)} of WAL" if slot.retained_bytes is not None else "holds no WAL"
    return f"{standing.slot_name}: {use}, {held}, {room_text(slot)}"


def room_text(slot: Slot) -> str:
    """How much more WAL the slot may hold."""
    status = slot.wal_status or "unknown"
    if slot.safe_wal_size_bytes is not None:
        return f"wal_status {status}, lost after {bytes_text(max(0, slot.safe_wal_size_bytes))} more"
    return f"wal_status {status}" + ("" if status == "lost" else ", no limit but the disk")


def prepared_lines(source: Source | Silent) -> Iterator[str]:
    """The prepared transactions that the slot waits for, where there are any."""
    if isinstance(source, Silent) or source.slot is None or source.slot.prepared is None:
        return
    prepared = source.slot.prepared
    held = bytes_text(_held_bytes(source.slot, source.wal_lsn))
    gid = prepared.oldest_gid.replace("'", "''")
    yield (
        f"prepared and not ended: {prepared.count}, the oldest '{gid}' for {seconds_text(prepared.oldest_s)}; "
        f"{held} of WAL are read again at each start, until COMMIT PREPARED or ROLLBACK PREPARED"
    )


def _held_bytes(slot: Slot, wal_lsn: int) -> int:
    return max(0, wal_lsn - (slot.confirmed_flush_lsn or wal_lsn))


def _producer(standing: Standing) -> str:
    if isinstance(standing.published, Silent):
        return "not known"
    state = standing.published.state
    if state is None:
        return "never started"
    if isinstance(standing.source, Silent):
        return state
    running = standing.source.slot is not None and standing.source.slot.active_pid is not None
    # A copy reads through sessions of its own; the slot is in use only while it is made and streamed.
    return state if running or state != "streaming" else f"{state}, but not running now"


def _words(words: LastWords | Silent, standing: Standing) -> Iterator[str]:
    if not isinstance(words, Silent):  # the row of its peer says why nothing is known
        yield from word_lines(words, standing.at)


def _in_kafka(standing: Standing) -> str:
    if isinstance(standing.published, Silent):
        return f"unreachable: {standing.published.reason}"
    cut = standing.published.cut
    if cut is None:
        return "no cut yet"
    whole = "" if cut.complete else " (inside a copy or a large transaction)"
    return f"cut {cut.cut_id} at {format_lsn(cut.end_lsn)}{whole}{_behind(standing.kafka_lag)}"


def _in_lake(standing: Standing) -> str:
    if isinstance(standing.lake, Silent):
        return f"unreachable: {standing.lake.reason}" if standing.lake.away else standing.lake.reason
    if standing.lake_is_foreign:
        return f"{standing.lake_path} belongs to pipeline {standing.lake.pipeline}, this one is {standing.pipeline}"
    if not standing.lake.exists:
        return f"nothing at {standing.lake_path} yet: walbridge materialize fills it"
    cut = standing.lake.cut
    if cut is None:
        return "nothing is published yet: the first copy is not complete"
    when = f", committed {moment_text(cut.commit_time)}" if cut.commit_time else ""
    behind = standing.lake_behind_kafka_bytes
    unchanged = ", in which no table changed" if standing.lake_holds_all_changes else ""
    of_kafka = f", {bytes_text(behind)} behind Kafka{unchanged}" if behind else ""
    if standing.lake_is_of_lost_epoch:
        of_kafka = ", of an epoch that is over: walbridge materialize goes on with the next one"
    return f"cut {cut.cut_id} at {format_lsn(cut.end_lsn)}{when}{_behind(standing.lake_lag)}{of_kafka}"


def _behind(lag: Lag) -> str:
    if lag.wal_bytes is None or lag.seconds is None:
        return ""
    if not lag.wal_bytes:
        return ", which is all that the server has"
    return f": {bytes_text(lag.wal_bytes)} and at most {seconds_text(lag.seconds)} behind the server"


def _tables(standing: Standing) -> Iterator[str]:
    lake = standing.lake
    if isinstance(lake, Silent) or standing.lake_is_foreign:
        return
    current = [table for table in lake.tables if table.state == "current"]
    others = [table for table in lake.tables if table.state != "current"]
    yield from _named(others)
    if len(current) <= TABLES_SHOWN_MAX:
        yield from _named(current)
    else:
        yield f"{len(current)} tables are current"


def _left_out(published: Published | Silent) -> Iterator[str]:
    if isinstance(published, Silent):
        return
    for left in published.left_out:
        since = "" if left.since_lsn is None else f" since {format_lsn(left.since_lsn)}"
        yield f"{left.table}  {left.state}{since}: {left.why}"


def _copying(published: Published | Silent) -> Iterator[str]:
    for copy in () if isinstance(published, Silent) else published.copying:
        yield f"{copy.table}  copying{share_text(copy.share)}, {copied_text(copy.rows, copy.bytes)}"


def _named(tables: Sequence[TableState]) -> Iterator[str]:
    width = max((len(table.table) for table in tables), default=0)
    for table in tables:
        since = f" since {format_lsn(table.since_lsn)}" if table.since_lsn is not None else ""
        why = f": {table.why} ({copy_command(table.table)})" if table.why is not None else ""
        yield f"{table.table:<{width}}  {table.state}{since}{why}"


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
    return {"prepared": shown | {"held_bytes": _held_bytes(slot, source.wal_lsn)}}


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
