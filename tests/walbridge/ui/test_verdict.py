"""A pipeline in one line: the worst of what holds, and what mends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.walbridge.ui.statuses import AWAY, LOST, NOW, RUN, STATES, later
from walbridge.producer.postgres.slots.slot_row import Prepared, Source
from walbridge.schemas.control.run_record import NEVER_RAN, End, How, LastWords
from walbridge.schemas.control.table_progress import FIRST_COPY_WAITS
from walbridge.status.pipeline_status import Copying, Lake, LeftOut, PipelineStatus, Published
from walbridge.ui.verdict import Verdict, table_rows, verdict
from walbridge.verify.metrics import VerifyMetrics
from walbridge.verify.report import TableResult

EXPECTED = {
    "streaming": ("good", "streaming", None),
    "Kafka away": ("bad", "Kafka does not answer", "the pipeline goes on by itself"),
    "producer stopped": ("off", "the producer is stopped", "walbridge produce"),
    "job failed": ("bad", "the Spark job ended with an error", "walbridge copy --all"),
    "producer killed": ("bad", "the producer ended without a word", "walbridge produce"),
    "copied": ("busy", "copying 2 tables", None),
    "stale": ("attention", "1 table is not current", "walbridge copy"),
    "slot lost": ("bad", "the replication slot is lost", "walbridge copy --all"),
}


@pytest.mark.parametrize("name", STATES)
def test_state_is_told_with_what_mends_it(name: str) -> None:
    level, text, remedy = EXPECTED[name]
    found = verdict(STATES[name])

    assert (found.level, found.text) == (level, text)
    assert (remedy or "") in (found.remedy or "")


def test_worst_is_told_where_several_things_are_wrong() -> None:
    both = replace(STATES["stale"], job=LastWords(LOST, LOST))

    assert verdict(both).text == "the Spark job ended with an error"


def test_start_that_was_refused_after_a_kill_is_what_is_told() -> None:
    """The producer was killed, its slot dropped, and its supervisor started it again."""
    refused = RUN.ended(End(NOW + timedelta(seconds=60), How.REFUSED, 2, "the slot s is gone", "walbridge copy --all"))
    there = replace(STATES["producer killed"], producer=LastWords(RUN, replace(refused, run_id="2")))

    assert verdict(there) == Verdict("bad", "the producer ended with an error", "walbridge copy --all")


def test_pipeline_that_never_ran_is_off_and_its_first_copy_is_no_fault() -> None:
    there = replace(STATES["streaming"], producer=NEVER_RAN)
    first = replace(STATES["streaming"], published=Published("copying", None))

    assert verdict(there) == Verdict("off", "the producer was never started", "walbridge produce")
    assert verdict(first) == Verdict("busy", "copying")


def test_tables_that_wait_for_their_first_copy_need_nobody() -> None:
    waits = LeftOut("public.late", None, FIRST_COPY_WAITS)
    first = replace(STATES["streaming"], published=Published("streaming", None, (waits,)))

    assert verdict(first) == Verdict("busy", "copying 1 table")
    assert table_rows(first)[0].name == "public.late"


def test_lag_is_told_once_it_is_what_an_alert_would_tell() -> None:
    there = STATES["streaming"]
    assert isinstance(there.lake, Lake)
    assert there.lake.cut is not None
    cut = replace(there.lake.cut, commit_time=there.at - timedelta(seconds=901))

    assert verdict(replace(there, lake=replace(there.lake, cut=cut))).text == "the lake is 15 min 1 s behind"
    assert verdict(later(there, 0, 10**9)).level == "good"


def with_slot(**other: Any) -> PipelineStatus:
    there = STATES["streaming"]
    assert isinstance(there.source, Source)
    assert there.source.slot is not None
    return replace(there, source=replace(there.source, slot=replace(there.source.slot, **other)))


def test_slot_that_is_about_to_be_lost_is_told_before_it_is() -> None:
    found = verdict(with_slot(wal_status="unreserved", safe_wal_size_bytes=0))

    assert (found.level, found.text) == ("bad", "the replication slot is about to be lost")
    assert "max_slot_wal_keep_size" in (found.remedy or "")


def test_slot_that_is_gone_is_told_of_a_pipeline_that_has_streamed() -> None:
    there = STATES["producer stopped"]
    assert isinstance(there.source, Source)
    gone = replace(there, source=replace(there.source, slot=None))
    new = replace(gone, published=Published(None, None), producer=NEVER_RAN)

    found = verdict(gone)

    assert (found.level, found.text) == ("bad", "the replication slot does not exist")
    assert "walbridge copy --all" in (found.remedy or "")
    assert verdict(new) == Verdict("off", "the producer was never started", "walbridge produce")


def verifying(state: str, end: End | None = None) -> PipelineStatus:
    run = replace(RUN, program="verify", state=state, end=end)
    return replace(STATES["streaming"], verifier=LastWords(run, run if end else None, is_running=end is None))


def test_verifier_that_an_error_ended_is_told_and_one_that_was_stopped_is_not() -> None:
    failed = verifying("resting", End(NOW, How.REFUSED, 2, "the port is taken", "set metrics.verify_port"))
    killed = replace(failed, verifier=LastWords(replace(RUN, program="verify")))

    assert verdict(failed) == Verdict("attention", "verify ended with an error", "set metrics.verify_port")
    assert verdict(killed) == Verdict("attention", "verify ended without a word", "walbridge verify --every")
    assert verdict(verifying("resting", End(NOW, How.STOPPED, 0))).level == "good"
    assert verdict(verifying("resting; at 2026-01-31 12:00Z: 7 of 7 tables equal")).level == "good"


def test_difference_that_verify_found_is_told_for_a_day() -> None:
    metrics = VerifyMetrics("shop", 3600, 60)
    metrics.found(TableResult("public.a, b", "current", 7, counts={"different": 1}))
    metrics.run_ended(["public.a, b"])
    now = datetime.now(UTC)

    found = verdict(replace(verifying(metrics.summary), at=now))

    assert (found.level, found.text) == ("attention", "verify found that public.a, b differed from its source")
    assert verdict(replace(verifying(metrics.summary), at=now + timedelta(days=1, minutes=2))).level == "good"


def test_prepared_transaction_is_told_once_it_is_what_an_alert_would_tell() -> None:
    found = verdict(with_slot(prepared=Prepared(1, "tx-7", 3601)))

    assert (found.level, found.text) == ("attention", "a prepared transaction has not ended for 1 h 0 min")
    assert "ROLLBACK PREPARED" in (found.remedy or "")
    assert verdict(with_slot(prepared=Prepared(1, "tx-7", 3599))).level == "good"


def test_lake_without_a_published_state_is_being_filled() -> None:
    there = STATES["streaming"]
    assert isinstance(there.lake, Lake)

    empty = verdict(replace(there, lake=replace(there.lake, cut=None)))

    assert empty == Verdict("busy", "nothing is published in the lake yet")


def test_first_copy_is_told_before_that_nothing_is_published_yet() -> None:
    there = STATES["streaming"]
    assert isinstance(there.lake, Lake)
    published = Published("copying", None, copying=(Copying("public.orders", 12, 90, None),))

    assert verdict(replace(there, published=published, lake=replace(there.lake, cut=None))).text == "copying 1 table"


def test_tables_that_need_somebody_come_first_and_those_that_are_copied_next() -> None:
    rows = table_rows(STATES["stale"])
    copied = table_rows(STATES["copied"])

    assert (rows[0].name, rows[0].state) == ("public.log", "stale")
    assert [(row.name, row.state, row.share) for row in copied] == [
        ("public.events", "copying", 0.43),
        ("public.orders", "current", None),
        ("public.<b>", "current", None),
    ]


def test_lake_of_another_pipeline_shows_none_of_its_tables() -> None:
    lake = STATES["streaming"].lake
    assert isinstance(lake, Lake)
    foreign = replace(STATES["streaming"], lake=replace(lake, pipeline="other"))

    assert (verdict(foreign).text, table_rows(foreign)) == ("the lake belongs to another pipeline", [])
    assert "give this pipeline its own [lake] path" in (verdict(foreign).remedy or "")
    assert table_rows(replace(foreign, lake=AWAY)) == []
