"""Rows of one table with labels of one enum, as a session meets them, without a server."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.producer.kept import CONNECTION
from tests.producer.streaming_progress import STREAMING
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.encoding.label_texts import LabelTexts, Use
from walbridge.producer.guards.doubts import new_labels
from walbridge.producer.guards.doubts.label_dates import LabelDates
from walbridge.producer.guards.doubts.new_labels import NewLabels
from walbridge.producer.guards.doubts.rewrites import as_text, from_text
from walbridge.producer.postgres.facts import TableFile, TableStorage
from walbridge.producer.postgres.storage.enum_labels import EnumLabel
from walbridge.producer.relations.session_writers import SessionWriters
from walbridge.schemas.control.table_progress import CURRENT, TableProgress
from walbridge.schemas.pg_types import TypeFacts, column_type
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import Column, TableSchema

TABLE, ENUM = 16_400, 600_001
TYPES = {ENUM: TypeFacts(ENUM, "public", "mood", "e")}
SAD, OLD = f"{ENUM}-sad", f"{ENUM}-by5"
BEFORE = TableStorage((TableFile(TABLE, TABLE, 0, 2),), frozenset({SAD, OLD}))
NOW = replace(BEFORE, labels=BEFORE.labels | {f"{ENUM}-late", f"{ENUM}-by100"})
LOOK = Lsn(500)
LATER = Use(900, Lsn(400))
"""Of a transaction that began behind the one that wrote the newest label, and before the look."""
OLD_BELOW = 50


def label(name: str, xid: int, *, is_first: bool) -> EnumLabel:
    return EnumLabel(xid, 1000, f"{ENUM}-{name}", f"{ENUM}-by{xid}", is_first, is_old=xid < OLD_BELOW)


class Session(NewLabels):
    """Rows of one table; ``names``: what the catalogue says of its enum."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, storage: TableStorage = BEFORE) -> None:
        table = TableProgress(TABLE, CURRENT, storage=as_text(storage))
        self.tracker = ProgressTracker(replace(STREAMING, tables={TABLE: table}))
        self.texts = LabelTexts(TYPES.get)
        writers = cast(SessionWriters, SimpleNamespace(label_texts=self.texts))
        super().__init__(CONNECTION, self.tracker, writers, LabelDates(), "slot", lambda: LOOK)
        self.names: dict[str, int] = {"sad": 5}
        self.wrote_before: set[str] = set()
        """Labels whose writers had written something else before."""
        self.asked = 0

        def enum_labels(*_: object) -> dict[int, dict[bytes, EnumLabel]]:
            self.asked += 1
            if not self.names:
                return {}
            return {ENUM: {each.encode(): self.labelled(each, xid) for each, xid in self.names.items()}}

        monkeypatch.setattr(new_labels, "enum_labels", enum_labels)
        column = Column("e", ENUM, "mood", -1, column_type(ENUM, -1, TYPES))
        columns = self.texts.columns_of(TableSchema(TABLE, "public", "t", "d", (column,)))
        assert columns is not None
        assert columns[0] is not None
        self.find = columns[0].find

    def bring(self, text: str, use: Use | None = LATER) -> bool:
        """Whether a row with this label is explained."""
        self.texts.use = lambda: use
        if use is not None:
            self.texts.begin_transaction(use.first_lsn)
        self.find(text.encode())
        return not self.look_up()

    def labelled(self, name: str, xid: int) -> EnumLabel:
        return label(name, xid, is_first=name not in self.wrote_before)

    def see(self, now: TableStorage, doubted: Set[int] = frozenset()) -> set[int]:
        return self.compare({TABLE: self.known}, {TABLE: now}, doubted)

    def become(self, storage: TableStorage) -> None:
        table = self.tracker.progress.tables[TABLE]
        self.tracker.remember_tables({TABLE: replace(table, storage=as_text(storage))})

    @property
    def known(self) -> TableStorage:
        return from_text(self.tracker.progress.tables[TABLE].storage or "")
