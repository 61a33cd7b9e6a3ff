"""What servers of each major version sent: payloads, and what the decoder made of them.

In: ``tests/data/pgoutput/<major>/<transcript>.jsonl``, one message a line in the order they were
sent: its bytes, and beside them its fields in words. Out: both. ``record.py`` makes them.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.producer.pgoutput.stream_decoder import StreamDecoder
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Binary, Field, Message, Unsent
from walbridge.schemas.position import format_lsn

FOLDER = Path(__file__).parents[2] / "data" / "pgoutput"

Described = dict[str, Any]


def paths() -> list[Path]:
    """Every transcript, by version."""
    return sorted(FOLDER.glob("*/*.jsonl"))


def load(path: Path) -> list[tuple[bytes, Described]]:
    """The payloads of a transcript, and their golden description."""
    lines = map(json.loads, path.read_text().splitlines())
    return [(bytes.fromhex(line["payload"]), line["message"]) for line in lines]


def store(path: Path, payloads: Iterable[bytes]) -> None:
    """Write a transcript with what the decoder makes of it now."""
    payloads = list(payloads)
    lines = zip(payloads, described(payloads), strict=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(_line(payload, message) for payload, message in lines))


def _line(payload: bytes, message: Described) -> str:
    return json.dumps({"message": message, "payload": payload.hex()}, ensure_ascii=False) + "\n"


def described(payloads: Iterable[bytes]) -> list[Described]:
    """Each message of a session as plain JSON: its kind, its xid in a streamed block, its fields."""
    decoder = StreamDecoder()
    return [_described(*decoder.decode(payload)) for payload in payloads]


def _described(xid: int | None, message: Message) -> Described:
    in_block = {} if xid is None else {"block_xid": xid}
    values = {name: _value(name, value) for name, value in asdict(message).items()}
    # As it is when read from a file.
    found: Described = json.loads(json.dumps({"kind": type(message).__name__} | in_block | values))
    return found


def _value(name: str, value: Any) -> Any:
    if name in ("new", "key", "old") and value is not None:
        return [_field(field) for field in decode_tuple(value)]
    if name.endswith("_lsn") and value is not None:
        return format_lsn(value)
    return value.hex() if isinstance(value, bytes) else value


def _field(field: Field) -> Any:
    if isinstance(field, Unsent):
        return None if field is Unsent.NULL else {"unsent": field.value}
    return {"binary": field.data.hex()} if isinstance(field, Binary) else field.decode()


_MASKED = {
    "xid": "xid", "subxid": "xid", "block_xid": "xid",
    "relation_id": "oid", "relation_ids": "oid", "type_oid": "oid",
    # The start of one record may or may not be the end of that before: only what means the same is compared.
    "final_lsn": "commit", "commit_lsn": "commit", "prepare_lsn": "prepare", "end_lsn": "end", "prepare_end_lsn": "end",
    "rollback_end_lsn": "rollback", "abort_lsn": "abort", "message_lsn": "message", "origin_lsn": "origin",
}  # fmt: skip
_OWN_OIDS_FROM = 16384


def masked(messages: Iterable[Described]) -> list[Described]:
    """The same without what differs from run to run: an LSN, xid or oid becomes the order of its
    first appearance, so that equal ones stay equal; a time becomes a word."""
    seen: dict[str, dict[Any, str]] = {kind: {} for kind in _MASKED.values()}

    def mask(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [mask(name, each) for each in value]
        if isinstance(value, dict):
            return {key: mask(key, each) for key, each in value.items()}
        if name.endswith("_us") and value is not None:
            return "a time"
        kind = _MASKED.get(name)
        if kind is None or value in (None, "0/0") or (kind == "oid" and value < _OWN_OIDS_FROM):
            return value
        return seen[kind].setdefault(value, f"{kind} {len(seen[kind]) + 1}")

    return [mask("", message) for message in messages]
