"""Plans whose records are on the driver's disk: decoded column by column, or one by one where they are not plain."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract_writer import Event
from tests.spark_consumer.events import (
    PIPELINE,
    Log,
    column,
    copied,
    head_rows,
    plan_of,
    relation,
    table_plan,
    values,
)
from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.apply.apply import apply_table
from walbridge.spark_consumer.apply.job_lake import JobLake
from walbridge.spark_consumer.fold import local_fold
from walbridge.spark_consumer.kafka.many import spooled_records
from walbridge.spark_consumer.kafka.many.plans_on_driver import PlansOnDriver
from walbridge.spark_consumer.kafka.many.spooled_records import SpooledRecords
from walbridge.spark_consumer.plan.plan import TableHead

T = relation([column("id", "int8", is_key=True), column("v"), column("d", "date")])
PLANS, CHANGES = 12, 60


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooled_records, "CHUNK_ROWS", 7)


def applied(lake: Path, head: TableHead, log: Log, found: SpooledRecords, to_cut: int) -> TableHead:
    part = table_plan(T, head)
    records = replace(log.on_driver(T.topic), spooled=found)
    job_lake = JobLake(str(lake), PIPELINE, source_sends_all=True)
    return apply_table(job_lake, records, {T.schema_id: T}, part, plan_of(to_cut, [part], len(log.rows)))


def changed(lake: Path, head: TableHead, *events: Event, to_cut: int = 2) -> TableHead:
    """The head after a plan of these events."""
    log = Log()
    for event in events:
        log.add(event)
    with closing(log.on_disk()) as found:
        return applied(lake, head, log, found, to_cut)


def random_changes(chooser: random.Random, rows: dict[int, Any], plan: int) -> list[Event]:
    """Changes that the source could make, and ``rows`` as they leave them; some keys come more than once."""
    events = []
    for number in range(CHANGES):
        key, lsn = chooser.randrange(40), 0x1000 * plan + number
        after = {"id": key, "v": chooser.choice(["", "ä", "x" * 50, None]), "d": None}
        if key not in rows:
            events.append(Event(T, "c", lsn, 0, after=after))
            rows[key] = after
        elif chooser.random() < 0.3:
            events.append(Event(T, "d", lsn, 0, before={"id": key}, before_image="key"))
            del rows[key]
        else:
            events.append(Event(T, "u", lsn, 0, after=after))
            rows[key] = after
    return events


@pytest.mark.parametrize("seed", range(3))
def test_the_table_equals_the_source_after_each_plan(lake: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """I5, I8"""
    chooser = random.Random(seed)
    rows: dict[int, Any] = {1: {"id": 1, "v": "x", "d": None}}
    head = copied(None, lake, T, rows[1])
    monkeypatch.setattr(local_fold, "fold_by_key", lambda *_: pytest.fail("not decoded by columns"))
    for plan in range(2, PLANS):
        head = changed(lake, head, *random_changes(chooser, rows, plan), to_cut=plan)
        assert values(head_rows(lake, head)) == sorted(rows.values(), key=repr)


@pytest.mark.parametrize("at", [0, CHANGES - 1], ids=["first", "after some slices"])
def test_one_record_that_is_not_plain_has_the_segment_folded_one_by_one(lake: Path, at: int) -> None:
    """I6: nothing of it is written before."""
    head = copied(None, lake, T, {"id": 1, "v": "kept"})
    events = [Event(T, "c", 0x2000 + n, 0, after={"id": 10 + n, "v": "x"}) for n in range(CHANGES)]
    events[at] = Event(T, "u", 0x2000 + at, 0, after={"id": 1}, unchanged=["v"])
    after = changed(lake, head, *events)

    assert after.version == head.version + 1
    rows = {row["id"]: row["v"] for row in head_rows(lake, after)}
    assert rows[1] == "kept"
    assert len(rows) == CHANGES


def test_a_topic_that_is_not_plain_is_tried_again_after_some_plans() -> None:
    plans = PlansOnDriver()
    plans.add_not_plain("t")
    assert [plans.suits({"t": 6, "other": 5}) for _ in range(6)] == [False] * 4 + [True] * 2
    plans.add_not_plain("t")
    assert plans.suits({"t": 5, "other": 6})


def test_a_plan_with_a_topic_of_large_values_is_tried_again_after_some_plans() -> None:
    plans = PlansOnDriver()
    plans.add_refused("t")
    assert [plans.suits({"t": 1, "other": 99}) for _ in range(6)] == [False] * 4 + [True] * 2


def test_a_record_that_does_not_decode_is_named(lake: Path) -> None:
    """I7"""
    head = copied(None, lake, T, {"id": 1})
    log = Log()
    for number in range(20):
        log.add(Event(T, "c", 0x2000 + number, 0, after={"id": 10 + number}))
    log.rows[13]["value"] = bytes(log.rows[13]["value"])[:-1]  # type: ignore[call-overload]
    with closing(log.on_disk()) as found, pytest.raises(TableError, match="partition 0 offsets 13 to 13"):
        applied(lake, head, log, found, 2)
