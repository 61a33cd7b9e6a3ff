"""Records that cannot be taken, or are lost, are the trouble of their table alone; a copy mends it (I7, I8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.contract_events import Event, copied, copy_begin, copy_end
from tests.in_soak import others_in_variants
from tests.spark_consumer.events import column, relation
from tests.spark_consumer.memory_pipeline import CUTS, MemoryPipeline
from tests.spark_consumer.two_tables import (
    ACCOUNTS,
    Run,
    accounts,
    copy_again,
    cut_rows,
    history,
    killed_at,
    rows_of,
    transfer,
)
from walbridge.schemas.control.cut import Barrier, encode_cut
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.kafka.decided_log import RecordsLost, TopicGone

TEXT = relation([column("id", "int4", is_key=True), column("n")], name="accounts", relation_id=1, revision=1)
MORE = relation([column("id", "int4", is_key=True), column("n"), column("m", "int4")], name="more", relation_id=3)


POINTS = ("apply:segment-applied", "job:table-applied", "job:before-publish")
UNTOLD = {
    "an update of no row": Event(ACCOUNTS, "u", 0x2000, 0, after={"id": 9, "n": 9}),
    "a delete of no row": Event(ACCOUNTS, "d", 0x2000, 0, before={"id": 9}, before_image="key"),
}


@pytest.mark.parametrize("point", others_in_variants(POINTS, ["job:table-applied"]))
@pytest.mark.parametrize("case", UNTOLD)
def test_table_that_does_not_hold_what_the_source_changed_is_stale_also_after_a_death(
    pipeline: MemoryPipeline, run: Run, lake: Path, case: str, point: str
) -> None:
    """I7, I8: it was not what the source was; what the merge made of it is not shown."""
    run()
    certain = cut_rows(lake)[-1]
    pipeline.send(UNTOLD[case], Event(ACCOUNTS, "u", 0x2000, 1, after={"id": 1, "n": 5}))
    killed_at(point, run)
    transfer(pipeline, 1)
    run()

    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, entry.since, entry.version) == ("stale", certain.end_lsn, accounts(certain).version)
    assert "did not hold what the source changed" in (entry.why or "")
    assert rows_of(lake, entry) == [0]
    assert history(lake) == [0, 1]
    copy_again(pipeline, 1)
    run()
    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, rows_of(lake, entry)) == ("current", [1])


def test_half_applied_table_shows_nothing_of_it(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    """I8: the first segment is committed, the second cannot be: readers have the version before both."""
    pipeline.announce(TEXT)
    run()
    altered = Barrier("shape", Position(Lsn(0x3000), 1), TEXT.schema_id)
    pipeline.send(
        Event(ACCOUNTS, "u", 0x3000, 0, after={"id": 1, "n": 7}),
        Event(TEXT, "u", 0x3000, 1, after={"id": 1, "n": "8"}),
        barriers=[(TEXT, altered)],
    )
    run()

    entry = accounts(cut_rows(lake)[-1])
    assert DeltaTable(f"{lake}/{entry.path}").version() > (entry.version or 0)
    assert (entry.state, rows_of(lake, entry)) == ("stale", [0])
    assert "was int4 and is text now" in (entry.why or "")


def change_newest(pipeline: MemoryPipeline, change: Callable[[bytes], bytes]) -> None:
    """The last record has other bytes."""
    value = pipeline.log.rows[-1]["value"]
    assert isinstance(value, bytes)
    pipeline.log.rows[-1] = pipeline.log.rows[-1] | {"value": change(value)}


def cut_off(value: bytes) -> bytes:
    return value[:-3]


RECORDS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "unreadable": (cut_off, "though they say so"),
    "foreign": (lambda _: b"{}", "holds 1 records that walbridge did not write"),
    "of an unknown schema": (lambda value: value[:2] + bytes(8) + value[10:], "which the metadata topic does not hold"),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_table_with_a_record_that_cannot_be_taken_is_quarantined_and_others_go_on(
    pipeline: MemoryPipeline, run: Run, lake: Path, kind: str
) -> None:
    """I7: whoever wrote it may write another one, also into a copy; somebody has to look first."""
    run()
    change, why = RECORDS[kind]
    pipeline.send(Event(ACCOUNTS, "u", 0x2000, 0, after={"id": 1, "n": 1}))
    change_newest(pipeline, change)
    transfer(pipeline, 1)
    run()

    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, why in (entry.why or "")) == ("quarantined", True)
    assert history(lake) == [0, 1]
    copy_again(pipeline, 1)
    run()
    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, rows_of(lake, entry)) == ("current", [1])


def test_a_copy_that_fails_at_its_end_leaves_the_table_as_it_was_and_the_next_copy_mends_it(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I8: also one whose first copy it is, of which the lake has nothing."""
    run()
    pipeline.announce(MORE)
    for _ in (1, 2):
        marker, begin = copy_begin(MORE, 0x3000)
        pipeline.send(marker, *copied(MORE, 0x3000, {"id": 1, "n": "1"}), barriers=[begin])
        change_newest(pipeline, cut_off)
        marker, end = copy_end(MORE, 0x3000)
        pipeline.send(marker, barriers=[end])
        transfer(pipeline, 1)
        run()
        (entry,) = (entry for entry in cut_rows(lake)[-1].tables if entry.name == "more")
        assert (entry.state, entry.version, entry.copy_from) == ("quarantined", None, None)

    pipeline.send(Event(MORE, "c", 0x5000, 0, after={"id": 5, "n": "5"}))
    marker, begin = copy_begin(MORE, 0x6000)
    pipeline.send(marker, *copied(MORE, 0x6000, {"id": 1, "n": "1"}), barriers=[begin])
    marker, end = copy_end(MORE, 0x6000)
    pipeline.send(marker, barriers=[end])
    run()
    (entry,) = (entry for entry in cut_rows(lake)[-1].tables if entry.name == "more")
    assert (entry.state, rows_of(lake, entry)) == ("current", ["1"])


def test_unknown_value_of_a_row_that_the_lake_does_not_hold_leaves_its_table(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I6."""
    pipeline.announce(MORE)
    pipeline.copy(MORE, id=1, n="x", m=1)
    run()
    pipeline.send(Event(MORE, "u", 0x2000, 0, after={"id": 9, "n": None, "m": 2}, unchanged=["n"]))
    transfer(pipeline, 1)
    run()

    (entry,) = (entry for entry in cut_rows(lake)[-1].tables if entry.name == "more")
    assert (entry.state, rows_of(lake, entry)) == ("stale", ["x"])
    assert "leave out columns of rows that the lake does not hold" in (entry.why or "")
    assert history(lake) == [0, 1]


def test_changes_of_a_table_that_the_lake_holds_no_copy_of_leave_it_and_nobody_else(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I7: also in cuts that leave no row of their own."""
    run()
    pipeline.announce(MORE)
    pipeline.send(Event(MORE, "c", 0x1800, 0, after={"id": 1, "n": "1"}), complete=False)
    run()
    transfer(pipeline, 1)
    assert killed_at("job:plan-open", run)
    run()

    (entry,) = (entry for entry in cut_rows(lake)[-1].tables if entry.name == "more")
    assert (entry.state, entry.version, "holds no copy of" in (entry.why or "")) == ("stale", None, True)
    assert history(lake) == [0, 1]


def test_table_whose_records_are_lost_is_stale_and_its_others_go_on(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I7: they are asked for no more."""
    run()
    pipeline.lost[ACCOUNTS.topic] = RecordsLost("records are gone")
    transfer(pipeline, 1)
    run()
    pipeline.lost.clear()
    transfer(pipeline, 2)
    run()

    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, entry.why, rows_of(lake, entry)) == ("stale", "records are gone", [0])
    assert history(lake) == [0, 1, 2]


def test_records_that_are_lost_before_an_empty_lake_was_filled_stop_the_job(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I8: its storage may not be mounted, and the copy that would mend a table is of no use then."""
    pipeline.lost[ACCOUNTS.topic] = RecordsLost("records are gone")

    with pytest.raises(OperatorError, match=r"was empty at the start, and records are gone"):
        run()
    assert [row.kind for row in cut_rows(lake)] == ["plan"]


def test_topic_that_is_gone_before_an_empty_lake_was_filled_is_its_tables_trouble(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I8: nobody can have what was in it, so no mount and no copy of everything would bring it back."""
    pipeline.lost[ACCOUNTS.topic] = TopicGone("the topic is gone")
    run()

    (entry,) = (entry for entry in cut_rows(lake)[-1].tables if entry.topic == ACCOUNTS.topic)
    assert (entry.state, entry.version, entry.why) == ("stale", None, "the topic is gone")


def test_cut_that_counts_wrongly_in_one_table_leaves_that_table(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    """I7: from the state before it on, and again where the plan is made again."""
    run()
    certain = cut_rows(lake)[-1].end_lsn
    transfer(pipeline, 1)
    told = pipeline.last
    pipeline.topics.records[CUTS, 0].pop()
    wrong = tuple(replace(of, row_count=of.row_count + (of.topic == ACCOUNTS.topic)) for of in told.tables)
    pipeline.last = replace(told, tables=wrong)
    pipeline.topics.add(CUTS, encode_cut(pipeline.last))
    assert killed_at("job:plan-open", run)
    run()

    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, entry.since, rows_of(lake, entry)) == ("stale", certain, [0])
    assert "counts the records of p.public.accounts differently" in (entry.why or "")
    assert history(lake) == [0, 1]
