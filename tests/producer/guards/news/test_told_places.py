"""Up to where the stream has told a table's columns is remembered with the cut, and only where it is certain."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.producer.relations.announcements import announcement, catalogue, recorded
from tests.producer.streaming_progress import STREAMING
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.guards.doubts.rewrites import from_text
from walbridge.producer.guards.news import told_places
from walbridge.producer.guards.news.told_places import ToldPlaces
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableFacts
from walbridge.producer.postgres.told_rows import NewestRow
from walbridge.producer.relations.columns.told_columns import ToldPlace, ToldRow
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.producer.relations.tables import Tables
from walbridge.producer.relations.told_tables import ToldTables
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import DDL_OPTION
from walbridge.schemas.control.table_progress import CURRENT, STALE, TableProgress
from walbridge.schemas.ddl_row import ToldColumns

TABLE, PUBLICATION = 16_384, 5
BOTH = catalogue(("a", 1), ("b", 2), last=2)
FIRST = (announcement("d", "a", "b"), BOTH)
ROW = ToldRow(8, ToldColumns(3, "by", (), frozenset({3})))


class Places:
    """Of one table."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, versions: list[RelationRecord], now: TableFacts, newest: int = 7
    ) -> None:
        table = TableProgress(TABLE, CURRENT, storage="16384:1:0:2::")
        self.tracker = ProgressTracker(
            replace(STREAMING, tables={TABLE: table}, options={**STREAMING.options, DDL_OPTION: str(PUBLICATION)})
        )
        tables: Any = SimpleNamespace(
            told=ToldTables(RelationCache("p", versions)),
            writers=SimpleNamespace(current_version=lambda _: versions[-1]),
            versions=SimpleNamespace(versions_of=lambda _: versions),
        )
        self.newest, self.asked = newest, list[int]()
        """``asked``: from which row on, of each query."""

        def newest_rows(_: object, wanted: Collection[int], since: int) -> dict[int, NewestRow]:
            self.asked.append(since)
            return {each: NewestRow(self.newest, now.attnum_max, "by") for each in wanted}

        monkeypatch.setattr(told_places, "newest_rows", newest_rows)
        monkeypatch.setattr(told_places, "tables_facts", lambda *_: ({TABLE: now}, None))
        self.places = ToldPlaces(cast(SqlConnection, None), cast(Tables, tables), self.tracker)
        self.places.open(PUBLICATION)

    @property
    def remembered(self) -> str:
        return from_text(self.tracker.progress.tables[TABLE].storage or "").told

    def become(self, **changed: Any) -> None:
        self.tracker.remember_tables({TABLE: replace(self.tracker.progress.tables[TABLE], **changed)})


def test_row_of_the_stream_is_the_place_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Places(monkeypatch, recorded(FIRST), BOTH)
    of.places.take(TABLE, ROW)
    of.places.take(TABLE, replace(ROW, row_id=6))
    assert of.places.of(TABLE) == ToldPlace(8, 3, "by")
    assert ToldPlace.from_text(of.remembered) == ToldPlace(8, 3, "by")


def test_table_that_is_as_it_was_recorded_has_a_place_before_its_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = recorded(FIRST)
    of = Places(monkeypatch, versions, BOTH)
    of.places.look([TABLE])
    assert of.places.of(TABLE) == ToldPlace(7, 2, "by", versions[-1].schema_id)


@pytest.mark.parametrize(
    "now", [catalogue(("a", 1), ("b", 3), last=3), catalogue(("a", 1), last=2), catalogue(("b", 1), ("a", 2), last=2)]
)
def test_table_that_is_another_one_by_now_has_none(monkeypatch: pytest.MonkeyPatch, now: TableFacts) -> None:
    of = Places(monkeypatch, recorded(FIRST), now)
    of.places.look([TABLE])
    assert of.places.of(TABLE) is None


def test_table_with_two_versions_that_look_alike_has_none_before_its_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: the newest may have been written by a session that was killed, and the stream be before it."""
    gone = catalogue(("b", 2), last=2)
    again = catalogue(("b", 2), ("a", 3), last=3)
    before = (announcement("d", "b", "a"), catalogue(("b", 1), ("a", 2), last=2))
    versions = recorded(before, (announcement("d", "b"), gone), (announcement("d", "b", "a"), again))
    of = Places(monkeypatch, versions, again)
    of.places.look([TABLE])
    assert of.places.of(TABLE) is None


def test_version_takes_the_place_of_the_last_row_since_rows_are_kept_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = recorded(FIRST)
    of = Places(monkeypatch, versions, BOTH, newest=8)
    of.places.take(TABLE, replace(ROW, told=replace(ROW.told, count=2)))
    of.places.look([TABLE])
    assert of.places.of(TABLE) == ToldPlace(8, 2, "by", versions[-1].schema_id)


def test_row_stays_the_place_while_others_are_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Places(monkeypatch, recorded(FIRST), BOTH, newest=9)
    of.places.take(TABLE, replace(ROW, told=replace(ROW.told, count=2)))
    of.places.look([TABLE])
    assert of.places.of(TABLE) == ToldPlace(8, 2, "by")


def test_table_that_is_left_or_copied_has_none_and_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Places(monkeypatch, recorded(FIRST), BOTH)
    of.places.take(TABLE, ROW)
    of.become(state=STALE)
    of.places.take(TABLE, replace(ROW, row_id=9))
    of.places.look([TABLE])
    assert of.places.of(TABLE) is None
    of.become(state=CURRENT)
    assert of.places.of(TABLE) == ToldPlace(8, 3, "by")


def test_source_without_such_rows_is_not_asked_again_before_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    of, asked = Places(monkeypatch, recorded(FIRST), BOTH), list[object]()
    monkeypatch.setattr(told_places, "newest_rows", lambda *wanted: asked.append(wanted))
    of.places.look([TABLE])
    of.places.look([TABLE])
    assert len(asked) == 1
    of.places.take(TABLE, ROW)
    of.places.look([TABLE])
    assert len(asked) == 2


def test_table_that_is_not_certain_is_asked_for_again_only_once_the_stream_brought_more_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A day's rows of a large migration would be read at each look."""
    of = Places(monkeypatch, recorded(FIRST), catalogue(("b", 2), last=2), newest=9)
    for _ in range(3):
        of.places.look([TABLE])
    assert len(of.asked) == 1
    of.places.take(TABLE, ROW)
    for _ in range(3):
        of.places.look([TABLE])
    assert len(of.asked) == 2


def test_rows_before_the_newest_one_that_is_known_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Places(monkeypatch, recorded(FIRST), catalogue(("b", 2), last=2), newest=9)
    of.places.look([TABLE])
    of.places.take(TABLE, ROW)
    of.places.look([TABLE])
    assert of.asked == [0, 9]


def test_session_asks_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Places(monkeypatch, recorded(FIRST), catalogue(("b", 1), last=2))
    of.places.look([TABLE])
    of.places.open(PUBLICATION)
    of.places.look([TABLE])
    assert of.asked == [0, 0]


@pytest.mark.parametrize("publication", [None, PUBLICATION + 1])
def test_session_that_other_rows_may_have_gone_past_forgets_all_places(
    monkeypatch: pytest.MonkeyPatch, publication: int | None
) -> None:
    of = Places(monkeypatch, recorded(FIRST), BOTH)
    of.places.take(TABLE, ROW)
    of.places.open(PUBLICATION)
    assert of.remembered
    of.places.open(publication)
    assert not of.remembered
