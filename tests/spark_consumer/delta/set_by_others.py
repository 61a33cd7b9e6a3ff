"""What another program sets on a table: one commit with another protocol, and with properties."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

Features = tuple[Sequence[str], Sequence[str], Mapping[str, str]]
"""For readers and writers, for writers alone, and properties."""

UNWRITABLE: dict[str, Features] = {
    "delta.columnMapping.mode": (
        ["columnMapping"],
        [],
        {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"},
    ),
    "domainMetadata, rowTracking": ([], ["rowTracking", "domainMetadata"], {}),
    "clustering, domainMetadata": ([], ["clustering", "domainMetadata"], {}),
    "identityColumns": ([], ["identityColumns"], {}),
    "allowColumnDefaults": ([], ["allowColumnDefaults"], {}),
    "inCommitTimestamp": ([], ["inCommitTimestamp"], {}),
    "typeWidening": (["typeWidening"], [], {}),
    "ofTomorrow": ([], ["ofTomorrow"], {}),
    "delta.appendOnly": ([], ["appendOnly"], {"delta.appendOnly": "true"}),
}
UNREADABLE: Features = (["ofTomorrow"], [], {})
WRITABLE: dict[str, Features] = {
    "appendOnly": ([], ["appendOnly"], {"delta.appendOnly": "false"}),
    "changeDataFeed": ([], ["changeDataFeed"], {"delta.enableChangeDataFeed": "true"}),
    "checkConstraints": ([], ["checkConstraints"], {"delta.constraints.some": "id > 0"}),
    "columnMapping": (["columnMapping"], [], {"delta.columnMapping.mode": "none"}),
    "deletionVectors": (["deletionVectors"], [], {"delta.enableDeletionVectors": "true"}),
    "generatedColumns": ([], ["generatedColumns"], {}),
    "invariants": ([], ["invariants"], {}),
    "timestampNtz": (["timestampNtz"], [], {}),
    "v2Checkpoint": (["v2Checkpoint"], [], {}),
    "variantType": (["variantType"], [], {}),
}


def set_features(folder: Path, features: Features) -> None:
    """As the next commit of the table."""
    readers, writers, properties = features
    log = folder / "_delta_log"
    commits = sorted(log.glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    metadata = [action["metaData"] for action in actions if "metaData" in action][-1]
    metadata["configuration"] |= properties
    if properties.get("delta.columnMapping.mode") == "name":
        metadata["schemaString"] = json.dumps(_mapped(json.loads(metadata["schemaString"]), [0]))
    protocol: dict[str, Any] = {"minReaderVersion": 3 if readers else 1, "minWriterVersion": 7}
    protocol |= {"readerFeatures": readers} if readers else {}
    said = {"timestamp": 1, "operation": "SET TBLPROPERTIES"}
    lines = [
        {"commitInfo": said},
        {"protocol": protocol | {"writerFeatures": [*readers, *writers]}},
        {"metaData": metadata},
    ]
    newest = int(commits[-1].stem) + 1
    (log / f"{newest:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _mapped(schema: Any, last: list[int]) -> Any:
    """With a number and a physical name for each column."""
    if isinstance(schema, dict):
        schema = {name: _mapped(value, last) for name, value in schema.items()}
        if "nullable" in schema:
            last[0] += 1
            named = {"delta.columnMapping.id": last[0], "delta.columnMapping.physicalName": schema["name"]}
            schema["metadata"] |= named
    return [_mapped(each, last) for each in schema] if isinstance(schema, list) else schema


def constrain(folder: Path, condition: str) -> None:
    """A constraint that the rows which are there need not meet."""
    set_features(folder, ([], ["checkConstraints"], {"delta.constraints.strict": condition}))
    assert DeltaTable(folder).metadata().configuration["delta.constraints.strict"] == condition
