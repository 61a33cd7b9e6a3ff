"""A commit that marks rows of a table's one file as deleted, as Spark makes them, without Spark.

The vector stands in the log itself. Its form: Delta's protocol, "Deletion Vector Format", and the portable form of a
Roaring bitmap with one array container.
"""

import json
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377
_PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors", "appendOnly", "invariants"],
}


def mark(folder: Path, rows: Sequence[int], *, hours_ago: float = 0, user_metadata: str | None = None) -> int:
    """Mark these rows of the file, by place, in two commits: one says that there may be marks. Returns the version."""
    table = DeltaTable(str(folder))
    log = folder / "_delta_log"
    actions = [json.loads(line) for path in sorted(log.glob("*.json")) for line in path.read_text().splitlines()]
    metadata = next(each for each in reversed(actions) if "metaData" in each)
    metadata["metaData"]["configuration"]["delta.enableDeletionVectors"] = "true"
    add = next(each["add"] for each in reversed(actions) if "add" in each)
    at = int((time.time() - hours_ago * 3600) * 1000)
    remove = {name: add[name] for name in ("path", "partitionValues", "size")}
    remove |= {"deletionTimestamp": at, "dataChange": True, "extendedFileMetadata": True}
    _commit(log, table.version() + 1, "SET TBLPROPERTIES", None, [{"protocol": _PROTOCOL}, metadata])
    marked = add | {"deletionVector": _vector(rows)}
    _commit(log, table.version() + 2, "MERGE", user_metadata, [{"remove": remove}, {"add": marked}])
    return table.version() + 2


def _commit(log: Path, version: int, operation: str, said: str | None, actions: Sequence[Any]) -> None:
    info = {"timestamp": int(time.time() * 1000), "operation": operation, "operationParameters": {}}
    info |= {"userMetadata": said} if said is not None else {}
    lines = [{"commitInfo": info}, *actions]
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, lines)))


def _vector(rows: Sequence[int]) -> dict[str, Any]:
    container = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    vector = struct.pack("<IQI", _MAGIC, 1, 0) + container
    padded = vector + bytes(-len(vector) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": _z85(padded),
        "sizeInBytes": len(vector),
        "cardinality": len(rows),
    }


def _z85(data: bytes) -> str:
    text = []
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        text.append("".join(_Z85[number // 85**place % 85] for place in range(4, -1, -1)))
    return "".join(text)
