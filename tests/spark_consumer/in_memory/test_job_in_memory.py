"""The job over topics in memory: whatever it was stopped by, each row is in the lake once.

The same is asked with Kafka and Spark, at fewer points, in ``test_program.py`` and
``test_job_refusals.py``; here in milliseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.contract_events import copy_barriers
from tests.contract_writer import Event
from tests.spark_consumer.events import EPOCH, PIPELINE
from tests.spark_consumer.memory_pipeline import CUTS, MemoryPipeline, job_over
from tests.spark_consumer.two_tables import (
    ACCOUNTS,
    HISTORY,
    Run,
    begun,
    cut_rows,
    killed_at,
    published_history,
    shown,
    transfer,
)
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer import plan_runner
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.kafka.control import cuts_source
from walbridge.spark_consumer.kafka.control.cuts_source import CutsFrom, CutsSource

POINTS = {
    "job:before-plan": 1,
    "job:plan-open": 1,
    "apply:before-create": 1,
    "apply:table-created": 1,
    "apply:table-reshaped": 2,
    "apply:segment-applied": 4,
    "job:table-applied": 2,
    "job:before-publish": 1,
    "job:published": 1,
}
"""How often each is passed before the plan of changes, or the second table of the copy."""
SEEN = {"apply:before-create": [], "apply:table-created": [], "job:published": [0, 1, 2, 3]}
"""The history that readers see after such a death; after any other that of the first plan."""


@pytest.mark.parametrize("point", POINTS)
def test_a_job_killed_at_any_step_applies_every_row_once(
    pipeline: MemoryPipeline, run: Run, lake: Path, point: str
) -> None:
    """I5, I8: the first plan is the copy and a change, the second one changes; readers see each whole or not at all."""
    for n in (1, 2, 3):
        transfer(pipeline, n)

    assert killed_at(point, run, passing=POINTS[point])
    assert published_history(lake) == SEEN.get(point, [0, 1])
    run()

    assert shown(lake) == {"accounts": [3], "history": [0, 1, 2, 3]}
    sequences = [row.sequence for row in cut_rows(lake)]
    assert sequences == sorted(set(sequences))
    assert [row.kind for row in cut_rows(lake)].count("plan") == [row.kind for row in cut_rows(lake)].count("published")


def test_a_job_killed_again_and_again_applies_every_row_once(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    """I5: also while it finishes an open plan."""
    for n in (1, 2):
        transfer(pipeline, n)
    for point in POINTS:
        killed_at(point, run)
    run()

    assert shown(lake) == {"accounts": [2], "history": [0, 1, 2]}


def test_a_stream_that_begins_anew_brings_nothing_twice(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    """I5: a lost checkpoint changes nothing."""
    transfer(pipeline, 1)
    run(follows=True)
    before = cut_rows(lake)
    run(follows=True)

    assert cut_rows(lake) == before
    assert shown(lake) == {"accounts": [1], "history": [0, 1]}


def stopping_at(point: str, stop: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal comes the first time the job is at that point."""
    monkeypatch.setattr(plan_runner, "kill_point", lambda reached: stop.set() if reached == point else None)


def test_a_job_stopped_while_it_catches_up_ends_after_its_plan_and_the_next_one_goes_on(
    pipeline: MemoryPipeline, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: the cuts that it leaves out are no gap before those of the next read."""
    monkeypatch.setattr(cuts_source, "OFFSETS_PER_READ", 6)
    for n in range(1, 6):
        transfer(pipeline, n)
    stop = threading.Event()
    stopping_at("job:published", stop, monkeypatch)
    run(stop=stop)

    published = [row.to_cut for row in cut_rows(lake) if row.kind == "published"]
    run()

    assert published == [2]
    assert shown(lake) == {"accounts": [5], "history": [0, 1, 2, 3, 4, 5]}


def test_cuts_that_came_while_the_stream_started_are_read_a_bounded_number_at_a_time(
    pipeline: MemoryPipeline, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9; and a stop between two of them is no gap to the trigger after it."""
    monkeypatch.setattr(cuts_source, "OFFSETS_PER_READ", 2)
    stop = threading.Event()
    follow = pipeline.follow

    def late(source: CutsSource, act: Callable[[CutsFrom], None]) -> None:
        for n in range(1, 4):
            transfer(pipeline, n)
        stopping_at("job:published", stop, monkeypatch)
        follow(source, act)

    monkeypatch.setattr(pipeline, "follow", late)
    run(follows=True, stop=stop)
    published = [row.to_cut for row in cut_rows(lake) if row.kind == "published"]
    run()

    assert published == [1, 2]
    assert shown(lake) == {"accounts": [3], "history": [0, 1, 2, 3]}
    reads = [bounds for read in pipeline.topics.reads for (topic, _), bounds in read.items() if topic == CUTS]
    assert max(end - start for start, end in reads) == 2


def test_half_a_transaction_is_never_published(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    """I8."""
    run()
    transfer(pipeline, 1)
    transfer(pipeline, 2, complete=False)
    run()
    assert [row.kind for row in cut_rows(lake)] == ["plan", "published", "plan", "applied"]
    assert published_history(lake) == [0]

    transfer(pipeline, 3)
    run()
    assert shown(lake) == {"accounts": [3], "history": [0, 1, 2, 3]}


def test_cuts_that_touch_nothing_are_followed_by_the_plan_after_them(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """They leave no row, and are read again, but not taken, when the plan behind them is finished."""
    run()
    pipeline.send(complete=False)
    run()
    pipeline.send(complete=False)
    too_many_for_one_plan = [Event(HISTORY, "c", 0x2000, n, after={"id": 1, "n": n + 1}) for n in range(5)]
    pipeline.send(*too_many_for_one_plan)
    assert killed_at("job:plan-open", run)
    run()

    assert [(row.kind, row.from_cut, row.to_cut) for row in cut_rows(lake)[-2:]] == [
        ("plan", 4, 4),
        ("published", 4, 4),
    ]
    assert shown(lake) == {"accounts": [0], "history": [0, 1, 2, 3, 4, 5]}


FAULTS = {
    "a cut is missing": {"cut_id": 9},
    "a cut comes twice": {"cut_id": 2},
    "an LSN is missing": {"previous_end_lsn": 0x9000, "end_lsn": 0x9001},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("read_before", [False, True])
def test_cuts_that_do_not_fit_together_stop_the_job_before_they_are_applied(
    pipeline: MemoryPipeline, run: Run, lake: Path, fault: str, read_before: bool
) -> None:
    """I7: in one read, and after a restart."""
    transfer(pipeline, 1)
    run()
    transfer(pipeline, 2)
    if read_before:
        run()
    transfer(pipeline, 3, **FAULTS[fault])

    with pytest.raises(OperatorError, match="the cuts do not fit together"):
        run()
    history = [0, 1, 2] if read_before else [0, 1]
    assert shown(lake) == {"accounts": [history[-1]], "history": history}


def test_cuts_topic_that_was_made_anew_stops_the_job(pipeline: MemoryPipeline, run: Run) -> None:
    """I7: its cuts may be others."""
    transfer(pipeline, 1)
    run()
    del pipeline.topics.records[CUTS, 0][1:]

    with pytest.raises(OperatorError, match="it was made anew"):
        run()


def test_open_plan_of_which_a_cut_is_gone_stops_the_job(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    """I5: a part of it would be applied as another plan."""
    run()
    transfer(pipeline, 1)
    pipeline.send()
    assert killed_at("job:plan-open", run)
    del pipeline.topics.records[CUTS, 0][-1]

    with pytest.raises(OperatorError, match="cannot be made again"):
        run()


def test_open_plan_over_other_versions_stops_the_job(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    """I5: its rows may be in the tables already."""
    run()
    transfer(pipeline, 1)
    assert killed_at("job:plan-open", run)
    opened = cut_rows(lake)[-1]
    others = tuple(replace(entry, version=(entry.version or 0) + 1) for entry in opened.tables)
    DeltaTable(str(lake / "_cuts")).delete(f"sequence = {opened.sequence}")
    Manifest(str(lake), PIPELINE, {}).append(replace(opened, tables=others))

    with pytest.raises(OperatorError, match="cannot be made again"):
        run()


def test_table_that_cannot_be_applied_fails_its_plan_where_the_settings_say_so(
    pipeline: MemoryPipeline, lake: Path
) -> None:
    """I8: the other tables are finished first, and nothing is published before the table is there again."""
    moved, other = lake / "public" / "accounts", lake / "public" / "history"
    with job_over(pipeline, lake, on_table_error="stop") as run:
        run()
        transfer(pipeline, 1)
        moved.rename(lake / "elsewhere")
        before = DeltaTable(str(other)).version()
        with pytest.raises(OperatorError, match="is gone") as stop:
            run()
        assert 'on_table_error = "quarantine"' in stop.value.remedy
        assert cut_rows(lake)[-1].kind == "plan"
        assert DeltaTable(str(other)).version() > before
        assert published_history(lake) == [0]

        (lake / "elsewhere").rename(moved)
        run()
    assert shown(lake) == {"accounts": [1], "history": [0, 1]}


def test_new_epoch_replaces_every_table_also_when_its_plan_is_finished_later(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I5, I8: cut ids begin anew, and cuts of the old epoch stand before them."""
    for n in (1, 2):
        transfer(pipeline, n)
    run()
    pipeline.send(complete=False)
    epoch = EPOCH._replace(consistent_point=0x9000)
    pipeline.last = replace(pipeline.last, epoch=epoch, cut_id=0, end_lsn=0x9000)
    barriers = [each for of in (ACCOUNTS, HISTORY) for each in copy_barriers(of, 0x9000)]
    copied = [Event(of, "r", 0x9000, -1, after={"id": 1, "n": 7}) for of in (ACCOUNTS, HISTORY)]
    pipeline.send(*copied, barriers=barriers)
    assert killed_at("job:plan-open", run)
    run()

    assert shown(lake) == {"accounts": [7], "history": [7]}
    assert [row.from_cut for row in cut_rows(lake)[-2:]] == [1, 1]


def test_new_epoch_is_published_with_its_own_tables_only(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    """I8: until every table of the new copy is there, readers keep the old state."""
    transfer(pipeline, 1)
    run()
    epoch = EPOCH._replace(consistent_point=0x9000)
    pipeline.last = replace(pipeline.last, epoch=epoch, cut_id=0, end_lsn=0x9000)
    begin, end = copy_barriers(HISTORY, 0x9000)
    pipeline.send(Event(HISTORY, "t", 0x9000, -1), barriers=[begin], complete=False)
    run()
    assert published_history(lake) == [0, 1]

    pipeline.send(Event(HISTORY, "r", 0x9000, -1, after={"id": 1, "n": 7}), barriers=[end])
    run()
    assert shown(lake) == {"history": [7]}


def test_truncate_takes_only_what_came_before_it(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    transfer(pipeline, 1)
    truncate = Barrier("truncate", Position(Lsn(0x3000), 0))
    pipeline.send(
        Event(HISTORY, "t", 0x3000, 0), Event(HISTORY, "c", 0x3000, 1, after={"id": 2, "n": 9}),
        barriers=[(HISTORY, truncate)],
    )  # fmt: skip
    run()

    assert shown(lake) == {"accounts": [1], "history": [9]}


def test_lake_that_is_empty_where_cuts_are_not_kept_from_the_first_is_asked_for_before_a_copy(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I8: its storage may not be mounted; the copy that the remedy names would be of no use."""
    transfer(pipeline, 1)
    run()
    lake.rename(lake.parent / "elsewhere")
    pipeline.topics.begins[CUTS, 0] = 2

    with pytest.raises(OperatorError, match="mount its storage or correct"):
        run()
    assert cut_rows(lake) == []


def test_lake_that_is_empty_where_all_cuts_are_kept_gets_every_state_again(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I8."""
    transfer(pipeline, 1)
    run()
    lake.rename(lake.parent / "elsewhere")
    run()

    assert shown(lake) == {"accounts": [1], "history": [0, 1]}


@pytest.mark.parametrize("origin", ["any", "none"])
def test_a_row_that_was_never_told_is_changed_only_where_the_source_does_not_tell_all(lake: Path, origin: str) -> None:
    """I7: with origin none, rows that came to the source by replication are told with their first change."""
    pipeline = begun()

    with job_over(pipeline, lake, origin=origin, on_table_error="stop") as run:
        run()
        pipeline.send(Event(ACCOUNTS, "u", 0x2000, 0, after={"id": 9, "n": 9}))
        if origin == "any":
            with pytest.raises(OperatorError, match="did not hold what the source changed"):
                run()
        else:
            run()
            assert shown(lake)["accounts"] == [0, 9]


def test_cuts_of_another_epoch_than_the_lake_has_are_told_with_both_places(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """Topics were restored from an older state, or the lake is that of another time."""
    run()
    transfer(pipeline, 1)
    run()
    before = cut_rows(lake)
    transfer(pipeline, 2, epoch=EPOCH._replace(consistent_point=Lsn(0x800)))

    with pytest.raises(OperatorError) as stopped:
        run()

    assert "the lake is at cut 2 of epoch 7000000000000000001-1-walbridge-0/1000, and" in stopped.value.what
    assert "goes on with cut 3 of epoch 7000000000000000001-1-walbridge-0/800" in stopped.value.what
    assert "[lake] path" in stopped.value.remedy
    assert cut_rows(lake) == before
