"""What an operator or the lake asks of one table, or of all: a record beside the progress of its slot.

``walbridge copy`` and ``walbridge forget`` write it to ``<p>.progress``; the producer reads on from where its
progress says that it has read, and says so in the Kafka transaction that tells what came of it. So a request
holds once it is acknowledged, whether a producer runs or not, and is taken once. The newest of a table and kind
remains in the topic, as compaction leaves it, and means nothing any more. One that names keys, and one that tells of a
doubt, is of a format, and has a Kafka key, that earlier code passes over. The lake's wish for a copy is told from an
operator's by its Kafka key alone: earlier code takes both alike.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from walbridge.schemas.avro.codec import decode_control, encode_control
from walbridge.schemas.avro.framing import is_control_record
from walbridge.schemas.control.progress_record import OWN_OPTIONS, Progress, progress_key
from walbridge.schemas.control.table_progress import table_key
from walbridge.schemas.errors import ProtocolError

FORMAT_VERSION, KEYS_FORMAT_VERSION, DOUBT_FORMAT_VERSION = 1, 2, 3
KEYS_BYTES_MAX = 2**18
"""Of all keys of a table whose rows are to be read again: they are in its progress."""
COPY, FORGET, DOUBT = "copy", "forget", "doubt"
"""Kinds. ``doubt``: the lake's table was found to differ from its source."""
ALL_TABLES = 0
"""In the place of a relation id, which no table has: a copy of every table; a doubt, since the lake cannot go on, asks
for it in a new epoch. Earlier code finds no such table."""
READ_OPTION = OWN_OPTIONS + "requests_read"
"""Requests below this offset of the progress topic are taken. Earlier code knows none."""
TO_COPY_OPTION = OWN_OPTIONS + "to_copy"
"""Relation ids of tables whose copy was asked for, and has not begun."""
BEGINS_OPTION = OWN_OPTIONS + "begins_again"
"""In a progress ``creating``: an epoch begins whose tables are copied beside the stream; why. Earlier code makes the
first copy of them instead."""

_BY_LAKE = b"/lake"
"""Ends the Kafka key of what the lake asks for."""
_FORMATS = {
    "TableRequest": FORMAT_VERSION,
    "TableRequest2": KEYS_FORMAT_VERSION,
    "TableRequest3": DOUBT_FORMAT_VERSION,
}
"""By record, the newest."""


@dataclass(frozen=True, slots=True)
class TableRequest:
    """One request. ``keys``: those whose rows alone are to be read again, as ``key_json`` writes them. ``by_lake``:
    the job asks, and no person: it does so each time that it cannot write the table on."""

    kind: str
    relation_id: int
    written_at_us: int = 0
    format_version: int = FORMAT_VERSION
    keys: tuple[bytes, ...] = ()
    by_lake: bool = False

    @classmethod
    def of_keys(cls, relation_id: int, keys: Iterable[bytes], written_at_us: int = 0) -> "TableRequest":
        """Rows of one table to be read again."""
        return cls(COPY, relation_id, written_at_us, KEYS_FORMAT_VERSION, tuple(keys))

    @classmethod
    def of_doubt(cls, relation_id: int, written_at_us: int = 0) -> "TableRequest":
        """A table whose rows in the lake are not those of its source."""
        return cls(DOUBT, relation_id, written_at_us, DOUBT_FORMAT_VERSION)


def key_json(values: Mapping[str, str]) -> bytes:
    """A row's key as one value: the text of each column by its name. Equal keys have equal bytes."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def key_values(key: bytes) -> dict[str, str]:
    """The inverse of ``key_json``."""
    values: dict[str, str] = json.loads(key)
    return values


def request_key(slot: str, request: TableRequest) -> bytes:
    """The Kafka key: a later request of the same kind and asker for the same table takes its place, or one of the same
    keys."""
    key = table_key(slot, request.relation_id) + b"/" + request.kind.encode()
    if request.kind == DOUBT:
        key += b"//"  # as many parts as no earlier code looks at
    if request.keys:
        key += b"/" + hashlib.blake2b(b"\n".join(request.keys), digest_size=16).hexdigest().encode()
    return key + _BY_LAKE if request.by_lake else key


def encode_request(request: TableRequest) -> bytes:
    """The Kafka value."""
    record = asdict(request) | {"keys": list(request.keys)}
    del record["by_lake"]
    if request.format_version < KEYS_FORMAT_VERSION:
        del record["keys"]
        return encode_control("TableRequest", record)
    if request.kind == DOUBT:
        del record["keys"]
        return encode_control("TableRequest3", record)
    return encode_control("TableRequest2", record)


def request_of(slot: str, key: bytes, value: bytes | None) -> TableRequest | None:
    """The request that a record of the progress topic is; None where it is another record, or another slot's.

    Raises:
        ProtocolError: one of newer code.
    """
    if key.count(b"/") not in (2, 3, 4) or not key.startswith(progress_key(slot) + b"/"):
        return None
    if value is None or not is_control_record(value):
        return None
    return replace(decode_request(value), by_lake=key.endswith(_BY_LAKE))


def decode_request(value: bytes) -> TableRequest:
    """Decode the Kafka value.

    Raises:
        ProtocolError: not a request, or one of newer code.
    """
    name, record = decode_control(value, tuple(_FORMATS))
    if record["format_version"] > _FORMATS[name]:
        raise ProtocolError(f"request format {record['format_version']} is newer than {_FORMATS[name]}")
    if name != "TableRequest" and record["format_version"] != _FORMATS[name]:
        raise ProtocolError(f"request format {record['format_version']} in a record of another one")
    return TableRequest(**(record | {"keys": tuple(record.get("keys", ()))}))


def read_until(progress: Progress) -> int | None:
    """Up to which offset requests are taken; None where earlier code wrote the progress."""
    found = progress.options.get(READ_OPTION)
    return None if found is None else int(found)


def to_copy(progress: Progress) -> frozenset[int]:
    """Tables whose copy was asked for, and has not begun."""
    return frozenset(map(int, progress.options.get(TO_COPY_OPTION, "").split()))


def to_copy_option(relation_ids: Iterable[int]) -> dict[str, str]:
    """What progress carries of it."""
    return {TO_COPY_OPTION: " ".join(map(str, sorted(relation_ids)))}
