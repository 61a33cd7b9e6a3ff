"""Counts of rows in Postgres, in Kafka and in the lake, and the lag between them.

In: the demo's settings. Out: a ``Measure`` each time one is taken. Each number comes from where it
is known best: Postgres' statistics, the cuts as a read_committed reader sees them, and the tables
at the newest published cut.

The lag in seconds needs no clock but ours: the newest LSN that the source had reached when we
looked, and that is published now, was reached at most that long ago.
"""

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import psycopg
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from walbridge.producer.kafka.client_config import client_config
from walbridge.schemas.control.cut import decode_cut
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, data_topic
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_published, open_table
from walbridge.spark_consumer.plan.manifest_row import CutRow

CUTS_MAX = 500
"""At most so many cuts are read for one measure; the next one reads on."""
LOOKS_KEPT = 1000

_WRITTEN = """
SELECT schemaname || '.' || relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """One look. Counts by ``schema.table``: rows written, records in Kafka, rows in the lake."""

    at_s: float
    source_lsn: int
    published_lsn: int | None
    written: Mapping[str, int]
    records: Mapping[str, int]
    lake_rows: Mapping[str, int]
    lag_s: float | None

    @property
    def lag_bytes(self) -> int | None:
        """WAL that the lake does not hold yet; None before the first published cut."""
        return None if self.published_lsn is None else max(0, self.source_lsn - self.published_lsn)


class PipelineProbe:
    """Measures the pipeline. A context manager: it holds a connection and a consumer."""

    def __init__(self, settings: Settings, tables: Sequence[str]) -> None:
        self._settings = settings
        self._tables = tables
        self._connection: psycopg.Connection[Any] = psycopg.connect(
            settings.postgres.dsn.get_secret_value(), autocommit=True
        )
        config = {"group.id": "walbridge-demo-view", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._cuts = Consumer(client_config(settings) | config | {"log_level": 0, "error_cb": lambda error: None})
        self._cuts.assign([TopicPartition(cuts_topic(settings.name), 0, 0)])
        self._names = {self._topic(table): table for table in tables}
        self._records: Counter[str] = Counter()
        self._manifest: DeltaTable | None = None
        self._counted: dict[str, tuple[int, int]] = {}
        self._looks: deque[tuple[float, int]] = deque(maxlen=LOOKS_KEPT)

    def take(self) -> Measure:
        """Measure Postgres, Kafka and the lake now."""
        at_s, lsn = time.monotonic(), self.source_lsn()
        self._looks.append((at_s, lsn))
        self._read_cuts()
        published = self.published()
        end_lsn = published.end_lsn if published else None
        return Measure(
            at_s=at_s,
            source_lsn=lsn,
            published_lsn=end_lsn,
            written={name: count for name, count in self._connection.execute(_WRITTEN) if name in self._tables},
            records=dict(self._records),
            lake_rows=self._lake_rows(published) if published else {},
            lag_s=self._lag_s(end_lsn),
        )

    def source_lsn(self) -> int:
        """Where the source's WAL ends now."""
        row = self._connection.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchone()
        assert row is not None
        return int(row[0])

    def published(self) -> CutRow | None:
        """The newest published cut."""
        if self._manifest is None:
            self._manifest = open_table(self._settings.lake.path)
        else:
            self._manifest.update_incremental()
        return newest_published(self._manifest) if self._manifest else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cuts.close()
        self._connection.close()

    def _topic(self, table: str) -> str:
        namespace, _, name = table.partition(".")
        return data_topic(self._settings.name, namespace, name, self._settings.topics.names)

    def _read_cuts(self) -> None:
        for message in self._cuts.consume(CUTS_MAX, timeout=0.1):
            value = message.value()
            if message.error() is not None or value is None:
                continue
            for table in decode_cut(value).tables:
                self._records[self._names[table.topic]] += table.row_count

    def _lake_rows(self, published: CutRow) -> dict[str, int]:
        rows = {}
        for entry in published.tables:
            version, count = self._counted.get(entry.qualified_name, (-1, 0))
            if version != entry.version and entry.version is not None:
                table = DeltaTable(f"{self._settings.lake.path}/{entry.path}", version=entry.version)
                count = table.count()
                self._counted[entry.qualified_name] = entry.version, count
            rows[entry.qualified_name] = count
        return rows

    def _lag_s(self, end_lsn: int | None) -> float | None:
        while len(self._looks) > 1 and end_lsn is not None and self._looks[1][1] <= end_lsn:
            self._looks.popleft()
        seen_s, lsn = self._looks[0]
        return time.monotonic() - seen_s if end_lsn is not None and lsn <= end_lsn else None
