"""Large copies that have ended are written beside the plans: all other tables are published meanwhile (I8)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract_events import copied, copy_begin, copy_end
from tests.contract_writer import Event
from tests.faults import kill_points
from tests.in_soak import others_in_variants
from tests.spark_consumer.events import column, relation
from tests.spark_consumer.memory_pipeline import Beside, job_over
from tests.spark_consumer.two_tables import Run, begun, cut_rows, killed_at, rows_of, transfer
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.errors import OperatorError, TableError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer import between_plans
from walbridge.spark_consumer.apply.copies.copy_builds import CopyBuild
from walbridge.spark_consumer.plan.manifest_row import TableEntry

MORE = relation([column("id", "int4", is_key=True), column("n", "int4")], name="more", relation_id=3)
WIDER = relation(
    [column("id", "int4", is_key=True), column("n", "int4"), column("w", "int4")], name="more", relation_id=3
)


class Copied:
    """A pipeline in which a third table is copied; a copy of three records is large."""

    def __init__(self, lake: Path) -> None:
        self.lake, self.pipeline = lake, begun()
        self.pipeline.announce(MORE, WIDER)
        self.is_slow = True
        """Whether copies are done only where the job waits for them."""

    @contextmanager
    def job(self, deferred_from: int = 3, gets_on: Callable[[], bool] | None = None, **options: Any) -> Iterator[Run]:
        self.pipeline.beside = Beside(deferred_from, gets_on or (lambda: not self.is_slow))
        with job_over(self.pipeline, self.lake, **options) as run:
            yield run

    def copy_more(self, lsn: int = 0x3000, **values: int) -> None:
        """Rows 1 and 2, in three records before the last. ``values``: column n of other rows, as ``_1=10``."""
        marker, begin = copy_begin(MORE, lsn)
        found = values or {"_1": 10, "_2": 20}
        rows = copied(MORE, lsn, *({"id": int(key[1:]), "n": n} for key, n in found.items()))
        self.pipeline.send(marker, *rows, barriers=[begin], end_lsn=lsn)
        marker, end = copy_end(MORE, lsn + 8)
        self.pipeline.send(marker, barriers=[end], end_lsn=lsn + 8)

    def change(self, lsn: int, op: str = "u", **row: int) -> None:
        key = {"id": row["id"]}
        of = {"before": key, "before_image": "key"} if op == "d" else {"after": row}
        self.pipeline.send(Event(MORE, op, lsn, 0, **of), end_lsn=lsn + 8)

    def entries(self) -> list[TableEntry]:
        """Of the table, row by row of those that readers have had."""
        published = [row for row in cut_rows(self.lake) if row.kind == "published"]
        return [entry for row in published for entry in row.tables if entry.relation_id == 3]

    @property
    def newest(self) -> TableEntry:
        return self.entries()[-1]


@pytest.fixture
def beside(lake: Path) -> Copied:
    return Copied(lake)


def test_all_others_are_published_before_a_large_copy_is_in_the_lake(beside: Copied) -> None:
    """Its later changes are applied once it is."""
    beside.copy_more()
    transfer(beside.pipeline, 0x400)
    beside.change(0x6100, id=2, n=21)
    with beside.job(plan_rows_max=1) as run:
        run()

    states = [(entry.state, entry.version is None) for entry in beside.entries()]
    assert states[-1] == ("current", False)
    assert {*states[:-1]} == {("copying", True)}
    rows = cut_rows(beside.lake)
    assert (rows[-1].kind, rows[-1].end_lsn) == ("published", rows[-2].end_lsn), "the same state of the source"
    assert rows_of(beside.lake, beside.newest) == [10, 21]
    assert (beside.newest.path, beside.newest.copy_from) == ("public/more", None)


def test_a_small_copy_is_in_the_lake_with_the_plan_that_ends_it(beside: Copied) -> None:
    beside.copy_more()
    with beside.job(deferred_from=4) as run:
        run()

    assert (beside.newest.state, rows_of(beside.lake, beside.newest)) == ("current", [10, 20])
    assert cut_rows(beside.lake)[-2].kind == "plan"


@pytest.mark.parametrize("point", kill_points.WRITTEN_BESIDE)
def test_a_job_that_is_killed_around_a_copy_that_is_written_has_it_once(beside: Copied, point: str) -> None:
    """I5: what was written and not named is written again, over what is there."""
    beside.copy_more()
    with beside.job() as run:
        assert killed_at(point, run)
        beside.change(0x6100, id=1, n=11)
        beside.change(0x6200, "d", id=2)
        killed_at(point, run)
        run()

    assert rows_of(beside.lake, beside.newest) == [11]
    sequences = [row.sequence for row in cut_rows(beside.lake)]
    assert sequences == sorted({*sequences})


@pytest.mark.parametrize("passing", others_in_variants(range(3), [0]))
@pytest.mark.parametrize("point", ["apply:before-create", "apply:table-created", "apply:segment-applied"])
def test_a_copy_that_was_half_written_is_begun_again(beside: Copied, point: str, passing: int) -> None:
    beside.copy_more()
    with beside.job() as run:
        killed_at(point, run, passing=passing)
        beside.change(0x6100, id=1, n=11)
        run()

    assert rows_of(beside.lake, beside.newest) == [11, 20]


def test_what_was_written_is_void_once_the_table_was_emptied(beside: Copied) -> None:
    beside.copy_more()
    with beside.job() as run:
        assert killed_at("build:before-named", run)
        beside.pipeline.send(
            Event(MORE, "t", 0x6100, 0), Event(MORE, "c", 0x6100, 1, after={"id": 5, "n": 50}),
            barriers=[(MORE, Barrier("truncate", Position(Lsn(0x6100), 0)))], end_lsn=0x6200,
        )  # fmt: skip
        run()

    assert rows_of(beside.lake, beside.newest) == [50]


def test_a_table_that_is_emptied_while_its_copy_is_written_holds_what_came_since(beside: Copied) -> None:
    """The plan that empties it waits until nobody else writes to its folder."""
    with beside.job() as run:
        run()
        beside.copy_more()
        beside.pipeline.send(
            Event(MORE, "t", 0x6100, 0),
            barriers=[(MORE, Barrier("truncate", Position(Lsn(0x6100), 0)))],
            end_lsn=0x6200,
        )
        beside.change(0x6300, "c", id=6, n=60)
        run()

    assert rows_of(beside.lake, beside.newest) == [60]


def test_a_column_that_comes_while_a_copy_is_written_is_there(beside: Copied) -> None:
    beside.copy_more()
    with beside.job(plan_rows_max=1) as run:
        transfer(beside.pipeline, 0x400)
        shape = Barrier("shape", Position(Lsn(0x6100), 0), WIDER.schema_id)
        event = Event(WIDER, "c", 0x6100, 0, after={"id": 7, "n": 70, "w": 1})
        beside.pipeline.send(event, barriers=[(WIDER, shape)], end_lsn=0x6200)
        run()

    assert rows_of(beside.lake, beside.newest) == [10, 20, 70]
    assert beside.newest.schema_id == WIDER.schema_id


def test_a_table_that_leaves_before_its_copy_is_in_the_lake_leaves_nothing(beside: Copied) -> None:
    """I8: nothing stale survives, also where its copy was written."""
    beside.copy_more()
    with beside.job(plan_rows_max=1) as run:
        beside.is_slow = False
        beside.pipeline.send(barriers=[(MORE, Barrier("dropped", Position(Lsn(0x6100), 0)))], end_lsn=0x6200)
        beside.is_slow = True
        run()

    assert [entry.relation_id for entry in cut_rows(beside.lake)[-1].tables] == [1, 2]
    assert not (beside.lake / "public" / "more").exists()


def test_a_copy_that_begins_again_takes_the_place_of_the_one_that_is_written(beside: Copied) -> None:
    beside.copy_more()
    beside.copy_more(0x7000)
    beside.change(0x7100, id=1, n=11)
    with beside.job(plan_rows_max=1) as run:
        run()

    assert rows_of(beside.lake, beside.newest) == [11, 20]


def test_a_stale_table_is_read_as_it_was_until_its_copy_is_written(beside: Copied) -> None:
    """In its own folder: versions that rows name are not touched."""
    with beside.job() as run:
        beside.copy_more()
        run()
        before = beside.newest
        beside.pipeline.send(barriers=[(MORE, Barrier("dropped", Position(Lsn(0x3100), 0)))], end_lsn=0x3200)
        beside.copy_more(0x4000)
        beside.change(0x4100, id=1, n=12)
        assert killed_at("build:before-named", run)
        stale = beside.newest
        assert (stale.state, stale.version, rows_of(beside.lake, stale)) == ("stale", before.version, [10, 20])
        run()

    assert (beside.newest.path, rows_of(beside.lake, beside.newest)) == (before.path, [12, 20])


def test_a_copy_whose_records_are_gone_is_the_trouble_of_its_table(beside: Copied) -> None:
    beside.copy_more()
    with beside.job() as run:
        killed_at("build:written", run)
        beside.pipeline.lost[MORE.topic] = TableError("records are gone")
        transfer(beside.pipeline, 0x400)
        run()

    assert (beside.newest.state, beside.newest.why, beside.newest.copy_from) == ("stale", "records are gone", None)
    assert cut_rows(beside.lake)[-1].end_lsn == beside.pipeline.last.end_lsn


def test_the_trouble_of_a_copy_stops_the_job_where_the_settings_say_so(beside: Copied) -> None:
    beside.copy_more()
    beside.pipeline.lost[MORE.topic] = TableError("records are gone")
    with beside.job(on_table_error="stop") as run, pytest.raises(OperatorError, match="records are gone"):
        run()


def test_a_plan_that_an_earlier_version_opened_over_a_large_copy_is_carried_out(beside: Copied) -> None:
    """It left no copy to later."""
    beside.copy_more()
    with beside.job(deferred_from=100, plan_rows_max=100) as run:
        assert killed_at("apply:segment-applied", run, passing=2)
    opened = cut_rows(beside.lake)[-1]
    assert (opened.kind, len(opened.tables)) == ("plan", 3)
    with beside.job(plan_rows_max=100) as run:
        run()

    assert rows_of(beside.lake, beside.newest) == [10, 20]


def test_a_stop_waits_for_no_copy(beside: Copied) -> None:
    """The next start writes it."""
    beside.copy_more()
    stop = threading.Event()

    def asked_to_stop() -> bool:
        stop.set()
        return False

    with beside.job(gets_on=asked_to_stop) as run:
        run(stop=stop)
    assert beside.newest.state == "copying"
    with beside.job() as run:
        run()
    assert rows_of(beside.lake, beside.newest) == [10, 20]


def test_what_comes_while_a_copy_is_written_is_written_beside_the_plans_too_where_it_is_much(
    beside: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it is less, or the plans wait for it."""
    monkeypatch.setattr("walbridge.spark_consumer.between_plans.CATCH_UP_ROWS_MAX", 1)
    beside.copy_more()
    with beside.job(plan_rows_max=1) as run:
        beside.change(0x6100, id=1, n=11)
        beside.change(0x6200, id=2, n=22)
        run()

    assert rows_of(beside.lake, beside.newest) == [11, 22]


def test_a_copy_that_does_not_get_on_is_the_trouble_of_its_table(
    beside: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waits for it without an end; another copy mends it."""
    beside.copy_more()
    with beside.job() as run:
        with monkeypatch.context() as patch:
            patch.setattr(CopyBuild, "has_ended", lambda _build, _wait_s=0.0: False)
            patch.setattr(between_plans, "STUCK_S", -1.0)
            run()
        assert (beside.newest.state, beside.newest.copy_from) == ("stale", None)
        assert "did not get on" in str(beside.newest.why)

        beside.copy_more(0x7000)
        run()
    assert (beside.newest.state, rows_of(beside.lake, beside.newest)) == ("current", [10, 20])
