"""A lake made by hand with delta-rs, in the layout that the Spark job writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import LAKE_STRUCT, lake_column_names, table_path
from walbridge.spark_consumer.delta.manifest.manifest_schema import SCHEMA

_STRUCT = pa.struct(
    [
        ("commit_lsn", pa.int64()),
        ("ordinal", pa.int64()),
        ("commit_time", pa.timestamp("us", "UTC")),
        ("op", pa.string()),
        ("exceptional", pa.map_(pa.string(), pa.string())),
        ("key_text", pa.string()),
    ]
)
Rows = Sequence[Mapping[str, Any]]


class HandmadeLake:
    """Tables by Postgres name; ``publish`` appends a cut that names their newest versions."""

    def __init__(self, path: Path, pipeline: str = Settings().name) -> None:
        self.path = path
        self.pipeline = pipeline
        self._tables: dict[tuple[str, str], str] = {}
        self._sequence = 0

    def write(
        self,
        table: str | tuple[str, str],
        types: Mapping[str, pa.DataType],
        rows: Rows,
        exceptional: Sequence[Mapping[str, str]] = (),
        positions: Sequence[tuple[int, int]] = (),
        pg_names: Mapping[str, str] | None = None,
        ops: Sequence[str] = (),
        commit_times: Sequence[datetime] = (),
    ) -> None:
        """Replace a table. ``exceptional`` and ``positions`` by row; a copied row is at (1, -1).
        ``ops`` and ``commit_times`` likewise. ``pg_names``: what columns say in their metadata, where it is not their
        own name."""
        names = lake_column_names(list(types))
        fields = [
            pa.field(lake, kind, metadata={"pg.name": (pg_names or {}).get(name, name)})
            for lake, (name, kind) in zip(names, types.items(), strict=True)
        ]
        arrays = [pa.array([row.get(name) for row in rows], kind) for name, kind in types.items()]
        own = []
        for index in range(len(rows)):
            commit_lsn, ordinal = positions[index] if positions else (1, -1)
            texts = dict(exceptional[index]) if exceptional else {}
            mine: dict[str, Any] = {
                "commit_lsn": commit_lsn,
                "ordinal": ordinal,
                "exceptional": list(texts.items()) or None,
            }
            mine |= {"op": ops[index] if ops else "r", "commit_time": commit_times[index] if commit_times else None}
            own.append(mine)
        fields.append(pa.field(LAKE_STRUCT, _STRUCT))
        content = pa.table([*arrays, pa.array(own, _STRUCT)], schema=pa.schema(fields))
        namespace, name = table if isinstance(table, tuple) else table.split(".")
        self._tables[namespace, name] = table_path(namespace, name)
        write_deltalake(self.path / self._tables[namespace, name], content, mode="overwrite", schema_mode="overwrite")

    def publish(self, end_lsn: int, state: str = "current", kind: str = "published") -> None:
        """Append a row to ``_cuts``."""
        self._sequence += 1
        entries = []
        for (namespace, name), path in self._tables.items():
            version = DeltaTable(self.path / path).version()
            entry = {"relation_id": 1, "namespace": namespace, "name": name, "path": path, "version": version}
            entries.append(entry | {"topic": f"p.{path}", "schema_id": "0" * 16, "state": state, "since": end_lsn})
        row = {
            "sequence": self._sequence,
            "kind": kind,
            "pipeline": self.pipeline,
            "epoch": "1-1-s-0/1",
            **dict.fromkeys(("from_cut", "to_cut", "next_offset"), self._sequence),
            "end_lsn": end_lsn,
            "written_at": datetime.now(UTC),
            "tables": entries,
        }
        write_deltalake(self.path / "_cuts", pa.Table.from_pylist([row], schema=SCHEMA), mode="append")
