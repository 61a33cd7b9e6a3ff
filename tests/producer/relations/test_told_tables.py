"""Numbers of columns are taken from what was told at the place that the stream has reached, and from nothing later."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.producer.relations.announcements import INT4, announcement, catalogue, recorded
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.told_rows import LaterRows
from walbridge.producer.relations import told_tables
from walbridge.producer.relations.columns.told_columns import NumberedColumns, ToldPlace, ToldRow
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.producer.relations.told_tables import ToldTables
from walbridge.schemas.ddl_row import COLUMNS, ToldColumn, ToldColumns, parse_ddl_row

TABLE = 16_384
FIRST = recorded((announcement("d", "a", "b"), catalogue(("a", 1), ("b", 2), last=2)))[0]
NOW = catalogue(("b", 2), ("a", 3), last=3)
BOTH = announcement("d", "a", "b")


def text(count: int, *columns: tuple[int, str], fresh: tuple[int, ...], by: str = "by") -> str:
    row: dict[str, Any] = {"v": 1, "event": COLUMNS, "relation": TABLE, "count": count, "by": by, "is_untold": False}
    row |= {"may_have_grown": True}
    return json.dumps(row | {"columns": [[number, name, INT4, -1] for number, name in columns], "fresh": [*fresh]})


def told(of: str) -> ToldColumns:
    row = parse_ddl_row(of)
    assert row is not None
    assert row.told is not None
    return row.told


DROPPED = text(2, (2, "b"), fresh=(1,))
AGAIN = text(3, (2, "b"), (3, "a"), fresh=(1, 3))


class Source:
    """What the source has; ``place``: what progress remembers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: ToldPlace | None, *, by: str = "by") -> None:
        self.place, self.asked = place, 0
        self.answer: LaterRows | None = LaterRows([(8, DROPPED), (9, AGAIN)], 3, by)
        monkeypatch.setattr(told_tables, "later_rows", self._later)
        self.tables = ToldTables(RelationCache("p", [FIRST]))
        self.tables.begin(cast(SqlConnection, None), lambda _: self.place)
        monkeypatch.setattr(self.tables, "_connection", object())

    def _later(self, connection: SqlConnection, relation_id: int, row_id: int) -> LaterRows | None:
        self.asked += 1
        if self.answer is None:
            return None
        return replace(self.answer, rows=[each for each in self.answer.rows if each[0] >= row_id])

    def take(self, row_id: int, of: str) -> None:
        self.place = self.tables.take(TABLE, ToldRow(row_id, told(of))) or self.place


RECORDED = ToldPlace(7, 2, "by", FIRST.schema_id)


def test_equal_relation_has_the_numbers_of_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column is dropped and made again: before its row it is the first one, behind it the other one."""
    source = Source(monkeypatch, RECORDED)
    before = source.tables.of(BOTH, NOW)
    source.take(8, DROPPED)
    between = source.tables.of(BOTH, NOW)
    source.take(9, AGAIN)
    behind = source.tables.of(announcement("d", "b", "a"), NOW)

    assert before == NumberedColumns((1, 2), {1: None, 2: None})
    assert between is None
    assert behind == NumberedColumns((2, 3), {2: None, 3: None})


def test_row_that_progress_remembers_is_not_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch, ToldPlace(9, 3, "by"))
    assert source.tables.take(TABLE, ToldRow(8, told(DROPPED))) is None
    assert source.tables.of(announcement("d", "b", "a"), NOW) == NumberedColumns((2, 3), {2: None, 3: None})


def test_source_is_not_asked_where_the_catalogue_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch, RECORDED)
    unaltered = catalogue(("a", 1), ("b", 2), last=2)
    assert source.tables.of(BOTH, unaltered) == NumberedColumns((1, 2))
    assert source.asked == 0


@pytest.mark.parametrize("why", ["no place", "another trigger", "rows are gone", "no rows", "unnumbered"])
def test_nothing_is_taken_from_rows_that_do_not_account_for_all(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """I8."""
    source = Source(monkeypatch, None if why == "no place" else RECORDED, by="x" if why == "another trigger" else "by")
    if why == "rows are gone":
        source.answer = LaterRows([], 3, "by")
    elif why == "no rows":
        source.answer = None
    elif why == "unnumbered":
        columns = tuple(replace(each, attnum=None) for each in FIRST.table.columns)
        source.tables = ToldTables(RelationCache("p", [replace(FIRST, table=replace(FIRST.table, columns=columns))]))
        source.tables.begin(cast(SqlConnection, object()), lambda _: source.place)
    assert source.tables.of(BOTH, NOW) is None


def test_relation_with_fewer_columns_than_the_recorded_ones_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What such a place says is that the recorded columns were there all the time."""
    source = Source(monkeypatch, RECORDED)
    assert source.tables.of(announcement("d", "b"), NOW) is None


def test_value_that_went_with_a_rewrite_is_the_one_that_the_stream_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch, RECORDED)
    added = told(AGAIN)
    assert added.columns is not None
    valued = replace(added, columns=(added.columns[0], ToldColumn(3, "a", INT4, -1, "7")))
    source.place = source.tables.take(TABLE, ToldRow(9, valued))
    source.answer = LaterRows([(9, AGAIN), (10, AGAIN)], 3, "by")
    source.place = source.tables.take(TABLE, ToldRow(10, added))
    assert source.tables.of(announcement("d", "b", "a"), NOW) == NumberedColumns((2, 3), {2: None, 3: "7"})


def test_session_without_such_rows_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch, RECORDED)
    source.tables.begin(cast(SqlConnection, object()), None)
    assert source.tables.of(BOTH, NOW) is None
    assert not source.tables.tells_all(TABLE)
